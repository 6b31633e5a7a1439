// The fields of a Messages request that the gateway reads; all others are kept. The schema of a whole request is built
// when it is first needed: plain requests are checked without it, and a start would spend time and memory on it.

import { z } from 'zod'
import { GatewayError } from '../../../errors.ts'
import { isObject } from '../../json.ts'
import { isPlainBody } from '../../request/plain-fields.ts'
import { safeParsed } from '../../request/safe-parse.ts'
import { threadField } from './answer-fields.ts'

const cacheMark = z.looseObject({ type: z.string(), ttl: z.enum(['5m', '1h']).nullish() }).nullish()
const usdAmount = z.string().regex(/^\d+(\.\d+)?$/, 'must be a decimal string')

const block = z.looseObject({ type: z.string().min(1), cache_control: cacheMark })
const content = z.union([z.string(), z.array(block)])

/** `custom` tools have a schema; all others are Anthropic's own, identified by type. */
const tool = () =>
  z.looseObject({
    type: z.string().nullish(),
    name: z.string().min(1).nullish(),
    description: z.string().nullish(),
    input_schema: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
    cache_control: cacheMark,
  })

const thinking = () =>
  z.looseObject({
    type: z.string(),
    budget_tokens: z.int().min(0).optional(),
    display: z.string().nullish(),
  })

/** Our additions to the protocol: provider routing and the cost limit. */
const gatewayShape = {
  models: z.array(z.string().min(1)).max(32).nullish(),
  provider: z
    .looseObject({
      order: z.array(z.string()).nullish(),
      only: z.array(z.string()).nullish(),
      ignore: z.array(z.string()).nullish(),
      allow_fallbacks: z.boolean().nullish(),
      require_parameters: z.boolean().nullish(),
      max_price: z.looseObject({ input: usdAmount.nullish(), output: usdAmount.nullish() }).nullish(),
    })
    .nullish(),
  max_cost: usdAmount.nullish(),
  max_tool_calls: z.int().min(0).max(1000).nullish(),
  session_id: z.string().min(1).max(256).nullish(),
  strict: z.boolean().nullish(),
  on_disconnect: z.enum(['cancel', 'finish']).nullish(),
}
export const gatewayFields: readonly string[] = Object.keys(gatewayShape)

const outputFormat = () =>
  z.looseObject({ type: z.string(), schema: z.record(z.string(), z.unknown()).optional() })

export const messagesRequest = z.lazy(() =>
  z.looseObject({
    model: z.string().min(1).max(512),
    // 0: the prompt is written to the provider's cache, and nothing is generated.
    max_tokens: z.int().min(0),
    messages: z
      .array(z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content }))
      .min(1)
      .max(100_000),
    system: content.nullish(),
    tools: z.array(tool()).max(10_000).nullish(),
    tool_choice: z
      .looseObject({
        type: z.enum(['auto', 'any', 'tool', 'none']),
        name: z.string().optional(),
        disable_parallel_tool_use: z.boolean().nullish(),
      })
      .refine(({ type, name }) => type !== 'tool' || Boolean(name), {
        path: ['name'],
        message: 'The name of the tool is missing, which type "tool" needs.',
      })
      .nullish(),
    thinking: thinking().nullish(),
    output_config: z
      .looseObject({
        effort: z.string().nullish(),
        format: outputFormat().nullish(),
      })
      .nullish(),
    // Its name while it was a beta feature.
    output_format: outputFormat().nullish(),
    stop_sequences: z.array(z.string()).nullish(),
    stream: z.boolean().nullish(),
    temperature: z.number().nullish(),
    top_p: z.number().nullish(),
    top_k: z.int().nullish(),
    metadata: z.looseObject({ user_id: z.string().nullish() }).nullish(),
    service_tier: z.string().nullish(),
    ...gatewayShape,
  }),
)

/** For token counting: the same body, but max_tokens is optional. */
export const countTokensRequest = z.lazy(() => messagesRequest.unwrap().partial({ max_tokens: true }))

export type MessagesRequest = z.infer<typeof messagesRequest>
export type CountTokensRequest = z.infer<typeof countTokensRequest>
export type ClientBlock = z.infer<typeof block>
export type ClientContent = z.infer<typeof content>

/** Checks a body. Throws GatewayError `invalid_request` with the path of the first invalid field. */
export function checkRequest(body: unknown): MessagesRequest {
  if (isObject(body) && isPlainBody(body, required)) return body as MessagesRequest
  refuseThread(body)
  return checkedBy(messagesRequest, body)
}

const required = ['model', 'max_tokens', 'messages']

/** Checks a body for token counting. Throws like `checked`. */
export function checkedForCount(body: unknown): CountTokensRequest {
  refuseThread(body)
  return checkedBy(countTokensRequest, body)
}

/** Checks the content of a block, such as a tool's result; `param` is its path. Throws like `checked`. */
export function checkedContent(value: unknown, param: string): ClientContent {
  return checkedBy(content, value, [param])
}

function checkedBy<Checked>(
  schema: z.ZodType<Checked>,
  body: unknown,
  place: readonly string[] = [],
): Checked {
  const parsed = safeParsed(schema, body)
  if (parsed.success) return parsed.data
  const issue = deepest(parsed.error.issues[0]!)
  const param = [...place, ...issue.path.map(String)].join('.')
  throw new GatewayError('invalid_request', {
    // Anthropic's messages begin with the path, which its clients show.
    message: param === '' ? issue.message : `${param}: ${issue.message}`,
    ...(param === '' ? {} : { param }),
    cause: parsed.error,
  })
}

function refuseThread(body: unknown): void {
  if (typeof body !== 'object' || body === null || !('thread' in body) || body.thread == null) return
  throw new GatewayError('invalid_request', {
    message: 'thread: Message threads are not served; send the whole conversation in messages.',
    param: threadField,
  })
}

/** Of a union's branches the one that failed last is most likely the intended one. */
function deepest(issue: z.core.$ZodIssue): { path: readonly PropertyKey[]; message: string } {
  if (issue.code !== 'invalid_union') return issue
  const inner = issue.errors.flatMap((issues) => issues.slice(0, 1)).map(deepest)
  const furthest = inner.reduce((a, b) => (b.path.length > a.path.length ? b : a), {
    path: [],
    message: issue.message,
  })
  return { path: [...issue.path, ...furthest.path], message: furthest.message }
}
