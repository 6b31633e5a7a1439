// The schemas of model lists, for the API documentation.

import { z } from 'zod'
import { pools } from '../../credits/pool.ts'
import { modalities } from '../row.ts'

const usd = z.string().describe('US dollars per token (per call for fees), an exact decimal string.')

export const ratesSchema = z.object({
  prompt: usd,
  completion: usd,
  input_cache_read: usd,
  input_cache_write: usd,
  input_cache_write_1h: usd,
  internal_reasoning: usd.optional().describe('Only where reasoning does not cost what output costs.'),
  input_audio: usd.optional().describe('Only where it does not cost what text costs; so the three below.'),
  output_audio: usd.optional(),
  input_image: usd.optional(),
  output_image: usd.optional(),
})

const tierSchema = ratesSchema.extend({
  above_prompt_tokens: z
    .int()
    .describe('Applies to the whole call when its prompt has more tokens than this.'),
})

export const modelObjectSchema = z.object({
  id: z.string().describe('provider/model_name: what to send as `model`.'),
  object: z.literal('model'),
  created: z
    .int()
    .describe('Seconds since 1970 of its release, or of its price where the release is unknown.'),
  owned_by: z.string(),
  name: z.string(),
  description: z.string(),
  context_length: z.int().nullable().describe('Tokens of prompt and output together; null where unknown.'),
  context_window: z.int().nullable().describe('The same figure, for clients that read this name.'),
  max_model_len: z.int().nullable().describe('The same figure, for clients that read this name.'),
  max_output_tokens: z.int().nullable(),
  architecture: z.object({
    input_modalities: z.array(z.enum(modalities)),
    output_modalities: z.array(z.enum(modalities)),
  }),
  pricing: ratesSchema.extend({
    request: usd
      .optional()
      .describe('For the call itself, whatever its tokens; only where there is such a fee.'),
    web_search: usd.nullable().describe('Per search that the provider runs itself; null where it does not.'),
    tiers: z.array(tierSchema),
  }),
  supported_parameters: z.array(z.string()),
  access: z
    .enum(['open', 'premium'])
    .describe('premium: needs purchased credit, in the app also a subscription.'),
  flash_class: z
    .boolean()
    .describe(
      'Whether the daily allowance pays for it: at most 0.50 USD per million input tokens, cached ones included, and ' +
        '2.50 USD per million output tokens. Judged for each call; a prompt that reaches a dearer tier is not paid for.',
    ),
  pools: z
    .array(z.enum(pools))
    .describe('The pools that pay for it in the app, in the order they are spent.'),
  price_source: z.string(),
  price_date: z.string().describe('ISO date on which the price was known to hold.'),
  deprecation: z
    .object({ retires_on: z.string(), successor: z.string().nullable() })
    .nullable()
    .describe('The last day it is served, where one is announced.'),
})

export const modelListSchema = z.object({ object: z.literal('list'), data: z.array(modelObjectSchema) })
