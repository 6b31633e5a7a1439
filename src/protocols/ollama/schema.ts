// The wire schemas of Ollama's chat API. Lenient: a missing or invalid field must not lose the rest of the answer.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

/** Settings for an Ollama server. */
export interface OllamaQuirks {
  /** Options of every request, overriding the client's: mainly `num_ctx`. */
  readonly options: JsonObject
  /** Models that take an effort for `think`, a regular expression for their names; others only take on and off. */
  readonly levels: string
  /**
   * Whether Ollama may cut a conversation that does not fit into its context. It does so in silence, so it may not
   * unless the operator says so, or the client where the operator says nothing; versions that do not know the field cut
   * all the same.
   */
  readonly truncate: boolean | undefined
}

export const defaultQuirks: OllamaQuirks = { options: {}, levels: 'gpt-oss', truncate: undefined }

const text = z.string().nullish().catch(undefined)
const counter = z.number().nullish().catch(undefined)

const callSchema = () =>
  z.object({
    id: text,
    function: z.object({ name: z.string(), arguments: z.unknown().optional() }),
  })

export type WireCall = z.infer<ReturnType<typeof callSchema>>

/** A line of a stream, or a whole answer; built when it is first needed. */
const lineSchema = z.lazy(() =>
  z.object({
    model: text,
    created_at: text,
    message: z
      .object({
        content: text,
        thinking: text,
        tool_calls: z.array(callSchema()).nullish().catch(undefined),
      })
      .nullish(),
    logprobs: z
      .array(z.looseObject({ token: z.string() }))
      .nullish()
      .catch(undefined),
    done: z.boolean().nullish().catch(undefined),
    done_reason: text,
    prompt_eval_count: counter,
    eval_count: counter,
  }),
)

export type WireLine = z.infer<typeof lineSchema>

/** A parsed line; undefined if it is not one. Valid lines, which are nearly all, are not copied. */
export function readLine(value: unknown): WireLine | undefined {
  return isPlainLine(value) ? value : lineSchema.safeParse(value).data
}

const isText = (value: unknown) => value == null || typeof value === 'string'
const isCounter = (value: unknown) => value == null || Number.isFinite(value)

/** Whether all fields that are read have the right type; false too for fields that come once per answer. */
function isPlainLine(value: unknown): value is WireLine {
  return (
    isObject(value) &&
    isText(value.model) &&
    (value.message == null || isPlainMessage(value.message)) &&
    value.logprobs == null &&
    (value.done == null || typeof value.done === 'boolean') &&
    isText(value.done_reason) &&
    isCounter(value.prompt_eval_count) &&
    isCounter(value.eval_count)
  )
}

function isPlainMessage(message: unknown): boolean {
  if (!isObject(message) || !isText(message.content) || !isText(message.thinking)) return false
  const calls = message.tool_calls
  return calls == null || (Array.isArray(calls) && calls.every(isPlainCall))
}

function isPlainCall(call: unknown): boolean {
  return (
    isObject(call) && isText(call.id) && isObject(call.function) && typeof call.function.name === 'string'
  )
}
