// What of an answer has been delivered, in tokens: a running estimate while it streams, and the text itself for the
// exact count of what no provider has counted. The only count of delivered tokens there is.

import type { ChatEvent, Choice, Fault } from './event.ts'
import type { ReasoningDetail } from './request.ts'
import { laterUsage, type Usage } from './usage.ts'

type DeliveredKind = 'output' | 'reasoning'

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

// Events of an answer in pieces: a provider may send megabytes in one, and each is written out in one go.

/** Characters of text in one piece. */
export const pieceCharacters = 65_536
/** Log probabilities in one piece. */
const pieceEntries = 256

/** The same answer in events without long texts or many log probabilities. An image stays whole. */
export function* inPieces(events: Iterable<ChatEvent>): Generator<ChatEvent> {
  for (const event of events) yield* piecesOf(event)
}

function* piecesOf(event: ChatEvent): Generator<ChatEvent> {
  switch (event.kind) {
    case 'text-delta':
    case 'refusal-delta':
      for (const text of textPieces(event.text)) yield { ...event, text }
      return
    case 'reasoning-delta':
      for (const detail of detailPieces(event.detail)) yield { ...event, detail }
      return
    case 'tool-call-delta':
      for (const text of textPieces(event.arguments)) yield { ...event, arguments: text }
      return
    case 'logprobs':
      if (event.content.length <= pieceEntries) return yield event
      for (let at = 0; at < event.content.length; at += pieceEntries) {
        const content = event.content.slice(at, at + pieceEntries)
        yield { ...event, content, refusal: at === 0 ? event.refusal : [] }
      }
      return
    default:
      yield event
  }
}

/** What closes a detail, its signature and what is encrypted, comes with its last piece. */
function* detailPieces(detail: ReasoningDetail): Generator<ReasoningDetail> {
  const { text } = detail
  if (text == null || text.length <= pieceCharacters) return yield detail
  const pieces = textPieces(text)
  const last = pieces.pop()!
  for (const piece of pieces)
    yield { type: detail.type, format: detail.format, index: detail.index, text: piece }
  yield { ...detail, text: last }
}

/** A text in pieces; the two halves of a character stay together. */
export function textPieces(text: string): string[] {
  if (text.length <= pieceCharacters) return [text]
  const pieces: string[] = []
  for (let from = 0; from < text.length;) {
    let to = from + pieceCharacters
    const last = text.charCodeAt(to - 1)
    if (last >= 0xd800 && last <= 0xdbff) to--
    pieces.push(text.slice(from, to))
    from = to
  }
  return pieces
}

/** Characters that an event is written in, about. */
function sizeOf(event: ChatEvent): number {
  const frame = 256
  switch (event.kind) {
    case 'text-delta':
    case 'refusal-delta':
      return frame + event.text.length
    case 'reasoning-delta':
      return frame + (event.detail.text?.length ?? 0)
    case 'tool-call-delta':
      return frame + event.arguments.length
    case 'logprobs':
      return frame + 128 * event.content.length
    default:
      return frame
  }
}

// A running estimate of the tokens of a text that comes in pieces: one pass over its characters, no vocabulary.

/** Tokens that one UTF-16 code unit makes on average, by script; fitted to o200k_base. */
const scripts: readonly { readonly upTo: number; readonly tokens: number }[] = [
  { upTo: 0x24f, tokens: 0.45 }, // Latin letters beyond ASCII
  { upTo: 0x36f, tokens: 0.6 },
  { upTo: 0x3ff, tokens: 0.44 }, // Greek
  { upTo: 0x52f, tokens: 0.33 }, // Cyrillic
  { upTo: 0x58f, tokens: 0.5 }, // Armenian
  { upTo: 0x5ff, tokens: 0.46 }, // Hebrew
  { upTo: 0x6ff, tokens: 0.37 }, // Arabic
  { upTo: 0x8ff, tokens: 0.6 },
  { upTo: 0xdff, tokens: 0.37 }, // the scripts of India
  { upTo: 0xe7f, tokens: 0.5 }, // Thai
  { upTo: 0x1fff, tokens: 0.6 },
  { upTo: 0x2fff, tokens: 0.9 }, // punctuation, symbols, variation selectors
  { upTo: 0x30ff, tokens: 0.75 }, // Kana
  { upTo: 0xabff, tokens: 0.87 }, // Han
  { upTo: 0xd7ff, tokens: 0.85 }, // Hangul
  { upTo: 0xffff, tokens: 0.9 }, // halves of emoji, full-width forms
]

// ASCII is read by runs: a word is about one token however long, up to a point; digits go three to a token.
const perWord = 1
const perInnerWord = 1.3
const longWord = 6
const perFurtherLetter = 0.35
const perDigit = 0.33
const perNumber = 1.7
const perSign = 0.25
const perLine = 1.5

// What an ASCII character is.
const space = 0
const lower = 1
const upper = 2
const digit = 3
const sign = 4
const line = 5
const kinds = Uint8Array.from({ length: 128 }, (_, code) => kindOf(String.fromCharCode(code)))

function kindOf(character: string): number {
  if (character === '\n') return line
  if (/[a-z]/.test(character)) return lower
  if (/[A-Z]/.test(character)) return upper
  if (/\d/.test(character)) return digit
  return /\s/.test(character) ? space : sign
}

