// Parses answers that are made of content blocks: Claude's, and those of Bedrock, whose blocks are alike.

import type { Annotation, ChatEvent, FinishReason } from '../../conversation/event.ts'
import type { ReasoningDetail } from '../../conversation/request.ts'
import { EventParser } from '../event-parser.ts'
import { isJson, type Spoken } from '../lenient.ts'
import { callIdOf, mintedId } from '../names.ts'
import { answerTool } from './models.ts'

/** A block that has started but not stopped. */
type OpenBlock =
  | OpenText
  | { readonly kind: 'reasoning'; readonly index: number }
  | { readonly kind: 'call'; readonly call: number; json: string; readonly input: unknown }
  /** A call of the tool that carries a structured answer: its arguments become the text. */
  | { readonly kind: 'answer'; json: string; readonly input: unknown }
  /** A call of the provider's own search, to be returned with the next turn. */
  | { readonly kind: 'search'; readonly id: string; json: string; readonly input: unknown }
  /** A call of another tool of the provider, which the client must not answer. */
  | { readonly kind: 'foreign' }

interface OpenText {
  readonly kind: 'text'
  /** Where it begins in the answer's text: citations count per block, annotations per answer. */
  readonly start: number
  readonly citations: unknown[]
}

type Finish = Extract<ChatEvent, { kind: 'choice-finish' }>

export abstract class BlockParser<WireEvent> extends EventParser<WireEvent> {
  /** By the provider's index. */
  protected readonly open = new Map<number, OpenBlock>()
  /** What ids of calls are made from: the answer's own id, where it has one. */
  protected seed: string = crypto.randomUUID()
  /** The index of the next reasoning detail. */
  protected nextReasoning = 0
  readonly #callIds = new Set<string>()
  /** Whether the arguments of a call are not JSON, because the token limit cut it. */
  #hasBrokenCall = false
  #hasAnswered = false

  /** What has come: a piece of a thought is as little to be lost as one of a call, since its signature is of all. */
  protected get spoken(): Spoken {
    const isOpen = ({ kind }: OpenBlock) => kind !== 'text'
    if (this.#callIds.size > 0 || this.#hasAnswered || this.open.values().some(isOpen)) return 'calls'
    return this.textLength > 0 ? 'words' : 'nothing'
  }

  /** Begins a text block, unless one is open at this index. */
  protected openText(index: number, citations: readonly unknown[] = []): OpenText {
    const open = this.open.get(index)
    if (open?.kind === 'text') return open
    const text: OpenText = { kind: 'text', start: this.textLength, citations: [...citations] }
    this.open.set(index, text)
    return text
  }

  /** Begins a block of reasoning. Returns the index of its detail. */
  protected openReasoning(index: number): number {
    const at = this.nextReasoning++
    this.open.set(index, { kind: 'reasoning', index: at })
    return at
  }

  protected addReasoning(detail: ReasoningDetail): void {
    this.emit({ kind: 'reasoning-delta', choice: 0, detail })
  }

  /** Begins a call. `given`: the provider's id of it, where it gave one. */
  protected openCall(index: number, given: string, name: string, input: unknown): void {
    if (name === answerTool) {
      // A second answer behind the first would be no JSON.
      this.open.set(index, this.#hasAnswered ? { kind: 'foreign' } : { kind: 'answer', json: '', input })
      this.#hasAnswered = true
      return
    }
    if (name === '') return this.fail('a tool call has no name')
    const call = this.#callIds.size
    const id = callIdOf(given, this.#callIds, () => mintedId(this.seed, call))
    this.open.set(index, { kind: 'call', call, json: '', input })
    this.emit({ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined })
  }

  /** Adds a piece of a call's arguments. */
  protected addInput(index: number, piece: string): void {
    const open = this.open.get(index)
    if (piece === '' || open === undefined || !('json' in open)) return
    open.json += piece
    if (open.kind === 'answer') this.addText(piece)
    else if (open.kind === 'call') this.#addArguments(open.call, piece)
  }

  /** Ends a block. Returns it; undefined if none was open. */
  protected close(index: number): OpenBlock | undefined {
    const open = this.open.get(index)
    this.open.delete(index)
    if (open?.kind === 'call') {
      if (open.json === '') this.#addArguments(open.call, inputText(open.input))
      else if (!isJson(open.json)) this.#hasBrokenCall = true
    } else if (open?.kind === 'answer' && open.json === '') this.addText(inputText(open.input))
    return open
  }

  protected annotate(annotations: readonly Annotation[]): void {
    for (const annotation of annotations) this.emit({ kind: 'annotation', choice: 0, annotation })
  }

  /** Ends the answer. `native`: the provider's word for the reason. */
  protected finishWith(reason: FinishReason, native: string, more: Partial<Finish>): void {
    this.emit({ kind: 'choice-finish', choice: 0, reason: this.#reasonFor(reason), native, ...more })
    this.finish()
  }

  /** Calls must be answered whatever the reason; only the token limit, or an end we do not know, can have cut one off. */
  #reasonFor(reason: FinishReason): FinishReason {
    if (this.#callIds.size === 0 || reason === 'content_filter') return reason
    // A client that ran a call with truncated arguments would fail; reporting the limit explains why.
    const isCut = this.#hasBrokenCall || this.open.values().some(({ kind }) => kind === 'call')
    return (reason === 'length' || reason === 'other') && isCut ? reason : 'tool_calls'
  }

  #addArguments(call: number, json: string): void {
    this.emit({ kind: 'tool-call-delta', choice: 0, call, arguments: json })
  }
}

/** The input of a call whose arguments did not come in pieces. */
function inputText(input: unknown): string {
  return typeof input === 'object' && input !== null ? JSON.stringify(input) : '{}'
}
