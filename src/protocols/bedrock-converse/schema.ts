// The wire schemas of Bedrock's Converse API. Lenient: a missing or invalid field must not lose the rest of the
// answer. Built when they are first needed.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'

export interface BedrockQuirks {
  /** `max_tokens` for a model with a thinking budget if neither the client nor the catalog knows one. */
  readonly defaultMaxTokens: number
  /** The guardrail of every request (`guardrailConfig`); clients cannot set one. */
  readonly guardrailConfig: JsonObject | undefined
}

export const defaultQuirks: BedrockQuirks = { defaultMaxTokens: 16_384, guardrailConfig: undefined }

/** Several rules apply only to Claude among Bedrock's models. */
export function isClaude(model: string): boolean {
  return /claude/i.test(model)
}

const text = z.string().nullish().catch(undefined)
const counter = z.number().nullish().catch(undefined)

const usageSchema = () =>
  z.object({
    inputTokens: counter,
    outputTokens: counter,
    totalTokens: counter,
    cacheReadInputTokens: counter,
    cacheWriteInputTokens: counter,
    cacheDetails: z
      .array(z.object({ inputTokens: counter, ttl: text }))
      .nullish()
      .catch(undefined),
  })

/** The tier that the call was served at. */
const serviceTier = () => z.object({ type: text }).nullish().catch(undefined)

/** What of the model's own answer was asked for. */
const answerFields = () => z.object({ stop_sequence: text }).nullish().catch(undefined)

export type ConverseUsage = z.infer<ReturnType<typeof usageSchema>>

const toolUse = () =>
  z.object({
    toolUseId: z.string().catch(''),
    name: z.string().catch(''),
    /** `server_tool_use` for what Amazon runs itself. */
    type: text,
    input: z.unknown().optional(),
  })

const image = () => z.object({ format: text, source: z.object({ bytes: text }).nullish().catch(undefined) })

export const citationSchema = z.lazy(() =>
  z.object({ title: text, source: text, location: z.unknown().optional() }),
)

const block = () =>
  z.object({
    text,
    toolUse: toolUse().nullish(),
    image: image().nullish().catch(undefined),
    reasoningContent: z
      .object({
        reasoningText: z.object({ text, signature: text }).nullish().catch(undefined),
        redactedContent: text,
      })
      .nullish()
      .catch(undefined),
    citationsContent: z
      .object({ content: z.array(z.object({ text })).catch([]), citations: z.array(z.unknown()).catch([]) })
      .nullish()
      .catch(undefined),
  })

/** A block of a whole answer, with one of these fields. */
export const blockSchema = z.lazy(block)

export const answerSchema = z.lazy(() =>
  z.object({
    output: z.object({ message: z.object({ content: z.array(block()) }) }),
    stopReason: text,
    additionalModelResponseFields: answerFields(),
    usage: usageSchema().nullish().catch(undefined),
    serviceTier: serviceTier(),
  }),
)

const contentBlockIndex = z.number()

/** Stream events by name; unknown ones are ignored. */
export const eventSchemas = {
  messageStart: z.object({}),
  contentBlockStart: z.lazy(() =>
    z.object({
      contentBlockIndex,
      start: z.object({ toolUse: toolUse().optional() }).catch({}),
    }),
  ),
  contentBlockDelta: z.lazy(() =>
    z.object({
      contentBlockIndex,
      delta: z.object({
        text,
        toolUse: z.object({ input: text }).optional().catch(undefined),
        reasoningContent: z
          .object({ text, signature: text, redactedContent: text })
          .optional()
          .catch(undefined),
        citation: z.unknown().optional(),
        image: image().optional().catch(undefined),
      }),
    }),
  ),
  contentBlockStop: z.object({ contentBlockIndex }),
  messageStop: z.lazy(() =>
    z.object({ stopReason: z.string(), additionalModelResponseFields: answerFields() }),
  ),
  metadata: z.lazy(() =>
    z.object({ usage: usageSchema().nullish().catch(undefined), serviceTier: serviceTier() }),
  ),
} as const

export type WireDelta = z.infer<typeof eventSchemas.contentBlockDelta>['delta']
