// What of an answer has been delivered, in tokens: a running estimate while it streams, and the text itself for the
// exact count of what no provider has counted. The only count of delivered tokens there is.

import type { ChatEvent, Choice } from './event.ts'
import { RunningTokens } from './running-tokens.ts'

export type DeliveredKind = 'output' | 'reasoning'

/** Tokens by the bucket they are charged in. */
export type DeliveredTokens = Readonly<Record<DeliveredKind, number>>

/** A text to count exactly, and what it stands for. */
export interface Sample {
  readonly kind: DeliveredKind
  readonly text: string
  /** The running estimate of `text`, and of all that it is a sample of. */
  readonly textTokens: number
  readonly allTokens: number
}

/** More of one text is not kept: what comes behind is estimated, corrected by how far off the estimate of this was. */
const keptCharacters = 65_536
/** Pieces are joined when there are so many: a string cut out of a larger one keeps the larger one in memory. */
const joinedPieces = 64

/** A place in a text. */
interface Mark {
  readonly characters: number
  readonly tokens: number
}

const beginning: Mark = { characters: 0, tokens: 0 }

/** One text of an answer: what a choice says, or what it thinks. */
class Text {
  readonly choice: number
  readonly kind: DeliveredKind
  readonly #estimate = new RunningTokens()
  #pieces: string[] = []
  #kept = 0
  /** How many of the pieces are in the estimate. */
  #read = 0
  #keptTokens = 0
  /** Where the provider's last count stands. */
  #mark = beginning

  constructor(choice: number, kind: DeliveredKind) {
    this.choice = choice
    this.kind = kind
  }

