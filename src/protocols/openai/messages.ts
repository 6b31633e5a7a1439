// Messages, media and tool calls as OpenAI's protocols write them: in requests, in whole answers, in stream chunks.

import type { Annotation, AudioDelta, ChatEvent } from '../../conversation/event.ts'
import {
  type GatewayRun,
  type ToolOrigin,
  webToolKinds,
  type WebToolOrigin,
  webTools,
} from '../../conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  Json,
  JsonObject,
  MediaSource,
  Message,
  ReasoningDetail,
  ToolCall,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isJson, isObject, parseJson, present, stringIn } from '../lenient.ts'
import type { AskedCall } from '../request/gateway-tools.ts'

export function wireAnnotation(annotation: Annotation): JsonObject {
  const { url, title, start, end } = annotation
  return { type: 'url_citation', url_citation: { url, title, start_index: start, end_index: end } }
}

export function wireImage(image: { readonly mediaType: string; readonly data: string }): JsonObject {
  return { type: 'image_url', image_url: { url: `data:${image.mediaType};base64,${image.data}` } }
}

export function wireAudio({ id, data, transcript, expiresAt: expires_at }: AudioDelta): JsonObject {
  return present<JsonObject>({ id, data, transcript, expires_at })
}

/** Log probabilities; an empty list is null, as OpenAI writes it. */
export function wireLogprobs(logprobs: {
  readonly content: readonly Json[]
  readonly refusal: readonly Json[]
}): JsonObject {
  const list = (entries: readonly Json[]) => (entries.length === 0 ? null : [...entries])
  return { content: list(logprobs.content), refusal: list(logprobs.refusal) }
}

/** The part of a detail that a person can read: what `reasoning_content` is made of. */
export function readableReasoning(detail: ReasoningDetail): string {
  return detail.type === 'reasoning.summary' ? (detail.summary ?? '') : (detail.text ?? '')
}

export function wireDetail(detail: ReasoningDetail): JsonObject {
  return { ...detail } as JsonObject
}

/** Gemini's thought signature where Google's chat-completions endpoint has it; empty without one. */
export function wireSignature(signature: string | undefined): JsonObject {
  return signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } }
}

/** Whether there are calls, and whether the arguments of all are whole: what the finish reason depends on. */
export function callsState(calls: readonly string[]): 'none' | 'whole' | 'partial' {
  if (calls.length === 0) return 'none'
  return calls.every((json) => json === '' || isJson(json)) ? 'whole' : 'partial'
}

// Images and files as clients of OpenAI's protocols send them: addresses, `data:` URLs, ids and bare base64.

/** What a client says of a file: its bytes, an id or an address, one of them at least. */
interface WireFile {
  readonly file_data?: string | null | undefined
  readonly file_id?: string | null | undefined
  readonly file_url?: string | null | undefined
  readonly filename?: string | null | undefined
}

export function fileSource(file: WireFile, param: string): MediaSource {
  if (file.file_data != null) {
    // Base64 has no colon.
    if (/^(data|https?):/i.test(file.file_data)) return mediaSource(file.file_data, `${param}.file_data`)
    return { kind: 'base64', mediaType: mediaTypeOf(file.filename ?? ''), data: file.file_data }
  }
  if (file.file_id != null) return { kind: 'provider-file', id: file.file_id }
  // The schema requires one of the three.
  return mediaSource(file.file_url ?? '', `${param}.file_url`)
}

/** File types that providers take, for bare base64 whose only hint is the file's name. */
const mediaTypes: Readonly<Record<string, string>> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  xml: 'application/xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
}

function mediaTypeOf(filename: string): string {
  const extension = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  return Object.hasOwn(mediaTypes, extension) ? mediaTypes[extension]! : 'application/pdf'
}

/** A URL as it is, or the bytes of a `data:` URL. Megabytes may follow the comma: only the head is looked at. */
export function mediaSource(url: string, param: string): MediaSource {
  if (!/^data:/i.test(url)) return { kind: 'url', url }
  const comma = url.indexOf(',')
  if (comma === -1 || comma > 1024 || comma === url.length - 1) {
    throw new GatewayError('invalid_request', { message: `'${param}' is not a valid data: URL.`, param })
  }
  const [mediaType, ...attributes] = url.slice('data:'.length, comma).split(';')
  const type = mediaType === undefined || mediaType === '' ? 'text/plain' : mediaType.toLowerCase()
  const data = url.slice(comma + 1)
  if (attributes.some((attribute) => attribute.trim().toLowerCase() === 'base64')) {
    return { kind: 'base64', mediaType: type, data }
  }
  try {
    return { kind: 'base64', mediaType: type, data: Buffer.from(decodeURIComponent(data)).toString('base64') }
  } catch (cause) {
    throw new GatewayError('invalid_request', {
      message: `'${param}' is not a valid data: URL.`,
      param,
      cause,
    })
  }
}

