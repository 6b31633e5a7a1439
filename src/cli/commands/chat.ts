// `weir chat MODEL "…"`: one streamed reply from a running gateway, and its cost.

import { createParser } from 'eventsource-parser'
import { z } from 'zod'
import { reasonOf } from '../../config/config.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  print,
  table,
  usageFault,
  visible,
} from '../context.ts'
import { folderHint, gatewayAddress, type GatewayAddress } from '../gateway-address.ts'

const errorSchema = z.object({ error: z.object({ message: z.string(), code: z.string().nullish() }) })

const usageSchema = z.object({
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  cost_details: z.record(z.string(), z.union([z.string(), z.number(), z.null()])).optional(),
})

const chunkSchema = z.object({
  model: z.string().optional(),
  choices: z
    .array(
      z.object({
        delta: z
          .object({ content: z.string().nullish(), reasoning_content: z.string().nullish() })
          .optional(),
        finish_reason: z.string().nullish(),
      }),
    )
    .optional(),
  usage: usageSchema.nullish(),
})

/** A reply of a million tokens, an event for each. */
const mostReplyBytes = 512 * 1024 * 1024

interface Reply {
  text: string
  model: string
  finishReason: string | null
  usage: z.infer<typeof usageSchema> | undefined
}

/** Calls the gateway, which must be running. The reply goes to standard output, everything else to standard error. */
export async function chat(context: Context, invocation: Invocation): Promise<void> {
  const [model = '', ...words] = invocation.args
  const { base, key } = gatewayAddress(context, invocation)
  const response = await ask({ base, key }, model, await messageOf(context, words), folderHint(context.io))
  const reply = await readReply(context, response)
  const id = response.headers.get('x-request-id')
  if (!context.json) {
    context.io.out(reply.text.endsWith('\n') ? '' : '\n')
    context.io.err(`${visible(renderReceipt(reply, id))}\n`)
    return
  }
  const { text, model: answered, finishReason, usage } = reply
  print(context, {
    json: { id, model: answered || model, text, finish_reason: finishReason, usage: usage ?? null },
    text: '',
  })
}

/** The arguments as one message; `-` is replaced by all of standard input. */
async function messageOf(context: Context, words: readonly string[]): Promise<string> {
  if (!words.includes('-')) return words.join(' ')
  const input = (await context.io.input()).trimEnd()
  const message = words.map((word) => (word === '-' ? input : word)).join('\n\n')
  if (message.trim() === '') throw usageFault('standard input is empty: there is nothing to ask')
  return message
}

async function ask(
  { base, key }: GatewayAddress,
  model: string,
  content: string,
  hint: string,
): Promise<Response> {
  const body = {
    model,
    messages: [{ role: 'user', content }],
    stream: true,
    stream_options: { include_usage: true },
  }
  return call({ base, key }, 'chat/completions', { method: 'POST', body: JSON.stringify(body) }, hint)
}

/** The answer of a gateway. Throws CommandFailure if none answers, or with what it refuses. */
async function call(
  { base, key }: GatewayAddress,
  path: string,
  init: { readonly method?: string; readonly body?: string },
  hint: string,
): Promise<Response> {
  let response: Response
  try {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    response = await fetchBounded(`${base}/${path}`, { ...init, headers, redirect: 'manual' }, mostReplyBytes)
  } catch (cause) {
    throw new CommandFailure(
      `no gateway answers at ${base} (${reasonOf(cause)}): start it with weir serve, or say where it is with --url${hint}`,
    )
  }
  if (response.ok) return response
  const parsed = errorSchema.safeParse(await response.json().catch(() => undefined))
  throw new CommandFailure(
    parsed.success ? errorText(parsed.data) : `${base} answered with status ${response.status}`,
  )
}

function errorText({ error }: z.infer<typeof errorSchema>): string {
  return error.code ? `${error.message} (${error.code})` : error.message
}

