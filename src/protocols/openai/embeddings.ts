// Embeddings of providers that speak OpenAI's API: POST …/embeddings.

import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import {
  type EmbeddingAnswer,
  type EmbeddingOutbound,
  notVectors,
  textsOf,
  vectorOf,
} from '../embeddings/embeddings.ts'
import { passedOn, type Warning, warnInto } from '../lowering.ts'
import { faultInside } from './fault.ts'
import { isObject, nonEmpty } from '../lenient.ts'
import { usageIn } from './usage.ts'

/** Server-specific parameters for the kind of text; an unknown field might have a price. */
const known: ReadonlySet<string> = new Set([
  'add_special_tokens',
  'embedding_type',
  'input_type',
  'instruct',
  'instruction',
  'late_chunking',
  'normalize',
  'normalized',
  'output_dtype',
  'prompt_name',
  'task',
  'task_type',
  'text_type',
  'truncate',
  'truncate_prompt_tokens',
  'truncation',
])

export const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model, quirks }) {
    const warnings: Warning[] = []
    if (user !== undefined && !quirks.user)
      warnings.push({ param: 'user', message: 'The provider has no such parameter; dropped.' })
    return {
      path: quirks.path,
      headers: {},
      body: {
        ...passedOn(rest, known, warnInto(warnings)),
        model,
        input: quirks.tokens ? inputs.map((input) => copyOf(input)) : [...textsOf(inputs)],
        ...(quirks.format === 'base64' ? { encoding_format: 'base64' } : {}),
        ...(dimensions === undefined ? {} : { [quirks.dimensionsField]: dimensions }),
        ...(user === undefined || !quirks.user ? {} : { user }),
      },
      warnings,
    }
  },
  read,
}

function copyOf(input: string | readonly number[]): string | number[] {
  return typeof input === 'string' ? input : [...input]
}

function read(body: unknown): EmbeddingAnswer {
  const fault = faultInside(body)
  if (fault) return { kind: 'fault', fault }
  if (!isObject(body) || !Array.isArray(body.data)) return notVectors()
  const vectors = body.data
    .filter(isObject)
    .map((item, at) => ({ at: typeof item.index === 'number' ? item.index : at, item }))
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ item }) => {
      const vector = vectorOf(item.embedding)
      return vector === undefined ? [] : [vector]
    })
  return { kind: 'vectors', vectors, usage: usageOfVectors(body), id: nonEmpty(body.id) }
}

/** Vectors are no output: a total without a completion, or beyond the prompt, is of the prompt. */
function usageOfVectors(body: JsonObject): Usage | undefined {
  const { usage } = body
  return usageIn(isObject(usage) ? { ...body, usage: { completion_tokens: 0, ...usage } } : body, counters)
}

/** Counters lie where chat has them. A cost that comes along is the price only where the provider's row says so. */
const counters = {
  reasoningTokens: 'inside',
  totalCorrects: 'prompt',
  reportedCost: 'usage.cost',
} as const
