// What Gemini and Vertex answer, read leniently: a field that has the wrong type counts as absent, and fields
// nobody here has heard of are let through. Google's JSON leaves out zeros, false and empty strings.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

const text = z.string().optional().catch(undefined)
const flag = z.boolean().optional().catch(undefined)
const number = z.number().optional().catch(undefined)
const listOf = <T extends z.ZodType>(item: T) => z.array(item).optional().catch(undefined)
const objectOf = <T extends z.ZodRawShape>(shape: T) => z.looseObject(shape).optional().catch(undefined)
const anyObject = z.custom<JsonObject>(isObject)

const partialArg = z.looseObject({
  jsonPath: text,
  stringValue: text,
  numberValue: number,
  boolValue: flag,
  nullValue: z.unknown().optional(),
  willContinue: flag,
})

const functionCall = objectOf({
  id: text,
  name: text,
  args: anyObject.optional().catch(undefined),
  partialArgs: listOf(partialArg),
  willContinue: flag,
})

const part = z.looseObject({
  text,
  thought: flag,
  thoughtSignature: text,
  functionCall,
  inlineData: objectOf({ mimeType: text, data: text }),
})

const tokenDetail = z.looseObject({ modality: text, tokenCount: number })

const usageMetadata = objectOf({
  promptTokenCount: number,
  candidatesTokenCount: number,
  thoughtsTokenCount: number,
  toolUsePromptTokenCount: number,
  cachedContentTokenCount: number,
  totalTokenCount: number,
  promptTokensDetails: listOf(tokenDetail),
  cacheTokensDetails: listOf(tokenDetail),
  candidatesTokensDetails: listOf(tokenDetail),
  toolUsePromptTokensDetails: listOf(tokenDetail),
  // Vertex and the Gemini API have a name each for how the call was served.
  trafficType: text,
  serviceTier: text,
})

const source = objectOf({ uri: text, title: text })

const groundingMetadata = objectOf({
  webSearchQueries: listOf(z.string()),
  // A page of the web, a document of the caller's own, a place on the map.
  groundingChunks: listOf(z.looseObject({ web: source, retrievedContext: source, maps: source })),
  groundingSupports: listOf(
    z.looseObject({
      segment: objectOf({ startIndex: number, endIndex: number, text }),
      groundingChunkIndices: listOf(z.number()),
    }),
  ),
})

const tokenLogprob = z.looseObject({ token: text, logProbability: number })

const candidate = z.looseObject({
  index: z.int().min(0).optional().catch(undefined),
  content: objectOf({ parts: listOf(part) }),
  finishReason: text,
  finishMessage: text,
  groundingMetadata,
  citationMetadata: objectOf({
    citations: listOf(z.looseObject({ startIndex: number, endIndex: number, uri: text, title: text })),
  }),
  logprobsResult: objectOf({
    chosenCandidates: listOf(tokenLogprob),
    topCandidates: listOf(z.looseObject({ candidates: listOf(tokenLogprob) })),
  }),
})

/** One answer, or one chunk of a streamed one: they have the same shape. */
export const chunkSchema = z.looseObject({
  responseId: text,
  modelVersion: text,
  candidates: listOf(candidate),
  promptFeedback: objectOf({ blockReason: text, blockReasonMessage: text }),
  usageMetadata,
  error: z.unknown().optional(),
})

/** Google's error object, as the body of an error status and inside streams. */
export const errorSchema = z.looseObject({
  code: number,
  message: text,
  status: text,
  details: listOf(
    z.looseObject({
      reason: text,
      retryDelay: text,
      violations: listOf(z.looseObject({ quotaId: text })),
      fieldViolations: listOf(z.looseObject({ field: text })),
    }),
  ),
})

export type Chunk = z.infer<typeof chunkSchema>
export type Candidate = z.infer<typeof candidate>
export type Part = z.infer<typeof part>
export type PartialArg = z.infer<typeof partialArg>
export type UsageMetadata = NonNullable<z.infer<typeof usageMetadata>>
export type TokenDetail = z.infer<typeof tokenDetail>
export type GroundingMetadata = NonNullable<z.infer<typeof groundingMetadata>>
export type CitationMetadata = NonNullable<Candidate['citationMetadata']>
export type LogprobsResult = NonNullable<Candidate['logprobsResult']>
