// Guards: what looks at the texts of a call at two points, and may change them or refuse the call. Masks and hooks are one
// pipeline: first all masks, then the hooks in their order. `request` is whatever leaves for a provider or a tool, and what
// tools bring back; `response` is whatever goes to the client.

import { z } from 'zod'
import type { ContentEvent } from '../conversation/delivered.ts'
import { joinReasoning } from '../conversation/event.ts'
import type { ReasoningDetail } from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'
import {
  type Mask,
  MaskedText,
  maskJsonSteps,
  maskSteps,
  partsSteps,
  type TextPart,
  withTextsSteps,
} from './masks.ts'

export const guardEvents = ['request', 'response'] as const
export type GuardEvent = (typeof guardEvents)[number]

/** An address that is asked. */
export interface Hook {
  /** For receipts, logs and errors: its host. */
  readonly name: string
  readonly on: readonly GuardEvent[]
  /** What follows when it does not answer, or not as it should: the call ends, or goes on. */
  readonly fail: 'closed' | 'open'
  /** Sends a question; resolves with what came back as JSON. Rejects where nothing came in time, or it was no answer. */
  ask(question: object): Promise<unknown>
}

/** The guards of an installation. */
export interface GuardSet {
  readonly masks: Readonly<Record<GuardEvent, readonly Mask[]>>
  readonly hooks: readonly Hook[]
}

/** What a guard has decided, as often. */
export interface GuardDecision {
  readonly guard: string
  readonly on: GuardEvent
  readonly decision: 'allow' | 'deny' | 'replace' | 'failed'
  /** The hook's own code of a denial. */
  readonly code?: string
  times: number
}

/** Whose call it is. */
export interface GuardedCall {
  readonly requestId: string
  /** Ids of the account and of the key; null for a call of the app. */
  readonly account: string
  readonly key: string | null
  /** As it was asked for. */
  readonly model: string
}

/** What guards are run with. */
export interface GuardRim {
  /** Runs work in steps, between which others have their turn. */
  run<Result>(steps: Generator<void, Result, void>): Promise<Result>
  /** Notes that a hook is asked: the returned function is called when it has decided. */
  asks(call: GuardedCall, hook: string, on: GuardEvent): (decision: GuardDecision['decision']) => void
}

/** What a hook may answer. */
const hookAnswer = z.discriminatedUnion('decision', [
  z.looseObject({ decision: z.literal('allow') }),
  z.looseObject({
    decision: z.literal('deny'),
    code: z
      .string()
      .regex(/^[\w.-]{1,64}$/)
      .optional(),
    message: z.string().min(1).max(2_000).optional(),
  }),
  z.looseObject({
    decision: z.literal('replace'),
    document: z.looseObject({ parts: z.array(z.looseObject({ id: z.string(), text: z.string() })) }),
  }),
])

/** What is sent of a part. */
export interface AskedPart extends TextPart {
  /** The name of the tool that is called. */
  readonly name?: string
  /** What the client has been sent before it. */
  readonly before?: string
}

/** The guards of one call, and what they have decided. */
export class CallGuard {
  readonly call: GuardedCall
  readonly #set: GuardSet
  readonly #rim: GuardRim
  readonly #decisions: GuardDecision[] = []

  constructor(set: GuardSet, call: GuardedCall, rim: GuardRim) {
    this.call = call
    this.#set = set
    this.#rim = rim
  }

  /** In the order of the first time. */
  get decisions(): readonly GuardDecision[] {
    return this.#decisions
  }

  has(on: GuardEvent): boolean {
    return this.#set.masks[on].length > 0 || this.hasHooks(on)
  }

  hasHooks(on: GuardEvent): boolean {
    return this.#set.hooks.some((hook) => hook.on.includes(on))
  }

  masks(on: GuardEvent): readonly Mask[] {
    return this.#set.masks[on]
  }

  /** Called with the name of a mask for each thing that it takes out. */
  onFound(on: GuardEvent): (name: string) => void {
    return (guard) => this.#note({ guard, on, decision: 'replace' })
  }