  add(text: string): void {
    if (this.#kept >= keptCharacters) {
      this.#look()
      this.#estimate.add(text)
      return
    }
    this.#pieces.push(text)
    this.#kept += text.length
    if (this.#pieces.length >= joinedPieces) this.#join()
  }

  get tokens(): number {
    this.#look()
    return this.#estimate.tokens
  }

  /** Of what is kept. */
  get characters(): number {
    return this.#kept
  }

  /** How many words of what is kept there are, up to `most`: what is beyond them is not looked at. */
  wordsUpTo(most: number): number {
    this.#join()
    const text = this.#pieces[0]!
    const word = /\S+/g
    let words = 0
    while (words < most && word.test(text)) words++
    return words
  }

  /** Tokens since the last count. */
  get uncounted(): number {
    return this.tokens - this.#mark.tokens
  }

  count(): void {
    this.#mark = { tokens: this.tokens, characters: this.#kept }
  }

  sample(since: 'start' | 'count'): Sample {
    const { kind, tokens: all } = this
    const from = since === 'start' ? beginning : this.#mark
    this.#join()
    return {
      kind,
      text: (this.#pieces[0] ?? '').slice(from.characters),
      textTokens: Math.max(0, this.#keptTokens - from.tokens),
      allTokens: all - from.tokens,
    }
  }

  #look(): void {
    if (this.#read === this.#pieces.length) return
    for (; this.#read < this.#pieces.length; this.#read++) this.#estimate.add(this.#pieces[this.#read]!)
    this.#keptTokens = this.#estimate.tokens
  }

  #join(): void {
    this.#look()
    this.#pieces = [this.#pieces.join('')]
    this.#read = 1
  }
}

function nameOf(kind: DeliveredKind, choice: number): string {
  return `${kind} ${choice}`
}

const noTokens: DeliveredTokens = { output: 0, reasoning: 0 }

export class Delivered {
  readonly #texts: Text[] = []
  /** The text of the last piece: nearly always that of the next. */
  #last: Text | undefined
  /** All of them, if there are several. */
  #named: Map<string, Text> | undefined
  #any = false
  /** Searches of the provider that have begun and not ended. */
  #searches: Set<string> | undefined
  /** The provider's last count of its output, and whether it was made before there was any. */
  #counted: DeliveredTokens = noTokens
  #early = false

  /** What the client is served with an event of a stream. */
  addEvent(event: ChatEvent): void {
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        return this.add(event.choice, 'output', event.text)
      case 'reasoning-delta':
        return this.add(event.choice, 'reasoning', event.detail.text ?? event.detail.summary ?? '')
      case 'tool-call-start':
        return this.add(event.choice, 'output', event.name)
      case 'tool-call-delta':
        return this.add(event.choice, 'output', event.arguments)
      case 'audio-delta':
        return this.add(event.choice, 'output', event.audio.transcript ?? '')
      case 'search-start':
        ;(this.#searches ??= new Set()).add(event.search)
        return
      case 'gateway-item':
        if (event.search !== undefined) this.#searches?.delete(event.search)
        this.#any = true
        return
      case 'annotation':
      case 'logprobs':
      case 'image':
        this.#any = true
    }
  }

  /** Adds the content of a choice of a whole answer, without framing and the provider's own fields. */
  addChoice({ index, text, refusal, reasoning, toolCalls, audio, images }: Choice): void {
    if (reasoning.length > 0 || images.length > 0 || audio) this.#any = true
    if (text) this.add(index, 'output', text)
    if (refusal) this.add(index, 'output', refusal)
    if (audio?.transcript) this.add(index, 'output', audio.transcript)
    for (const { name, arguments: args } of toolCalls) this.add(index, 'output', name + args)
    for (const detail of reasoning) this.add(index, 'reasoning', detail.text ?? detail.summary ?? '')
  }

  /** A piece of text for the client. Pieces of one choice and kind are parts of one text. */
  add(choice: number, kind: DeliveredKind, text: string): void {
    this.#any = true
    this.#textOf(choice, kind).add(text)
  }

  #textOf(choice: number, kind: DeliveredKind): Text {
    const last = this.#last
    if (last?.choice === choice && last.kind === kind) return last
    const name = nameOf(kind, choice)
    let text = this.#named?.get(name)
    if (!text) {
      text = new Text(choice, kind)
      this.#texts.push(text)
      if (last) {
        this.#named ??= new Map([[nameOf(last.kind, last.choice), last]])
        this.#named.set(name, text)
      }
    }
    return (this.#last = text)
  }

  /** Something without text, such as sealed thoughts: it has been served, and its prompt is owed. */
  addOpaque(): void {
    this.#any = true
  }

  /**
   * The provider has counted what it made up to here. A count that has not grown says nothing about what came since:
   * some providers repeat a zero, or their first figure, until the end.
   */
  count({ output, reasoning }: DeliveredTokens): void {
    if (output + reasoning <= this.#counted.output + this.#counted.reasoning) return
    this.#early = this.#texts.length === 0
    this.#counted = { output, reasoning }
    for (const text of this.#texts) text.count()
  }

  /** Whether the client was served anything. */
  get any(): boolean {
    return this.#any
  }

  /** Characters of text, as far as it is kept: at least so many were served. */
  get characters(): number {
    let characters = 0
    for (const text of this.#texts) characters += text.characters
    return characters
  }

  /** How many words it has, up to `most`. */
  wordsUpTo(most: number): number {
    return this.#texts.reduce((words, text) => words + text.wordsUpTo(most - words), 0)
  }

  /** Searches that the provider has begun, and whose results have not come. */
  get openSearches(): number {
    return this.#searches?.size ?? 0
  }

  /** Output tokens so far, reasoning included: the provider's count, and the running estimate of what came since. */
  get tokens(): number {
    const { output, reasoning } = this.withCounted(this.running('count'))
    return Math.max(this.#any ? 1 : 0, Math.round(output + reasoning))
  }

  /** The running estimate of all, or of what came since the provider's last count. */
  running(since: 'start' | 'count'): DeliveredTokens {
    let output = 0
    let reasoning = 0
    for (const text of this.#texts) {
      const tokens = since === 'start' ? text.tokens : text.uncounted
      if (text.kind === 'output') output += tokens
      else reasoning += tokens
    }
    return { output, reasoning }
  }

  /** The texts behind `running`, for an exact count. */
  samples(since: 'start' | 'count'): readonly Sample[] {
    return this.#texts.map((text) => text.sample(since))
  }

  /**
   * The provider's count with what came since. A figure that was there before any output is of the first tokens
   * to come (Anthropic's `message_start`), which are among what came since; its reasoning has been made, seen or not.
   */
  withCounted(since: DeliveredTokens): DeliveredTokens {
    const { output, reasoning } = this.#counted
    return {
      output: this.#early ? Math.max(output, since.output) : output + since.output,
      reasoning: reasoning + since.reasoning,
    }
  }
}