// Tool calls as providers stream them, numbered from 0 without gaps, each started once and never twice.

/** One tool call of a choice, as far as it has come. */
export interface CallState {
  /** The provider's index, where it gave one. */
  readonly index: number | undefined
  readonly id: string
  readonly name: string
  readonly arguments: string
  readonly thoughtSignature: string | undefined
  /** A custom tool's: its text is the `input` of arguments that stay open until the call ends. */
  readonly isText?: true
  /** Our number, once it has been started; it starts as soon as its name is known. */
  readonly call: number | undefined
}

export interface CallsState {
  readonly calls: readonly CallState[]
  /** How many of them have been started. */
  readonly started: number
  /** The position of the call that a nameless delta continues. */
  readonly open: number
}

export const noCalls: CallsState = { calls: [], started: 0, open: -1 }

/** More tool calls than any model makes in one answer: each is compared with those before it. */
const mostCalls = 1_024

/** What starting a call needs to know: which choice, and ids for calls that the provider left without one. */
export interface CallContext {
  readonly choice: number
  readonly mintId: (call: number) => string
}

/**
 * Takes one entry of `tool_calls`, of a delta or of a whole message. Copes with whole calls in one delta, a missing
 * index, several calls under one index, ids and names repeated on every delta, and a call repeated whole. Throws for
 * more calls than any answer has.
 */
export function takeCall(
  state: CallsState,
  entry: JsonObject,
  context: CallContext,
): readonly [CallsState, readonly ChatEvent[]] {
  const index = typeof entry.index === 'number' ? entry.index : undefined
  if (state.calls.length >= mostCalls) throw new Error(`an answer has more than ${mostCalls} tool calls`)
  const found = findCall(state, index, entry)
  const before = found < 0 ? undefined : state.calls[found]
  const isTaken = (id: string) => state.calls.some((other) => other !== before && other.id === id)
  const [next, events] = continueCall(before, entry, { ...context, started: state.started, isTaken })
  if (next === before) return [state, []]
  const calls = before ? state.calls.with(found, next) : state.calls.concat(next)
  const started = state.started + (next.call === before?.call ? 0 : 1)
  return [{ calls, started, open: before ? found : state.calls.length }, events]
}

/** What continuing one call needs to know of the others. */
interface OtherCalls extends CallContext {
  /** How many calls have been started. */
  readonly started: number
  /** Whether another call has this id. */
  readonly isTaken: (id: string) => boolean
}

/** A call after one more entry of its own, with the events it makes; the same call where the entry only repeats it. */
export function continueCall(
  before: CallState | undefined,
  entry: JsonObject,
  others: OtherCalls,
): readonly [CallState, readonly ChatEvent[]] {
  const { name, isText } = calledIn(entry)
  const sent = isText ? inputText(entry, before) : argumentText(functionIn(entry).arguments)
  const piece = before && name !== '' ? newArguments(before.arguments, sent) : sent
  if (sent !== '' && piece === '') return [before!, []]

  const known: CallState = {
    index: before?.index ?? (typeof entry.index === 'number' ? entry.index : undefined),
    // Ids and names come once; where a server repeats them on every delta, the first holds.
    id: before?.id || stringIn(entry.id),
    name: before?.name || name,
    arguments: (before?.arguments ?? '') + piece,
    thoughtSignature: before?.thoughtSignature ?? signatureOf(entry),
    call: before?.call,
    ...(isText || before?.isText === true ? { isText: true } : {}),
  }
  if (known.call !== undefined) {
    return [known, piece === '' ? [] : [argumentDelta(others.choice, known.call, piece)]]
  }
  return known.name === '' ? [known, []] : startCall(known, others)
}

function functionIn(entry: JsonObject): JsonObject {
  return isObject(entry.function) ? entry.function : {}
}

/** The name in an entry, and whether it is of a custom tool. */
function calledIn(entry: JsonObject): { readonly name: string; readonly isText: boolean } {
  const { custom } = entry
  return isObject(custom)
    ? { name: stringIn(custom.name), isText: true }
    : { name: stringIn(functionIn(entry).name), isText: false }
}

/** A piece of a custom tool's input as one of arguments. */
function inputText({ custom }: JsonObject, before: CallState | undefined): string {
  const opening = before === undefined || before.arguments === '' ? '{"input":"' : ''
  return opening + JSON.stringify(isObject(custom) ? stringIn(custom.input) : '').slice(1, -1)
}

function startCall(known: CallState, others: OtherCalls): readonly [CallState, readonly ChatEvent[]] {
  const { choice, started: call } = others
  // Servers that count their ids anew for each call would make two calls one.
  const id = known.id === '' || others.isTaken(known.id) ? others.mintId(call) : known.id
  const { name, thoughtSignature } = known
  const start: ChatEvent = { kind: 'tool-call-start', choice, call, id, name, thoughtSignature }
  // What came before the name was known is sent now.
  const pending = known.arguments === '' ? [] : [argumentDelta(choice, call, known.arguments)]
  return [{ ...known, call, id }, [start, ...pending]]
}

