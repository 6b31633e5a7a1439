// The body of Gemini requests (ai.google.dev, "Generating content"), in the camel case of `camelCased`.

import { z } from 'zod'
import { gatewayShape } from '../../request/gateway-tools.ts'
import { seed } from '../../request/fields.ts'
import { filterReasons } from '../wire-words.ts'

const text = z.string()
const json = z.looseObject({})
const number = z.number()

const blob = z.looseObject({ mimeType: text.min(1), data: text })

const fileData = z.looseObject({ mimeType: text.nullish(), fileUri: text.min(1) })

const part = z.looseObject({
  text: text.nullish(),
  thought: z.boolean().nullish(),
  thoughtSignature: text.nullish(),
  inlineData: blob.nullish(),
  fileData: fileData.nullish(),
  functionCall: z.looseObject({ id: text.nullish(), name: text.min(1), args: json.nullish() }).nullish(),
  functionResponse: z
    .looseObject({
      id: text.nullish(),
      name: text.min(1),
      response: json.nullish(),
      parts: z.array(z.looseObject({ inlineData: blob.nullish(), fileData: fileData.nullish() })).nullish(),
    })
    .nullish(),
})

const content = z.looseObject({
  role: z.enum(['user', 'model', 'function', 'system']).nullish(),
  parts: z.array(part).nullish(),
})

const functionDeclaration = z.looseObject({
  name: text.min(1),
  description: text.nullish(),
  parameters: json.nullish(),
  parametersJsonSchema: json.nullish(),
})

const generationConfig = z.looseObject({
  temperature: number.nullish(),
  topP: number.nullish(),
  topK: number.nullish(),
  seed: seed.nullish(),
  stopSequences: z.array(text).nullish(),
  maxOutputTokens: z.int().min(1).nullish(),
  candidateCount: z.int().min(1).nullish(),
  presencePenalty: number.nullish(),
  frequencyPenalty: number.nullish(),
  responseLogprobs: z.boolean().nullish(),
  logprobs: z.int().min(0).nullish(),
  responseMimeType: text.nullish(),
  responseSchema: json.nullish(),
  responseJsonSchema: json.nullish(),
  responseModalities: z.array(text).nullish(),
  speechConfig: json.nullish(),
  mediaResolution: text.nullish(),
  thinkingConfig: z
    .looseObject({
      includeThoughts: z.boolean().nullish(),
      thinkingBudget: z.int().min(-1).nullish(),
      thinkingLevel: text.nullish(),
    })
    .nullish(),
})

const toolConfig = z.looseObject({
  functionCallingConfig: z
    .looseObject({ mode: text.nullish(), allowedFunctionNames: z.array(text).nullish() })
    .nullish(),
})

const tool = z.looseObject({
  functionDeclarations: z.array(functionDeclaration).nullish(),
  googleSearch: z.looseObject({ excludeDomains: z.array(text).nullish() }).nullish(),
  // The name of the search for Gemini 1.5; its threshold asks the model what every model decides here.
  googleSearchRetrieval: json.nullish(),
})

/** The gateway's own fields, as in chat completions. */
const { models, provider, max_cost, cache, session_id, strict, on_disconnect } = gatewayShape
const ours = { models, provider, max_cost, cache, session_id, strict, on_disconnect }

export const generateContentRequest = z.looseObject({
  contents: z.array(content).min(1),
  systemInstruction: content.nullish(),
  tools: z.array(tool).nullish(),
  toolConfig: toolConfig.nullish(),
  generationConfig: generationConfig.nullish(),
  safetySettings: z.array(json).nullish(),
  cachedContent: text.nullish(),
  labels: z.record(text, text).nullish(),
  serviceTier: z.unknown().optional(),
  ...ours,
})

export type GenerateContentRequest = z.infer<typeof generateContentRequest>
export type TurnContent = z.infer<typeof content>
export type ClientPart = z.infer<typeof part>

/** The fields that are read, of the body and of its objects. */
export const knownFields = {
  // The path gives the model, and whether the answer is streamed.
  body: new Set([...Object.keys(generateContentRequest.shape), 'model', 'stream']),
  generationConfig: new Set(Object.keys(generationConfig.shape)),
  toolConfig: new Set(Object.keys(toolConfig.shape)),
  googleSearch: new Set(['excludeDomains']),
} satisfies Record<string, ReadonlySet<string>>

/**
 * Fields that no other protocol has and that change neither the price nor the length of an answer, by the objects that
 * have them: Google is sent them as they are.
 */
export const passedFields = {
  body: ['modelArmorConfig'],
  generationConfig: ['audioTimestamp', 'enableAffectiveDialog', 'enableEnhancedCivicAnswers'],
  toolConfig: ['retrievalConfig', 'includeServerSideToolInvocations'],
  functionCallingConfig: ['streamFunctionCallArguments'],
  function: ['behavior', 'response', 'responseJsonSchema'],
  googleSearch: ['timeRangeFilter'],
  part: ['videoMetadata', 'mediaResolution'],
  blob: ['displayName'],
} as const

/** The gateway's fields, passed to the chat request unchanged. */
export const gatewayFields = Object.keys(ours)

const answerPart = z.looseObject({
  text: text.optional(),
  thought: z.boolean().optional(),
  thoughtSignature: text.optional(),
  functionCall: z.looseObject({ id: text, name: text, args: json }).optional(),
  inlineData: blob.optional(),
})

export const geminiUsage = z.looseObject({
  promptTokenCount: z.int(),
  candidatesTokenCount: z.int(),
  thoughtsTokenCount: z.int(),
  cachedContentTokenCount: z.int(),
  totalTokenCount: z.int(),
  cost: z.number(),
  costDetails: z.record(text, text),
})

/** A whole answer, and each chunk of a stream. */
export const generateContentResponse = z.looseObject({
  candidates: z
    .array(
      z.looseObject({
        index: z.int().min(0),
        content: z.looseObject({ role: z.literal('model'), parts: z.array(answerPart) }),
        finishReason: text
          .optional()
          .describe(
            `STOP, MAX_TOKENS, ${filterReasons.join(', ')}; OTHER where the provider ended the answer in a way of its ` +
              'own, and Google’s own words for answers that the model spoiled, such as MALFORMED_FUNCTION_CALL.',
          ),
        finishMessage: text.optional(),
      }),
    )
    .optional(),
  /** Instead of candidates, when a filter of the provider has refused the prompt. */
  promptFeedback: z.looseObject({ blockReason: text, blockReasonMessage: text.optional() }).optional(),
  usageMetadata: geminiUsage.optional(),
  modelVersion: text,
  responseId: text,
})

export const geminiError = z.looseObject({
  error: z.looseObject({ code: z.int(), message: text, status: text, details: z.array(json) }),
})

export const geminiModel = z.looseObject({
  name: text,
  displayName: text,
  inputTokenLimit: z.int().optional(),
  outputTokenLimit: z.int().optional(),
  supportedGenerationMethods: z.array(text),
})

export const geminiModelList = z.looseObject({ models: z.array(geminiModel), nextPageToken: text.optional() })