async function readReply(context: Context, response: Response): Promise<Reply> {
  const reply: Reply = { text: '', model: '', finishReason: null, usage: undefined }
  let done = false
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') done = true
      else take(context, reply, data)
    },
  })
  const decoder = new TextDecoder()
  try {
    for await (const bytes of response.body ?? []) parser.feed(decoder.decode(bytes, { stream: true }))
    if (!done) throw new CommandFailure('the reply broke off')
  } catch (thrown) {
    // An error is not part of the reply.
    if (!context.json && reply.text !== '') context.io.out('\n')
    throw thrown
  }
  return reply
}

/** Adds a chunk to the reply and prints its text. Throws CommandFailure for an error in the stream. */
function take(context: Context, reply: Reply, data: string): void {
  const json = parseJson(data)
  const failed = errorSchema.safeParse(json)
  if (failed.success) throw new CommandFailure(errorText(failed.data))
  const { model, choices, usage } = chunkSchema.parse(json)
  if (model) reply.model = model
  if (usage) reply.usage = usage
  for (const { delta, finish_reason } of choices ?? []) {
    reply.text += delta?.content ?? ''
    reply.finishReason = finish_reason ?? reply.finishReason
    if (context.json) continue
    if (delta?.reasoning_content) context.io.err(visible(delta.reasoning_content))
    if (delta?.content) context.io.out(context.io.terminal === true ? visible(delta.content) : delta.content)
  }
}

function parseJson(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    throw new CommandFailure('the reply is not what a gateway sends: an event holds no JSON')
  }
}

function renderReceipt({ usage, model, finishReason }: Reply, id: string | null): string {
  const tokens = usage
    ? `${usage.prompt_tokens} prompt and ${usage.completion_tokens} completion tokens`
    : 'no usage reported'
  const parts = Object.entries(usage?.cost_details ?? {}).filter(
    // The exact amounts are texts.
    ([name, amount]) => typeof amount === 'string' && name !== 'total' && amount !== '0',
  )
  const lines = parts.map(([name, amount]) => `  ${name.padEnd(12)} ${amount} USD`)
  const total = usage?.cost_details?.['total']
  return [
    '',
    `${model}: ${tokens}${finishReason && finishReason !== 'stop' ? `, ended by ${finishReason}` : ''}`,
    ...lines,
    ...(total === undefined ? [] : [`  ${'total'.padEnd(12)} ${total} USD`]),
    ...(id === null ? [] : [`  receipt ${id}`]),
  ].join('\n')
}

// `weir route explain MODEL`

const explanationSchema = z.object({
  model: z.string(),
  reason: z.string().nullable(),
  candidates: z.array(
    z.object({
      model: z.string(),
      provider: z.string(),
      upstream_model: z.string(),
      standing: z.string(),
      latency_ms: z.number().nullable(),
      prompt: z.string(),
      completion: z.string(),
    }),
  ),
  passed_over: z.array(z.object({ model: z.string(), reason: z.string() })),
  refusal: z.string().optional(),
})

/** Says who would be asked for a model now, with this key, and why. Throws CommandFailure as `chat` does. */
export async function explainRoute(context: Context, invocation: Invocation): Promise<void> {
  const [model = ''] = invocation.args
  const path = `route?model=${encodeURIComponent(model)}`
  const response = await call(gatewayAddress(context, invocation), path, {}, folderHint(context.io))
  const json = explanationSchema.parse(await response.json())
  const { reason, candidates, passed_over: passed, refusal } = json
  const rows = candidates.map((each) => [
    each.model,
    each.provider,
    each.standing,
    each.latency_ms === null ? '-' : String(each.latency_ms),
  ])
  const lines = [
    refusal === undefined ? '' : `the call would be refused: ${refusal}`,
    reason === null ? '' : `${json.model} is a route; first by ${reason}`,
    rows.length === 0 ? '' : table(['MODEL', 'PROVIDER', 'STANDING', 'LATENCY MS'], rows),
    ...passed.map((each) => `passed over: ${each.model} (${each.reason})`),
  ]
  print(context, { json, text: lines.filter((line) => line !== '').join('\n') })
}