/**
 * The events that complete calls: the arguments of a custom tool's end; a call that never had an argument has `{}`, for
 * a client that parses must not get "".
 */
export function completeCalls(state: CallsState, choice: number): readonly ChatEvent[] {
  return state.calls.flatMap((call) => {
    if (call.call === undefined) return []
    if (call.isText === true) return [argumentDelta(choice, call.call, '"}')]
    return call.arguments === '' ? [argumentDelta(choice, call.call, '{}')] : []
  })
}

/** Whether every call has arguments that parse: a call that a token limit cut off must not be executed. */
export function callsAreWhole(state: CallsState): boolean {
  return state.calls.every(
    (call) => call.isText === true || call.arguments === '' || isJsonObject(call.arguments),
  )
}

/** Whether a call came without the name of its function. */
export function hasNamelessCall(state: CallsState): boolean {
  return state.calls.some((call) => call.call === undefined)
}

function argumentDelta(choice: number, call: number, text: string): ChatEvent {
  return { kind: 'tool-call-delta', choice, call, arguments: text }
}

/** The position of the call that an entry continues, -1 when it opens a new one. */
function findCall(state: CallsState, index: number | undefined, entry: JsonObject): number {
  const fn = functionIn(entry)
  const id = stringIn(entry.id)
  const { name } = calledIn(entry)
  if (id !== '') {
    // An index that either side lacks distinguishes nothing.
    const sameId = state.calls.findLastIndex(
      (call) => call.id === id && (index === undefined || call.index === undefined || call.index === index),
    )
    if (sameId >= 0) return sameId
  }
  if (index === undefined) return id === '' && name === '' ? state.open : -1
  const sameIndex = state.calls.findLastIndex((call) => call.index === index)
  if (sameIndex < 0 || name === '') return sameIndex
  // Some servers number every parallel call 0, and some of those give no ids.
  const known = state.calls[sameIndex]!
  const another =
    id === '' ? isAnotherCall(known, name, argumentText(fn.arguments)) : known.id !== '' && known.id !== id
  return another ? -1 : sameIndex
}

/** Whether a name without an id under a used index starts another call, possibly of the same function. */
export function isAnotherCall(
  last: { readonly name: string; readonly arguments: string },
  name: string,
  text: string,
): boolean {
  if (last.name === '') return false
  if (name !== last.name) return true
  // Arguments that are whole are not continued; the whole may be repeated. Few pieces end as a whole does: only then
  // is it read, for else every piece would cost the length of all before it.
  const { arguments: whole } = last
  return text !== '' && whole.endsWith('}') && !text.startsWith(whole) && isJsonObject(whole)
}

/** What an entry that repeats the name of its call adds to the arguments: it may hold all of them so far. */
export function newArguments(known: string, sent: string): string {
  return known !== '' && sent.startsWith(known) && isJson(sent) ? sent.slice(known.length) : sent
}

/** Arguments are JSON text; a few servers send the object itself, or `null` for none. */
export function argumentText(args: Json | undefined): string {
  if (args == null || args === 'null') return ''
  return typeof args === 'string' ? args : JSON.stringify(args)
}

/** Google's compatible endpoint: the signature that must go back with the call. */
function signatureOf(entry: JsonObject): string | undefined {
  const extra = isObject(entry.extra_content) ? entry.extra_content : {}
  const google = isObject(extra.google) ? extra.google : {}
  return typeof google.thought_signature === 'string' ? google.thought_signature : undefined
}

function isJsonObject(text: string): boolean {
  return isObject(parseJson(text))
}

// Calls of the gateway's own tools as the protocols of OpenAI show them, and as their clients send them back.

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
    action: actionOf(origin, call.arguments, result.action),
    output: result.text,
  }
}

/** The action of a search or page call: as the tool reports it, or else from the model's arguments. */
export function actionOf(
  { kind }: WebToolOrigin,
  json: string,
  reported: JsonObject | undefined,
): JsonObject {
  if (reported !== undefined) return reported
  const { action, argument } = webTools[kind]
  const args = parseJson(json)
  const about = isObject(args) && typeof args[argument] === 'string' ? args[argument] : ''
  return { type: action, [argument]: about, ...(kind === 'web-search' && { sources: [] }) }
}

/** A call that came back, with its result. */
interface RunOfHistory {
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
  const kind = webToolKinds.find((each) => webTools[each].action === action.type)
  if (kind === undefined) return undefined
  const { name, argument } = webTools[kind]
  return { origin: { kind }, name, json: JSON.stringify({ [argument]: action[argument] ?? '' }) }
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
function messageRun(run: GatewayRun): { readonly field: string; readonly entry: JsonObject } {
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
