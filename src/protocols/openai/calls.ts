// Tool calls as providers stream them, numbered from 0 without gaps, each started once and never twice.

import type { ChatEvent } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isJson, isObject, parseJson } from '../lenient.ts'

/** One tool call of a choice, as far as it has come. */
export interface CallState {
  /** The provider's index, where it gave one. */
  readonly index: number | undefined
  readonly id: string
  readonly name: string
  readonly arguments: string
  readonly thoughtSignature: string | undefined
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
export interface OtherCalls extends CallContext {
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
  const fn = isObject(entry.function) ? entry.function : {}
  const name = textOf(fn.name)
  const sent = argumentText(fn.arguments)
  const piece = before && name !== '' ? newArguments(before.arguments, sent) : sent
  if (sent !== '' && piece === '') return [before!, []]

  const known: CallState = {
    index: before?.index ?? (typeof entry.index === 'number' ? entry.index : undefined),
    // Ids and names come once; where a server repeats them on every delta, the first holds.
    id: before?.id || textOf(entry.id),
    name: before?.name || name,
    arguments: (before?.arguments ?? '') + piece,
    thoughtSignature: before?.thoughtSignature ?? signatureOf(entry),
    call: before?.call,
  }
  if (known.call !== undefined) {
    return [known, piece === '' ? [] : [argumentDelta(others.choice, known.call, piece)]]
  }
  return known.name === '' ? [known, []] : startCall(known, others)
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

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}

/** The events that complete calls which never had an argument: `{}`, for a client that parses must not get "". */
export function completeCalls(state: CallsState, choice: number): readonly ChatEvent[] {
  return state.calls.flatMap((call) =>
    call.call !== undefined && call.arguments === '' ? [argumentDelta(choice, call.call, '{}')] : [],
  )
}

/** Whether every call has arguments that parse: a call that a token limit cut off must not be executed. */
export function callsAreWhole(state: CallsState): boolean {
  return state.calls.every((call) => call.arguments === '' || isJsonObject(call.arguments))
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
  const fn = isObject(entry.function) ? entry.function : {}
  const id = textOf(entry.id)
  const name = textOf(fn.name)
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