  /**
   * A value with its texts as the guards leave them; the same value where they change nothing. `replaced` maps every text
   * that was changed to what stands in its place. Rejects with `guardrail_denied` and `guardrail_failed`.
   */
  async check<Value>(
    on: GuardEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly replaced: ReadonlyMap<string, string> }> {
    const replaced = new Map<string, string>()
    if (!this.has(on)) return { value, replaced }
    const parts = await this.#rim.run(partsSteps(value))
    const texts = await this.texts(on, parts)
    for (const [index, { text }] of parts.entries())
      if (texts[index] !== text) replaced.set(text, texts[index]!)
    if (replaced.size === 0) return { value, replaced }
    return { value: await this.#rim.run(withTextsSteps(value, texts)), replaced }
  }

  /** A value with its texts masked alone. */
  async mask<Value>(on: GuardEvent, value: Value): Promise<Value> {
    if (this.masks(on).length === 0) return value
    const texts = await this.maskTexts(on, await this.#rim.run(partsSteps(value)))
    return this.#rim.run(withTextsSteps(value, texts))
  }

  /** The texts of these parts as the guards leave them. Rejects as `check` does. */
  async texts(on: GuardEvent, parts: readonly AskedPart[], isLast = true): Promise<readonly string[]> {
    return this.ask(on, parts, await this.maskTexts(on, parts), isLast)
  }

  /** The same of texts that are masked. `isLast`: no more of them follows. */
  async ask(
    on: GuardEvent,
    parts: readonly AskedPart[],
    masked: readonly string[],
    isLast = true,
  ): Promise<readonly string[]> {
    let texts = masked
    for (const hook of this.#set.hooks)
      if (hook.on.includes(on) && parts.length > 0) texts = await this.#ask(hook, on, parts, texts, isLast)
    return texts
  }

  /** The texts of these parts, masked. */
  async maskTexts(
    on: GuardEvent,
    parts: readonly Pick<TextPart, 'kind' | 'text'>[],
  ): Promise<readonly string[]> {
    const masks = this.masks(on)
    if (masks.length === 0) return parts.map(({ text }) => text)
    const texts: string[] = []
    for (const part of parts) texts.push(await this.#rim.run(maskPartSteps(part, masks, this.onFound(on))))
    return texts
  }

  async #ask(
    hook: Hook,
    on: GuardEvent,
    parts: readonly AskedPart[],
    texts: readonly string[],
    isLast: boolean,
  ): Promise<readonly string[]> {
    const { requestId: request_id, account, key, model } = this.call
    const shown = parts.map(({ signed, ...part }, index) => ({
      ...part,
      ...(signed && { signed }),
      text: texts[index],
    }))
    const document = { parts: shown, ...(on === 'response' && { last: isLast }) }
    const onDecision = this.#rim.asks(this.call, hook.name, on)
    const noteDecision = (decision: GuardDecision['decision'], code?: string) => {
      onDecision(decision)
      this.#note({ guard: hook.name, on, decision, ...(code === undefined ? {} : { code }) })
    }
    let made: readonly string[] | Denial
    try {
      made = readAnswer(
        await hook.ask({ event: on, request_id, account, key, model, document }),
        parts,
        texts,
      )
    } catch (cause) {
      noteDecision('failed')
      if (hook.fail === 'open') return texts
      throw new GatewayError('guardrail_failed', { metadata: { guardrail: hook.name, on }, cause })
    }
    if ('denied' in made) {
      const { code, message } = made.denied
      noteDecision('deny', code)
      throw new GatewayError('guardrail_denied', {
        ...(message !== undefined && { message }),
        metadata: { guardrail: hook.name, on, ...(code !== undefined && { code }) },
      })
    }
    noteDecision(made === texts ? 'allow' : 'replace')
    return made
  }

  #note(decision: Omit<GuardDecision, 'times'>): void {
    const { guard, on, decision: what, code } = decision
    const known = this.#decisions.find(
      (each) => each.guard === guard && each.on === on && each.decision === what && each.code === code,
    )
    if (known === undefined) this.#decisions.push({ ...decision, times: 1 })
    else known.times++
  }
}

interface Denial {
  readonly denied: { readonly code?: string | undefined; readonly message?: string | undefined }
}

/** The texts that an answer leaves, or why it denies them. Throws for one that is none. */
function readAnswer(
  answer: unknown,
  parts: readonly TextPart[],
  texts: readonly string[],
): readonly string[] | Denial {
  const read = hookAnswer.parse(answer)
  if (read.decision === 'allow') return texts
  if (read.decision === 'deny') return { denied: { code: read.code, message: read.message } }
  const indexes = new Map(parts.map(({ id }, index) => [id, index]))
  const made = [...texts]
  for (const { id, text } of read.document.parts) {
    const index = indexes.get(id)
    if (index === undefined) throw new Error('the answer replaces a part that was not sent, or one twice')
    indexes.delete(id)
    if (parts[index]!.kind === 'arguments' && isJson(texts[index]!) && !isJson(text))
      throw new Error('the answer replaces JSON by what is none')
    made[index] = text
  }
  return made
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function maskPartSteps(
  { kind, text }: Pick<TextPart, 'kind' | 'text'>,
  masks: readonly Mask[],
  onFound: (name: string) => void,
): Generator<void, string, void> {
  // Of text that is to be JSON and is none, everything is looked at.
  return kind === 'arguments' && isJson(text)
    ? maskJsonSteps(text, masks, onFound)
    : maskSteps(text, masks, onFound)
}

// The guards of an answer, on its events before they are encoded: what a client gets has been looked at, however the
// provider cuts it. Texts go on as soon as they are decided: a mask keeps back a word or so, a hook is asked for a window
// at a time and sees the end of it again with the next. What can only be judged whole is kept until it is: calls of tools,
// documents in JSON, and thoughts that may be signed.

/** Characters that a hook is asked for at a time, and how many of them it sees again. */
export const windowCharacters = 1_000
const seenAgain = 200
/** What a hook is shown of the text that the client has. */
const shownBefore = 500

type TextEvent = Extract<ContentEvent, { kind: 'text-delta' | 'refusal-delta' }>
type ReasoningEvent = Extract<ContentEvent, { kind: 'reasoning-delta' }>
type ToolEvent = Extract<ContentEvent, { kind: 'tool-call-start' | 'tool-call-delta' }>
type AnnotationEvent = Extract<ContentEvent, { kind: 'annotation' }>

type Emit = (event: ContentEvent) => void

/** Takes the events of one answer, and gives those that may go to the client. */
export class AnswerGuard {
  readonly #guard: CallGuard
  readonly #isDocument: boolean
  readonly #choices = new Map<number, ChoiceGuard>()
  #pending: ContentEvent[] = []

  /** `isDocument`: its text is JSON. */
  constructor(guard: CallGuard, isDocument: boolean) {
    this.#guard = guard
    this.#isDocument = isDocument
  }

  take(event: ContentEvent): void {
    this.#pending.push(event)
  }

  /** Whether events have come that nobody has looked at. */
  get isWaiting(): boolean {
    return this.#pending.length > 0
  }

  /** Gives what may go on of the events so far. Rejects with `guardrail_denied` and `guardrail_failed`. */
  async release(emit: Emit): Promise<void> {
    while (this.#pending.length > 0)
      for (const event of this.#pending.splice(0)) await this.#choiceOf(event.choice).take(event, emit)
  }

  /** The answer ends without an end of its own: gives what was kept back. */
  async end(emit: Emit): Promise<void> {
    await this.release(emit)
    for (const choice of this.#choices.values()) await choice.close(emit)
  }

  #choiceOf(index: number): ChoiceGuard {
    let choice = this.#choices.get(index)
    if (choice === undefined)
      this.#choices.set(index, (choice = new ChoiceGuard(this.#guard, index, this.#isDocument)))
    return choice
  }
}

class ChoiceGuard {
  readonly #guard: CallGuard
  readonly #id: string
  readonly #isDocument: boolean
  /** What is open: at most one of the three has anything. */
  #run: TextRun | undefined
  #thought: ReasoningEvent[] = []
  #calls: ToolEvent[] = []
  readonly #places = new Places()
  /** Sources of the text that is open. */
  readonly #annotations: AnnotationEvent[] = []
  #transcript: MaskedText | undefined

  constructor(guard: CallGuard, index: number, isDocument: boolean) {
    this.#guard = guard
    this.#id = `choices.${index}`
    this.#isDocument = isDocument
  }

  async take(event: ContentEvent, emit: Emit): Promise<void> {
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        return this.#takeText(event, emit)
      case 'reasoning-delta':
        return this.#takeThought(event, emit)
      case 'tool-call-start':
      case 'tool-call-delta':
        if (this.#calls.length === 0) await this.close(emit)
        this.#calls.push(event)
        return
      case 'annotation':
        this.#annotations.push(event)
        return
      case 'logprobs':
        // They say every token of what may have been taken out.
        return
      case 'audio-delta':
        return this.#takeAudio(event, emit)
      case 'image':
        await this.close(emit)
        return emit(event)
      case 'gateway-run':
        return this.#takeRun(event, emit)
      case 'gateway-item': {
        await this.close(emit)
        const { value } = await this.#guard.check('response', event)
        return emit(value)
      }
      default:
        await this.close(emit)
        emit(await this.#guard.mask('response', event))
    }
  }

  /** Gives all that is kept back. */
  async close(emit: Emit): Promise<void> {
    await this.#closeRun(emit)
    await this.#closeThought(emit)
    await this.#closeCalls(emit)
    await this.#annotate(emit)
    const transcript = this.#transcript?.end() ?? ''
    this.#transcript = undefined
    if (transcript !== '') emit({ kind: 'audio-delta', choice: this.#index, audio: { transcript } })
  }

  get #index(): number {
    return Number(this.#id.slice('choices.'.length))
  }

  // ---- texts ------------------------------------------------------------------------------------------------

  async #takeText(event: TextEvent, emit: Emit): Promise<void> {
    const { kind, message } = event
    const name = kind === 'text-delta' ? 'text' : 'refusal'
    const id = message === undefined ? `${this.#id}.${name}` : `${this.#id}.${name}.${message.at}`
    await this.#openRun(id, emit, {
      whole: this.#isDocument && kind === 'text-delta',
      places: kind === 'text-delta' ? this.#places : undefined,
    })
    const run = this.#run!
    // The phase of a message may be known only after its text.
    run.event = (text) => ({ ...event, text })
    await run.push(event.text, emit)
  }

  async #openRun(id: string, emit: Emit, how: Pick<TextRun['how'], 'whole' | 'places'>): Promise<void> {
    if (this.#run?.how.id === id) return
    await this.close(emit)
    this.#run = new TextRun({ guard: this.#guard, id, ...how })
  }

  async #closeRun(emit: Emit): Promise<void> {
    const run = this.#run
    this.#run = undefined
    await run?.end(emit)
  }

  // ---- thoughts ---------------------------------------------------------------------------------------------

  async #takeThought(event: ReasoningEvent, emit: Emit): Promise<void> {
    const { detail } = event
    if (mayBeSigned(detail)) {
      const isSame = this.#thought.length > 0 && this.#thought[0]!.detail.index === detail.index
      if (!isSame) await this.close(emit)
      this.#thought.push(event)
      return
    }
    const of = detail.text == null && detail.summary !== undefined ? 'summary' : 'text'
    await this.#openRun(`${this.#id}.reasoning.${detail.index}.${of}`, emit, {
      whole: false,
      places: undefined,
    })
    const run = this.#run!
    const { text: _, summary: __, ...rest } = detail
    run.event = (text) => ({ ...event, detail: { ...rest, [of]: text } })
    await run.push(detail[of] ?? '', emit)
  }

