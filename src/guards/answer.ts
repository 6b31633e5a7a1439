// The guards of an answer, on its events before they are encoded: what a client gets has been looked at, however the
// provider cuts it. Texts go on as soon as they are decided: a mask keeps back a word or so, a hook is asked for a window
// at a time and sees the end of it again with the next. What can only be judged whole is kept until it is: calls of tools,
// documents in JSON, and thoughts that may be signed.

import { joinReasoning } from '../conversation/event.ts'
import type { ContentEvent } from '../conversation/progress.ts'
import type { ReasoningDetail } from '../conversation/request.ts'
import type { CallGuard } from './guards.ts'
import { MaskedText } from './masks.ts'

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
