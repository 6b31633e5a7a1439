// The catalog as Anthropic's Models API lists it, for clients that speak the Messages protocol.

import { z } from 'zod'
import type { Model } from '../model.ts'
import { createdOf } from './models.ts'

const time = z.string().describe('RFC 3339.')

export const anthropicModelSchema = z.lazy(() =>
  z.object({
    id: z.string().describe('provider/model_name: what to send as `model`.'),
    type: z.literal('model'),
    display_name: z.string(),
    created_at: time,
    capabilities: z
      .null()
      .describe('Not told here: `supported_parameters` of the other shape names what a model honours.'),
    lifecycle: z.enum(['active', 'deprecated']),
    deprecated_at: z.null(),
    retires_at: time.nullable(),
    line: z.null(),
    max_input_tokens: z.int().nullable(),
    max_tokens: z.int().nullable(),
  }),
)

export const anthropicModelListSchema = z.lazy(() =>
  z.object({
    data: z.array(anthropicModelSchema),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  }),
)

type AnthropicModel = z.infer<typeof anthropicModelSchema>

/** The model for Anthropic's clients. */
export function anthropicModel(model: Model): AnthropicModel {
  const { deprecation } = model
  return {
    id: model.id,
    type: 'model',
    display_name: model.name,
    created_at: new Date(createdOf(model) * 1000).toISOString(),
    capabilities: null,
    lifecycle: deprecation === undefined ? 'active' : 'deprecated',
    deprecated_at: null,
    retires_at: deprecation === undefined ? null : `${deprecation.retiresOn}T00:00:00Z`,
    line: null,
    max_input_tokens: model.contextLength ?? null,
    max_tokens: model.maxOutputTokens ?? null,
  }
}

/** The requested part of the list: at most `limit` models, after or before the model with an id. */
export interface ModelPage {
  readonly limit: number
  readonly afterId: string | undefined
  readonly beforeId: string | undefined
}

/** One page of these models; after an unknown id it begins at the first model. */
export function anthropicModelList(
  models: readonly Model[],
  { limit, afterId, beforeId }: ModelPage,
): z.infer<typeof anthropicModelListSchema> {
  const at = (id: string | undefined) => models.findIndex((model) => model.id === id)
  const before = at(beforeId)
  const from = before < 0 ? at(afterId) + 1 : Math.max(0, before - limit)
  const page = models.slice(from, before < 0 ? from + limit : before)
  return {
    data: page.map(anthropicModel),
    has_more: before < 0 ? from + limit < models.length : from > 0,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  }
}
