// Embeddings of Gemini: POST …:batchEmbedContents, one request for each input.

import type { JsonObject } from '../../conversation/request.ts'
import { notVectors, textsOf, vectorOf } from '../embeddings/inputs.ts'
import type { EmbeddingAnswer, EmbeddingOutbound } from '../embeddings/embeddings.ts'
import { passedOn, warnInto, warnOfUnknown } from '../lowering.ts'
import { isObject } from '../json.ts'
import type { Warning } from '../protocol.ts'
import { faultIn } from './outbound/fault.ts'
import { usageOf } from './outbound/usage.ts'

/** Parameters of a text, by Google's names. */
const known: ReadonlySet<string> = new Set(['taskType', 'title'])

export const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model, quirks }) {
    const warnings: Warning[] = []
    const warn = warnInto(warnings)
    warnOfUnknown({ user }, warn)
    const name = `models/${model.replace(/^models\//, '')}`
    const each: JsonObject = {
      model: name,
      ...passedOn(googleNames(rest), known, warn),
      ...(dimensions === undefined ? {} : { outputDimensionality: dimensions }),
    }
    return {
      path: `${quirks.modelsPath}/${encodeURIComponent(name.slice('models/'.length))}:batchEmbedContents`,
      headers: {},
      body: { requests: textsOf(inputs).map((text) => ({ ...each, content: { parts: [{ text }] } })) },
      warnings,
    }
  },
  read,
}

/** Clients write `task_type` as Google's own libraries do. */
function googleNames({ task_type, ...rest }: JsonObject): JsonObject {
  return task_type === undefined ? rest : { taskType: task_type, ...rest }
}

function read(body: unknown): EmbeddingAnswer {
  const fault = faultIn(body)
  if (fault) return { kind: 'fault', fault }
  if (!isObject(body) || !Array.isArray(body['embeddings'])) return notVectors()
  const vectors = body['embeddings'].flatMap((item) => {
    const vector = isObject(item) ? vectorOf(item['values']) : undefined
    return vector === undefined ? [] : [vector]
  })
  const counters = body['usageMetadata']
  const prompt = isObject(counters) ? counters['promptTokenCount'] : undefined
  const usage = typeof prompt === 'number' ? usageOf({ promptTokenCount: prompt }, {}) : undefined
  return { kind: 'vectors', vectors, usage, id: undefined }
}
