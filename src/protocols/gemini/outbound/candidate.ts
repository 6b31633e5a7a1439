// Parses one candidate of an answer: its state so far, and the events of each further part.

import type { AudioDelta, ChatEvent } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { mintCallId } from '../call-id.ts'
import type { Calls } from './finish.ts'
import { addSources, noSources, type Sources } from './grounding.ts'
import { argumentsOf } from './partial-args.ts'
import type { AnswerCandidate, LogprobsResult, Part, PartialArg } from './schema.ts'
import { type Carried, carry, opaqueParts, signatureFormat, thoughtId } from '../signatures.ts'

export interface CandidateState {
  readonly choice: number
  /** All visible text so far; sources and signatures refer to offsets in it. */
  readonly text: string
  /** The index of the next reasoning detail, and whether the last thought is still open. */
  readonly nextDetail: number
  readonly thinking: boolean
  /** The ids of the calls so far. Mutated while the stream runs. */
  readonly callIds: Set<string>
  /** Pieces of the last call's arguments while they are streamed. Mutated. */
  readonly openCall: PartialArg[] | undefined
  readonly images: number
  /** Bytes of audio that do not fill a base64 group yet, as base64. */
  readonly audioRest: string
  readonly sources: Sources
  /** Gemini's finish reason, if any yet. Some models repeat it on every chunk, so only the end acts on it. */
  readonly native: string | undefined
}

export function newCandidate(choice: number): CandidateState {
  return {
    choice,
    text: '',
    nextDetail: 0,
    thinking: false,
    callIds: new Set(),
    openCall: undefined,
    images: 0,
    audioRest: '',
    sources: noSources,
    native: undefined,
  }
}

type Step = readonly [CandidateState, readonly ChatEvent[]]

/** The effect of a chunk of a candidate. `answer` seeds the ids of calls without one. */
export function addCandidate(before: CandidateState, chunk: AnswerCandidate, answer: string): Step {
  const sources = addSources(before.sources, chunk.groundingMetadata, chunk.citationMetadata)
  const native =
    chunk.finishReason === 'FINISH_REASON_UNSPECIFIED' ? before.native : (chunk.finishReason ?? before.native)
  let state = sources === before.sources && native === before.native ? before : { ...before, sources, native }
  const events: ChatEvent[] = []
  for (const part of chunk.content?.parts ?? []) {
    const [next, made] = addPart(state, part, answer)
    state = next
    for (const event of made) events.push(event)
  }
  if (chunk.logprobsResult !== undefined) {
    const content = logprobsOf(chunk.logprobsResult)
    if (content.length > 0) events.push({ kind: 'logprobs', choice: state.choice, content, refusal: [] })
  }
  return [state, events]
}

/** The state of a candidate's calls, for its finish reason. */
export function callsOf(state: CandidateState): Calls {
  if (state.openCall !== undefined) return 'cut'
  return state.callIds.size > 0 ? 'complete' : 'none'
}

/** Whether it has any readable or visible content so far. */
export function saysSomething({ text, images }: CandidateState): boolean {
  return text !== '' || images > 0
}

/** The audio held back for a complete base64 group. */
export function restOf(state: CandidateState): readonly ChatEvent[] {
  return state.audioRest === '' ? [] : [audioEvent(state, { data: state.audioRest })]
}

function addPart(state: CandidateState, part: Part, answer: string): Step {
  const opaque = opaqueParts.find((kind) => part[kind] !== undefined)
  if (opaque !== undefined) return addOpaque(state, opaque, part)
  if (part.functionCall !== undefined) return addCall(state, part, answer)
  if (part.inlineData !== undefined) {
    // Images drawn while thinking are not part of the answer.
    return part.thought === true ? [state, []] : addMedia(state, part)
  }
  if (part.thought === true) return addThought(state, part)
  return addText(state, part)
}

function addText(state: CandidateState, part: Part): Step {
  const text = part.text ?? ''
  const after = text === '' ? state : { ...state, text: state.text + text, thinking: false }
  const events: ChatEvent[] = text === '' ? [] : [{ kind: 'text-delta', choice: state.choice, text }]
  if (!part.thoughtSignature) return [after, events]
  const place = { start: state.text.length, end: after.text.length, calls: state.callIds.size }
  const [next, carried] = addDetail(after, { ...place, kind: 'text', signature: part.thoughtSignature })
  return [next, [...events, ...carried]]
}

function addThought(state: CandidateState, part: Part): Step {
  const text = part.text ?? ''
  if (text === '' && !part.thoughtSignature) return [state, []]
  // A signed part is a detail of its own: merged with unsigned ones it would not match its signature.
  const index = state.thinking && !part.thoughtSignature ? state.nextDetail - 1 : state.nextDetail
  const detail = {
    type: 'reasoning.text',
    format: signatureFormat,
    index,
    text,
    ...(part.thoughtSignature ? { id: thoughtId(here(state)), signature: part.thoughtSignature } : {}),
  } as const
  const next = { ...state, nextDetail: index + 1, thinking: !part.thoughtSignature }
  return [next, [{ kind: 'reasoning-delta', choice: state.choice, detail }]]
}

