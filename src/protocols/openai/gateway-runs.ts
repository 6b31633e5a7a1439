// Calls of the gateway's own tools as the protocols of OpenAI show them, and as their clients send them back.

import type { GatewayRun, ToolOrigin } from '../../conversation/gateway-tools.ts'
import type { AssistantMessage, Json, JsonObject, Message, ToolCall } from '../../conversation/request.ts'
import { isObject, parseJson } from '../lenient.ts'
import type { AskedCall } from '../request/gateway-tools.ts'

/** The fields of an item of a call, without its id. `output` is an addition to `web_search_call`: it comes back with it. */
export function wireRun({ call, result }: GatewayRun): JsonObject {
  const { origin } = call
  const failed = result.failure !== undefined
  const output = result.output ?? result.text
  if (origin.kind === 'mcp') {
    return {
      type: 'mcp_call',
      status: failed ? 'failed' : 'completed',
      server_label: origin.serverLabel,
      name: origin.tool,
      arguments: call.arguments,
      output: failed ? null : output,
      error: result.failure?.message ?? null,
      approval_request_id: call.approvalRequestId ?? null,
    }
  }
  return {
    type: 'web_search_call',
    status: failed ? 'failed' : 'completed',
    action: actionOf(call.origin, call.arguments, result.action),
    output: result.text,
  }
}

/** The action of a search or page call: as the tool reports it, or else from the model's arguments. */
export function actionOf(origin: ToolOrigin, json: string, action: JsonObject | undefined): JsonObject {
  if (action !== undefined) return action
  const args = parseJson(json)
  const text = (name: string) => (isObject(args) && typeof args[name] === 'string' ? String(args[name]) : '')
  return origin.kind === 'open-page'
    ? { type: 'open_page', url: text('url') }
    : { type: 'search', query: text('query'), sources: [] }
}

/** A call that came back, with its result. */
export interface RunOfHistory {
  readonly call: ToolCall
  readonly result: Extract<Message, { role: 'tool' }>
}

/** A call in the history; undefined if the item is not one. `id` links it to its result. */
export function readRun(item: JsonObject, id: string): RunOfHistory | undefined {
  const named = calledTool(item)
  if (named === undefined) return undefined
  const { origin, name, json } = named
  const failed = item.status === 'failed' || item.error != null
  const call = { id, name, arguments: json, thoughtSignature: undefined, origin }
  const text = outputOf(item, failed)
  const content = [{ kind: 'text', text, cache: undefined } as const]
  return { call, result: { role: 'tool', toolCallId: id, content, isError: failed } }
}

function calledTool(item: JsonObject): { origin: ToolOrigin; name: string; json: string } | undefined {
  const { type, action } = item
  if (type === 'mcp_call') {
    const { server_label: serverLabel, name, arguments: json } = item
    if (typeof serverLabel !== 'string' || typeof name !== 'string') return undefined
    const origin = { kind: 'mcp', serverLabel, tool: name } as const
    return { origin, name, json: typeof json === 'string' && json !== '' ? json : '{}' }
  }
  // Without its result it is no run of ours: a provider has searched, and its answer says what it found.
  if (type !== 'web_search_call' || !isObject(action) || typeof item.output !== 'string') return undefined
  if (action.type === 'open_page') {
    const json = JSON.stringify({ url: action.url ?? '' })
    return { origin: { kind: 'open-page' }, name: 'open_page', json }
  }
  if (action.type !== 'search') return undefined
  return {
    origin: { kind: 'web-search' },
    name: 'web_search',
    json: JSON.stringify({ query: action.query ?? '' }),
  }
}

function outputOf(item: JsonObject, failed: boolean): string {
  const { output, error, action } = item
  if (typeof output === 'string' && output !== '') return output
  if (typeof error === 'string' && error !== '') return `The call failed: ${error}`
  if (isObject(error) && typeof error.message === 'string') return `The call failed: ${error.message}`
  if (failed) return 'The call failed.'
  const sources = isObject(action) && Array.isArray(action.sources) ? action.sources : []
  const urls = sources.flatMap((source: Json) =>
    isObject(source) && typeof source.url === 'string' ? [source.url] : [],
  )
  return urls.length === 0 ? 'The result has not been kept.' : `Sources found:\n${urls.join('\n')}`
}

// ---- chat completions ---------------------------------------------------------------------------------------

