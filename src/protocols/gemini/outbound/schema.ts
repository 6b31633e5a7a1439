// The answers of Gemini and Vertex, read leniently: a field of the wrong type counts as absent, unknown fields are
// kept. Google's JSON omits zeros, false and empty strings.

import {
  anyObject,
  anything,
  flag,
  list,
  number,
  object,
  position,
  text,
  type ValueRead,
} from '../../lenient.ts'

const partialArg = object({
  jsonPath: text,
  stringValue: text,
  numberValue: number,
  boolValue: flag,
  nullValue: anything,
  willContinue: flag,
})

const functionCall = object({
  id: text,
  name: text,
  args: anyObject,
  partialArgs: list(partialArg),
  willContinue: flag,
})

const part = object({
  text,
  thought: flag,
  thoughtSignature: text,
  functionCall,
  inlineData: object({ mimeType: text, data: text }),
})

const tokenDetail = object({ modality: text, tokenCount: number })

const usageMetadata = object({
  promptTokenCount: number,
  candidatesTokenCount: number,
  thoughtsTokenCount: number,
  toolUsePromptTokenCount: number,
  cachedContentTokenCount: number,
  totalTokenCount: number,
  promptTokensDetails: list(tokenDetail),
  cacheTokensDetails: list(tokenDetail),
  candidatesTokensDetails: list(tokenDetail),
  toolUsePromptTokensDetails: list(tokenDetail),
  // Vertex and the Gemini API use different names for the service tier.
  trafficType: text,
  serviceTier: text,
})

const source = object({ uri: text, title: text })

const groundingMetadata = object({
  webSearchQueries: list(text),
  // A web page, a document of the caller, or a place on the map.
  groundingChunks: list(object({ web: source, retrievedContext: source, maps: source })),
  groundingSupports: list(
    object({
      segment: object({ startIndex: number, endIndex: number, text }),
      groundingChunkIndices: list(number),
    }),
  ),
})

const tokenLogprob = object({ token: text, logProbability: number })

const candidate = object({
  index: position,
  content: object({ parts: list(part) }),
  finishReason: text,
  finishMessage: text,
  groundingMetadata,
  citationMetadata: object({
    citations: list(object({ startIndex: number, endIndex: number, uri: text, title: text })),
  }),
  logprobsResult: object({
    chosenCandidates: list(tokenLogprob),
    topCandidates: list(object({ candidates: list(tokenLogprob) })),
  }),
})

/** An answer, or a chunk of a streamed one: they have the same shape. */
export const readChunk = object({
  responseId: text,
  modelVersion: text,
  candidates: list(candidate),
  promptFeedback: object({ blockReason: text, blockReasonMessage: text }),
  usageMetadata,
  error: anything,
})

/** Google's error object, in error statuses and streams. */
export const readError = object({
  code: number,
  message: text,
  status: text,
  details: list(
    object({
      reason: text,
      retryDelay: text,
      violations: list(object({ quotaId: text })),
      fieldViolations: list(object({ field: text })),
    }),
  ),
})

export type Chunk = ValueRead<typeof readChunk>
export type AnswerCandidate = ValueRead<typeof candidate>
export type Part = ValueRead<typeof part>
export type PartialArg = ValueRead<typeof partialArg>
export type UsageMetadata = ValueRead<typeof usageMetadata>
export type TokenDetail = ValueRead<typeof tokenDetail>
export type GroundingMetadata = ValueRead<typeof groundingMetadata>
export type CitationMetadata = NonNullable<AnswerCandidate['citationMetadata']>
export type LogprobsResult = NonNullable<AnswerCandidate['logprobsResult']>