/** A text of at most so many characters is read as a whole. */
const readWhole = 1024 ** 2
/** Characters of a stretch of a longer one. */
const stretch = 4_096

export class RunningTokens {
  #tokens = 0
  #last = space
  /** Letters of the word that the text ends in. */
  #letters = 0

  /** The estimate so far; not rounded. */
  get tokens(): number {
    return this.#tokens
  }

  add(text: string): void {
    if (text.length <= readWhole) return this.#read(text)
    // A longer text, which only comes in one piece from a provider that sends megabytes, is sampled in this many
    // places.
    const before = this.#tokens
    const stride = stretch * Math.ceil(text.length / readWhole)
    let read = 0
    for (let at = 0; at < text.length; at += stride) {
      const some = text.slice(at, at + stretch)
      this.#read(some)
      read += some.length
    }
    this.#tokens = before + ((this.#tokens - before) * text.length) / read
  }

  #read(text: string): void {
    let tokens = this.#tokens
    let last = this.#last
    let letters = this.#letters
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      const kind = code < 128 ? kinds[code]! : sign
      if (kind === lower || kind === upper) {
        // A capital behind a small letter begins another word.
        const goesOn = last === upper || last === kind
        letters = goesOn ? letters + 1 : 1
        if (!goesOn) tokens += last === lower || last === digit ? perInnerWord : perWord
        else if (letters > longWord) tokens += perFurtherLetter
      } else if (kind === digit) tokens += last === digit ? perDigit : perDigit + perNumber
      else if (kind === line) tokens += perLine
      else if (kind === sign) tokens += code < 128 ? perSign : tokensOf(code)
      last = kind
    }
    this.#tokens = tokens
    this.#last = last
    this.#letters = letters
  }
}

function tokensOf(code: number): number {
  let at = 0
  while (code > scripts[at]!.upTo) at++
  return scripts[at]!.tokens
}

// What is known of an answer while it streams.

export interface Progress {
  /** Content has come: from here on no other offer can take over. */
  readonly started: boolean
  /** The provider ended its answer properly. */
  readonly finished: boolean
  readonly fault: Fault | undefined
  /** What the provider has counted so far. */
  readonly usage: Usage | undefined
  /** What the client was served: for checkpoints, for bounds, and for answers whose provider counts nothing. */
  readonly delivered: Delivered
  readonly finishReason: string | undefined
  readonly upstreamId: string | undefined
}

/** An event that is part of the answer's content. */
export type ContentEvent = Extract<ChatEvent, { choice: number }>

type Steps = Generator<void, void, void>

/** Of so little no event is cut into pieces: half of one. */
const littleCharacters = pieceCharacters / 2

/** Tracks the progress of one answer from its events. */
export class EventProgress implements Progress {
  started = false
  finished = false
  fault: Fault | undefined
  usage: Usage | undefined
  readonly delivered = new Delivered()
  finishReason: string | undefined
  upstreamId: string | undefined

  /** Whether the answer has ended, well or not: nothing after that belongs to it. */
  get ended(): boolean {
    return this.finished || this.fault !== undefined
  }

  /**
   * Takes the events of one frame, in their order, and calls `onContent` for each that is content. Little is taken at
   * once, and nothing is given; much is taken in the steps that are given, large events in pieces.
   */
  take(events: readonly ChatEvent[], onContent: (event: ContentEvent) => void): Steps | undefined {
    let size = 0
    for (const event of events) size += sizeOf(event)
    if (size > littleCharacters) return this.#inSteps(events, onContent)
    const { usage } = this
    for (const event of events) {
      if (this.ended) break
      this.#take(event, onContent)
    }
    this.#count(usage)
    return undefined
  }

  /** Takes a piece of a choice's text that is not longer than one read, and the provider's count with it, if any. */
  takeText(choice: number, text: string, usage?: Usage): void {
    this.started = true
    this.delivered.add(choice, 'output', text)
    if (usage === undefined) return
    this.usage = usage
    this.delivered.count(usage)
  }

  *#inSteps(events: readonly ChatEvent[], onContent: (event: ContentEvent) => void): Steps {
    const { usage } = this
    let taken = 0
    for (const event of inPieces(events)) {
      if (this.ended) break
      this.#take(event, onContent)
      taken += sizeOf(event)
      if (taken < pieceCharacters) continue
      taken = 0
      yield
    }
    this.#count(usage)
  }

  /** A count that comes with some text covers it, whichever of them its frame names first. */
  #count(before: Usage | undefined): void {
    if (this.usage !== undefined && this.usage !== before) this.delivered.count(this.usage)
  }

  #take(event: ChatEvent, onContent: (event: ContentEvent) => void): void {
    switch (event.kind) {
      case 'message-start':
        this.upstreamId = event.id ?? this.upstreamId
        return
      case 'usage':
        this.usage = laterUsage(this.usage, event.usage)
        return
      case 'finish':
        this.finished = true
        return
      case 'error':
        this.fault = event.fault
        return
      default:
        this.started = true
        this.delivered.addEvent(event)
        if (event.kind === 'choice-finish') this.finishReason = event.reason
        onContent(event)
    }
  }
}