/** A run in a message of chat completions, with what of the message stood before it. */
export function messageRun(run: GatewayRun): { readonly field: string; readonly entry: JsonObject } {
  const { call, after, round } = run
  const at = { round, content: after.text, reasoning: after.reasoning }
  const field = call.origin.kind === 'mcp' ? 'mcp_calls' : 'web_search_calls'
  return { field, entry: { id: call.id, ...wireRun(run), at } }
}

/** The runs of a message by field, as in `message` and `delta`; empty without any. */
export function messageRuns(
  runs: readonly GatewayRun[] = [],
  items: readonly JsonObject[] = [],
): Record<string, JsonObject[]> {
  const fields: Record<string, JsonObject[]> = {}
  for (const item of items) {
    const field = item.type === 'web_search_call' ? 'web_search_calls' : 'mcp_calls'
    ;(fields[field] ??= []).push(item)
  }
  for (const run of runs) {
    const { field, entry } = messageRun(run)
    ;(fields[field] ??= []).push(entry)
  }
  return fields
}

/**
 * A message of the history as the rounds it was made in: what each said and called, and the results. Where the client
 * has changed the message, so that the places are not there any more, all it said is in the last.
 */
export function roundsOf(message: AssistantMessage, entries: readonly JsonObject[]): readonly Message[] {
  const rounds = new Map<number, { runs: RunOfHistory[]; text: number; reasoning: number }>()
  for (const entry of entries) {
    const at = isObject(entry.at) ? entry.at : {}
    const run = typeof entry.id === 'string' ? readRun(entry, entry.id) : undefined
    if (run === undefined) continue
    const number = (value: Json | undefined) => (typeof value === 'number' && value >= 0 ? value : 0)
    const known = rounds.get(number(at['round']))
    const place = { text: number(at['content']), reasoning: number(at['reasoning']) }
    if (known) known.runs.push(run)
    else rounds.set(number(at['round']), { runs: [run], ...place })
  }
  if (rounds.size === 0) return [message]
  const [first, ...others] = message.content
  const whole = first?.kind === 'text' && others.length === 0 ? first.text : undefined
  const messages: Message[] = []
  const thoughts = message.reasoning.toSorted((a, b) => a.index - b.index)
  let thought = 0
  const thoughtsUntil = (index: number) => {
    const start = thought
    while (thought < thoughts.length && thoughts[thought]!.index < index) thought++
    return thoughts.slice(start, thought)
  }
  let from = 0
  for (const [, { runs, text, reasoning }] of [...rounds].toSorted(([a], [b]) => a - b)) {
    const said = whole === undefined ? '' : whole.slice(from, text)
    messages.push(
      {
        role: 'assistant',
        content: said === '' ? [] : [{ kind: 'text', text: said, cache: undefined }],
        reasoning: thoughtsUntil(reasoning),
        toolCalls: runs.map(({ call }) => call),
      },
      ...runs.map(({ result }) => result),
    )
    from = Math.max(from, text)
  }
  const content = whole === undefined ? message.content : textFrom(whole, from)
  const reasoning = thoughtsUntil(Infinity)
  const last = messages.findLastIndex(({ role }) => role === 'assistant')
  const turn = messages[last] as AssistantMessage
  if (content.length > 0 || reasoning.length > 0) messages.push({ ...message, content, reasoning })
  // The client's functions were called together with the gateway's tools.
  else messages[last] = { ...turn, toolCalls: [...turn.toolCalls, ...message.toolCalls] }
  return messages
}

/** The rounds with calls that the user was asked about, which stand at their end; none for a turn that was nothing else. */
export function withAsked(rounds: readonly Message[], asked: readonly AskedCall[]): readonly Message[] {
  const at = rounds.findLastIndex(({ role }) => role === 'assistant')
  const turn = rounds[at] as AssistantMessage
  const toolCalls = [...turn.toolCalls, ...asked.map(({ call }) => call)]
  const isEmpty = turn.content.length + turn.reasoning.length + toolCalls.length === 0
  const results = asked.flatMap(({ result }) => result ?? [])
  return [
    ...rounds.slice(0, at),
    ...(isEmpty ? [] : [{ ...turn, toolCalls }]),
    ...rounds.slice(at + 1),
    ...results,
  ]
}

function textFrom(text: string, from: number): AssistantMessage['content'] {
  const rest = text.slice(from)
  return rest === '' ? [] : [{ kind: 'text', text: rest, cache: undefined }]
}