  /** A thought that is signed goes on as it is, or not at all. */
  async #closeThought(emit: Emit): Promise<void> {
    const events = this.#thought.splice(0)
    const [first] = events
    if (first === undefined) return
    const whole = events.slice(1).reduce((before, { detail }) => joinReasoning(before, detail), first.detail)
    const { value, replaced } = await this.#guard.check('response', { reasoning: [whole] })
    if (replaced.size === 0) for (const event of events) emit(event)
    else for (const detail of value.reasoning) emit({ ...first, detail })
  }

  // ---- calls of tools ---------------------------------------------------------------------------------------

  async #closeCalls(emit: Emit): Promise<void> {
    const events = this.#calls.splice(0)
    const written = new Map<number, string>()
    for (const event of events)
      if (event.kind === 'tool-call-delta')
        written.set(event.call, (written.get(event.call) ?? '') + event.arguments)
    for (const event of events) {
      if (event.kind !== 'tool-call-start') continue
      emit(event)
      const text = written.get(event.call) ?? ''
      if (text === '') continue
      const id = `${this.#id}.tool_calls.${event.call}.arguments`
      const part = {
        id,
        role: 'assistant',
        kind: 'arguments',
        signed: false,
        name: event.name,
        text,
      } as const
      const [made] = await this.#guard.texts('response', [part])
      emit({ kind: 'tool-call-delta', choice: event.choice, call: event.call, arguments: made! })
    }
  }

  // ---- the rest ---------------------------------------------------------------------------------------------

  /** Gives the sources of the text that is out, at their places in it. */
  async #annotate(emit: Emit): Promise<void> {
    for (const event of this.#annotations.splice(0)) {
      const { annotation } = await this.#guard.mask('response', event)
      const start = this.#places.placeOf(annotation.start)
      emit({ ...event, annotation: { ...annotation, start, end: this.#places.placeOf(annotation.end) } })
    }
  }

  /** What is said is masked where it is written; what is heard is not looked into. */
  #takeAudio(event: Extract<ContentEvent, { kind: 'audio-delta' }>, emit: Emit): void {
    const { transcript } = event.audio
    if (transcript === undefined) return emit(event)
    this.#transcript ??= new MaskedText(this.#guard.masks('response'), this.#guard.onFound('response'))
    emit({ ...event, audio: { ...event.audio, transcript: this.#transcript.push(transcript) } })
  }

  async #takeRun(event: Extract<ContentEvent, { kind: 'gateway-run' }>, emit: Emit): Promise<void> {
    await this.close(emit)
    const { value } = await this.#guard.check('response', event)
    const { after } = value.run
    emit({ ...value, run: { ...value.run, after: { ...after, text: this.#places.placeOf(after.text) } } })
  }
}

/** Formats of thoughts that their provider signs, or seals, when they are complete. */
function mayBeSigned({ format, signature, data }: ReasoningDetail): boolean {
  return (format != null && format !== 'unknown') || signature != null || data !== undefined
}

/** Where places in a choice's text are in the text that its client has. */
class Places {
  readonly #runs: { readonly from: number; readonly out: number; readonly run: TextRun }[] = []
  #length = 0
  #outLength = 0

  open(run: TextRun): void {
    this.#runs.push({ from: this.#length, out: this.#outLength, run })
  }

  onText(characters: number): void {
    this.#length += characters
  }

  onOut(characters: number): void {
    this.#outLength += characters
  }

  placeOf(offset: number): number {
    const found = this.#runs.findLast(({ from }) => from <= offset)
    if (found === undefined) return offset
    return Math.min(this.#outLength, found.out + found.run.placeOf(offset - found.from))
  }
}

interface RunOf {
  readonly guard: CallGuard
  /** Of the part that it is. */
  readonly id: string
  /** It is judged when it is complete, as JSON. */
  readonly whole: boolean
  readonly places: Places | undefined
}

/** One text of an answer. */
class TextRun {
  readonly how: RunOf
  event: (text: string) => ContentEvent = () => {
    throw new Error('a text has no event yet')
  }
  readonly #masked: MaskedText
  readonly #hooks: boolean
  /** Masked, and not yet out. */
  #waiting = ''
  #before = ''
  #replaced: { from: number; to: number; length: number }[] = []
  #outAt = 0
  #isFirst = true

  constructor(how: RunOf) {
    this.how = how
    const { guard, places } = how
    this.#masked = new MaskedText(how.whole ? [] : guard.masks('response'), guard.onFound('response'))
    this.#hooks = guard.hasHooks('response')
    places?.open(this)
  }

  async push(text: string, emit: Emit): Promise<void> {
    this.how.places?.onText(text.length)
    this.#waiting += this.#masked.push(text)
    if (this.#isFirst && text === '') emit(this.event(''))
    this.#isFirst = false
    if (this.how.whole) return
    if (!this.#hooks) return this.#give(this.#waiting.length, emit)
    if (this.#waiting.length < windowCharacters + seenAgain) return
    await this.#ask(false)
    let length = Math.max(0, this.#waiting.length - seenAgain)
    // The two halves of a character stay together.
    const last = this.#waiting.charCodeAt(length - 1)
    if (last >= 0xd800 && last <= 0xdbff) length--
    this.#give(length, emit)
  }

  async end(emit: Emit): Promise<void> {
    this.#waiting += this.#masked.end()
    if (this.how.whole && this.#waiting !== '') {
      const { guard } = this.how
      const [masked] = await guard.maskTexts('response', [{ kind: 'arguments', text: this.#waiting }])
      this.#replaceWaiting(masked!)
    }
    if (this.#hooks && this.#waiting !== '') await this.#ask(true)
    this.#give(this.#waiting.length, emit)
  }

  /** Where a place in the text is in what is out of it, or will be. */
  placeOf(offset: number): number {
    let at = this.#masked.placeOf(offset)
    for (const { from, to, length } of this.#replaced) {
      if (at <= from) continue
      at = at < to ? from + length : at + length - (to - from)
    }
    return at
  }

  async #ask(isLast: boolean): Promise<void> {
    const { guard, id, whole } = this.how
    const kind = whole ? 'arguments' : 'text'
    const before = this.#before === '' ? {} : { before: this.#before }
    const part = { id, role: 'assistant', kind, signed: false, text: this.#waiting, ...before } as const
    const [made] = await guard.ask('response', [part], [this.#waiting], isLast)
    this.#replaceWaiting(made!)
  }

  #replaceWaiting(text: string): void {
    if (text === this.#waiting) return
    const from = this.#outAt
    this.#replaced.push({ from, to: from + this.#waiting.length, length: text.length })
    this.#waiting = text
  }

  #give(length: number, emit: Emit): void {
    if (length <= 0) return
    const text = this.#waiting.slice(0, length)
    this.#waiting = this.#waiting.slice(length)
    this.#outAt += length
    this.how.places?.onOut(length)
    if (this.#hooks) this.#before = (this.#before + text).slice(-shownBefore)
    emit(this.event(text))
  }
}