function addOpaque(state: CandidateState, kind: (typeof opaqueParts)[number], part: Part): Step {
  const whole: JsonObject = {
    [kind]: part[kind] as Json,
    ...(part.thoughtSignature ? { thoughtSignature: part.thoughtSignature } : {}),
  }
  return addDetail(state, { ...here(state), kind: 'part', part: whole })
}

function addMedia(state: CandidateState, part: Part): Step {
  const { mimeType = '', data = '' } = part.inlineData ?? {}
  if (data === '') return [state, []]
  if (mimeType.startsWith('audio/')) {
    const [full, audioRest] = wholeGroups(state.audioRest, data)
    return [{ ...state, audioRest }, full === '' ? [] : [audioEvent(state, { data: full })]]
  }
  if (!mimeType.startsWith('image/')) return [state, []]
  const image: ChatEvent = { kind: 'image', choice: state.choice, mediaType: mimeType, data }
  const after = { ...state, images: state.images + 1, thinking: false }
  if (!part.thoughtSignature) return [after, [image]]
  const carried = {
    ...here(state),
    kind: 'image',
    image: state.images,
    signature: part.thoughtSignature,
  } as const
  const [next, events] = addDetail(after, carried)
  return [next, [image, ...events]]
}

function addCall(state: CandidateState, part: Part, answer: string): Step {
  const { id, name, args, partialArgs, willContinue } = part.functionCall ?? {}
  const { choice } = state
  if (!name) {
    // Without a name it continues the open call, or is ignored.
    if (state.openCall === undefined) return [state, []]
    for (const piece of partialArgs ?? []) state.openCall.push(piece)
    return willContinue === true ? [state, []] : closeCall(state)
  }
  const [closed, closing] = state.openCall === undefined ? ([state, []] as const) : closeCall(state)
  const call = closed.callIds.size
  const callId = id && !closed.callIds.has(id) ? id : mintCallId(answer, choice, call)
  closed.callIds.add(callId)
  const started: CandidateState = { ...closed, thinking: false }
  const start: ChatEvent = {
    kind: 'tool-call-start',
    choice,
    call,
    id: callId,
    name,
    thoughtSignature: part.thoughtSignature || undefined,
  }
  if (partialArgs !== undefined || willContinue === true) {
    const open = { ...started, openCall: [...(partialArgs ?? [])] }
    const [next, events] = willContinue === true ? ([open, []] as const) : closeCall(open)
    return [next, [...closing, start, ...events]]
  }
  const whole: ChatEvent = { kind: 'tool-call-delta', choice, call, arguments: JSON.stringify(args ?? {}) }
  return [started, [...closing, start, whole]]
}

function closeCall(state: CandidateState): Step {
  const event: ChatEvent = {
    kind: 'tool-call-delta',
    choice: state.choice,
    call: state.callIds.size - 1,
    arguments: argumentsOf(state.openCall ?? []),
  }
  return [{ ...state, openCall: undefined }, [event]]
}

function addDetail(state: CandidateState, carried: Carried): Step {
  const detail = carry(state.nextDetail, carried)
  const next = { ...state, nextDetail: state.nextDetail + 1, thinking: false }
  return [next, [{ kind: 'reasoning-delta', choice: state.choice, detail }]]
}

function here(state: CandidateState) {
  return { start: state.text.length, end: state.text.length, calls: state.callIds.size }
}

function audioEvent(state: CandidateState, audio: AudioDelta): ChatEvent {
  return { kind: 'audio-delta', choice: state.choice, audio }
}

/** Base64 that can be concatenated: complete groups of three bytes, and the rest. Clients join the deltas as text. */
function wholeGroups(rest: string, data: string): readonly [string, string] {
  if (rest === '' && !data.endsWith('=')) return [data, '']
  const bytes = Buffer.concat([Buffer.from(rest, 'base64'), Buffer.from(data, 'base64')])
  const full = bytes.length - (bytes.length % 3)
  return [bytes.subarray(0, full).toString('base64'), bytes.subarray(full).toString('base64')]
}

/** Log probabilities in OpenAI's shape: the chosen tokens, each with its alternatives. */
function logprobsOf(result: LogprobsResult): Json[] {
  const tokenOf = (token: { token?: string | undefined; logProbability?: number | undefined }) => ({
    token: token.token ?? '',
    logprob: token.logProbability ?? 0,
    bytes: [...Buffer.from(token.token ?? '')],
  })
  return (result.chosenCandidates ?? []).map((chosen, position) => ({
    ...tokenOf(chosen),
    top_logprobs: (result.topCandidates?.[position]?.candidates ?? []).map(tokenOf),
  }))
}
