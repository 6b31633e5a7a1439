// Cohere's protocol (version 2), spoken to a provider: its parts put together, and its embeddings.

import { count, disjoint } from '../../conversation/usage.ts'
import {
  type EmbeddingAnswer,
  type EmbeddingOutbound,
  notVectors,
  textsOf,
  vectorOf,
} from '../embeddings/embeddings.ts'
import { isObject, nonEmpty } from '../lenient.ts'
import { passedOn, type Warning, warnInto, warnOfUnknown } from '../lowering.ts'
import type { Outbound } from '../protocol.ts'
import { lower } from './lower.ts'
import { faultOf, parseWhole, streamParser } from './parse.ts'
import { type CohereQuirks, defaultQuirks } from './schema.ts'

// Embeddings: POST …/embed.

/** Cohere's own parameters, passed on unchanged. */
const known: ReadonlySet<string> = new Set(['input_type', 'truncate', 'max_tokens', 'priority'])

const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model }) {
    const warnings: Warning[] = []
    const warn = warnInto(warnings)
    warnOfUnknown({ user }, warn)
    return {
      path: '/embed',
      headers: {},
      body: {
        // Cohere requires the purpose of the vectors, which OpenAI's API has no field for.
        input_type: 'search_document',
        ...passedOn(rest, known, warn),
        model,
        texts: [...textsOf(inputs)],
        embedding_types: ['float'],
        ...(dimensions === undefined ? {} : { output_dimension: dimensions }),
      },
      warnings,
    }
  },
  read,
}

function read(body: unknown): EmbeddingAnswer {
  const made = isObject(body) ? body['embeddings'] : undefined
  // Older versions return the bare list unless a type is requested.
  const list = isObject(made) ? made['float'] : made
  if (!isObject(body) || !Array.isArray(list)) return notVectors()
  const vectors = list.map(vectorOf).filter((vector) => vector !== undefined)
  const meta = isObject(body['meta']) ? body['meta'] : {}
  const units = isObject(meta['billed_units']) ? meta['billed_units'] : undefined
  const usage =
    units === undefined
      ? undefined
      : disjoint({
          prompt: count(units['input_tokens']) + count(units['image_tokens']),
          completion: 0,
          inputImage: count(units['image_tokens']),
        })
  return { kind: 'vectors', vectors, usage, id: nonEmpty(body['id']) }
}

// The protocol.

export const outbound: Outbound<CohereQuirks> = {
  id: 'cohere',
  framing: 'sse',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: false,
  textResults: true,
  lower,
  whole: parseWhole,
  parser: streamParser,
  fault: faultOf,
  ignores: () => [],
  embeddings,
}
