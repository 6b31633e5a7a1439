// Gemini's protocol, spoken to Google and Vertex: its parts put together, and its embeddings.

import type { JsonObject } from '../../../conversation/request.ts'
import {
  type EmbeddingAnswer,
  type EmbeddingOutbound,
  notVectors,
  type Outbound,
  type Target,
  textsOf,
  vectorOf,
} from '../../protocol.ts'
import { isObject } from '../../lenient.ts'
import { passedOn, type Warning, warnInto, warnOfUnknown } from '../../lowering.ts'
import { withinLimits } from '../../names.ts'
import { faultIn, faultOf, usageOf } from './schema.ts'
import { lower, ownSearch, readsUrl } from './lower.ts'
import { AnswerParser, wholeAnswer } from './parse.ts'
import { defaultQuirks, type GeminiQuirks, traitsFor } from './quirks.ts'

// Embeddings: POST …:batchEmbedContents, one request for each input.

/** Parameters of a text, by Google's names. */
const known: ReadonlySet<string> = new Set(['taskType', 'title'])

const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model, quirks }) {
    const warnings: Warning[] = []
    const warn = warnInto(warnings)
    warnOfUnknown({ user }, warn)
    // Clients write `task_type` as Google's own libraries do.
    const { task_type, ...others } = rest
    const own = task_type === undefined ? rest : { taskType: task_type, ...others }
    const name = `models/${model.replace(/^models\//, '')}`
    const each: JsonObject = {
      model: name,
      ...passedOn(own, known, warn),
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

/** What reading the answer of this target depends on. */
function readingFor(target: Target<GeminiQuirks>) {
  const { clientSpeaksIt, document } = target
  return { traits: traitsFor(target), clientSpeaksIt: clientSpeaksIt === true, document: document === true }
}

// The protocol.

export const outbound: Outbound<GeminiQuirks> = withinLimits<GeminiQuirks>({
  id: 'gemini',
  framing: 'sse',
  auth: { kind: 'header', header: 'x-goog-api-key' },
  defaultQuirks,
  inlinesUrls: true,
  readsGoogleFields: true,
  readsUrl: (url, target) => readsUrl(url, target.quirks.readsUrls),
  lower,
  ownSearch,
  whole: (body, target) => wholeAnswer(body, readingFor(target)),
  parser: (target, choices = 1) => new AnswerParser(readingFor(target), choices),
  fault: (status, headers, body) => faultOf(status, headers, body),
  ignores: () => [],
  embeddings,
})
