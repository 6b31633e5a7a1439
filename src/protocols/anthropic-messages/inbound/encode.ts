// Encodes a streamed answer as events of the Messages API: one open block at a time, numbered from 0.

import { type Annotation, type ChatEvent, joinReasoning } from '../../../conversation/event.ts'
import type { JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { noUsage, type Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import type { AnswerContext, Bill, StreamEncoder, Texts } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { TextEvent } from '../../framing/text-template.ts'
import { ArgumentsEnd } from './arguments-end.ts'
import { citation, inputOf, stopReason, wireCounters, wireError, wireUsage } from './answer-fields.ts'
import {
  callBlock,
  resultBlock,
  searchBlock,
  searchBlockId,
  searchInput,
  searchResultBlock,
} from './gateway-blocks.ts'
import { blockOfDetail, signatureOf, thinkingText } from '../../claude/carried-reasoning.ts'

type OpenBlock =
  /** `start`: the length of the answer's text before this block, UTF-16 units. `event` is built when it is needed. */
  | { readonly kind: 'text'; text: string; readonly start: number; event: TextEvent | undefined }
  | { readonly kind: 'thinking'; detail: ReasoningDetail }
  | { readonly kind: 'call'; readonly call: number; readonly end: ArgumentsEnd }
  /** A search of the provider whose query is not known yet. */
  | { readonly kind: 'search'; readonly id: string }

type FinishOf = Extract<ChatEvent, { kind: 'choice-finish' }>
type GatewayItem = Extract<ChatEvent, { kind: 'gateway-item' }>

/** Encodes one answer. The last block stays open until `finish`, when its end is certain. */
export class EventEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  #index = -1
  #open: OpenBlock | undefined
  /** Events that wait until the open call has all its arguments: other providers may stream several calls at once. */
  #waiting: ChatEvent[] = []
  #finish: FinishOf | undefined
  #called = false
  #textLength = 0
  /** Block ids of the provider's searches. */
  readonly #searches = new Map<string, string>()

  constructor(context: AnswerContext) {
    this.#context = context
  }

  start(): readonly Frame[] {
    const message = {
      id: this.#context.id,
      type: 'message',
      role: 'assistant',
      model: this.#context.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      // Not counted yet; the last event carries the counts and the cost. Clients take the counts from it, but for what
      // was written to a cache with its lifetime: of that they would show zeros.
      usage: { ...wireCounters(noUsage), cache_creation: null },
      ...this.#context.extra,
    }
    return [namedFrame('message_start', { message })]
  }

  event(event: ChatEvent): readonly Frame[] {
    if ('choice' in event && event.choice !== 0) return []
    if (event.kind === 'choice-finish') {
      this.#finish = event
      return []
    }
    const open = this.#open
    if (open?.kind !== 'call') return this.#write(event)
    if (event.kind === 'tool-call-delta' && event.call === open.call) {
      const frames = this.#write(event)
      return this.#waiting.length > 0 && open.end.isReached ? [...frames, ...this.#resume()] : frames
    }
    if (this.#waiting.length === 0 && open.end.isReached) return this.#write(event)
    this.#waiting.push(event)
    return []
  }

  texts({ choice, texts, content }: Texts): string | undefined {
    if (choice !== 0) return ''
    const open = this.#open
    if (open?.kind !== 'text') return undefined
    this.#textLength += content.length
    open.text += content
    open.event ??= new TextEvent(`event: content_block_delta\ndata: ${this.#beforeText()}"`, '"}}\n\n')
    return open.event.write(texts)
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const frames = this.#drain()
    const reason = this.#finish?.reason ?? 'stop'
    const finish = this.#called && reason === 'stop' ? 'tool_calls' : reason
    return [
      ...frames,
      namedFrame('message_delta', {
        delta: {
          stop_reason: stopReason(finish, this.#finish?.native),
          stop_sequence: this.#finish?.stopSequence ?? null,
        },
        usage: wireUsage(usage, bill),
        // What stopped the answer is known only now.
        ...this.#context.extra,
      }),
      namedFrame('message_stop', {}),
    ]
  }

  fail(error: RenderedError): readonly Frame[] {
    return [{ event: 'error', data: JSON.stringify(wireError(error)) }]
  }

  /** Closes open blocks, for a whole answer whose events are not sent. */
  close(): readonly Frame[] {
    return this.#drain()
  }

  /** Encodes waiting events in order, until an incomplete call makes the rest wait again. */
  #resume(): Frame[] {
    const waiting = this.#waiting
    this.#waiting = []
    return waiting.flatMap((event) => [...this.event(event)])
  }

  /** Encodes all waiting events, call by call with complete arguments, then closes the last block. */
  #drain(): Frame[] {
    const frames: Frame[] = []
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting
      this.#waiting = []
      const open = this.#open
      const mine = (event: ChatEvent) =>
        event.kind === 'tool-call-delta' && open?.kind === 'call' && event.call === open.call
      frames.push(...waiting.filter(mine).flatMap((event) => this.#write(event)))
      const [next, ...others] = waiting.filter((event) => !mine(event))
      if (next !== undefined) frames.push(...this.#write(next))
      for (const event of others) frames.push(...this.event(event))
    }
    return [...frames, ...this.#close()]
  }

  #write(event: ChatEvent): Frame[] {
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        return this.#text(event.text)
      case 'reasoning-delta':
        return this.#reasoning(event.detail)
      case 'annotation': {
        if (this.#open?.kind !== 'text') return []
        const quoted = quotedIn(this.#open, event.annotation)
        return [this.#delta({ type: 'citations_delta', citation: citation(event.annotation, quoted) })]
      }
      case 'tool-call-start': {
        this.#called = true
        const block = { type: 'tool_use', id: event.id, name: event.name, input: {} }
        return this.#start({ kind: 'call', call: event.call, end: new ArgumentsEnd() }, block)
      }
      case 'tool-call-delta':
        // White space may follow the arguments of a call whose block is closed.
        if (this.#open?.kind !== 'call' || this.#open.call !== event.call || event.arguments === '') return []
        this.#open.end.add(event.arguments)
        return [this.#delta({ type: 'input_json_delta', partial_json: event.arguments })]
      case 'gateway-call':
        return [
          ...this.#start(undefined, callBlock(event.call)),
          // Clients end the stream over arguments that are no JSON.
          this.#delta({
            type: 'input_json_delta',
            partial_json: JSON.stringify(inputOf(event.call.arguments)),
          }),
          ...this.#stop(),
        ]
      case 'gateway-run':
        return [...this.#start(undefined, resultBlock(event.run)), ...this.#stop()]
      case 'search-start':
        return this.#beginSearch(event.search)
      case 'gateway-item':
        return event.item.type === 'web_search_call' ? this.#endSearch(event) : []
      default:
        // Audio, images and log probabilities have no block in this protocol.
        return []
    }
  }

  #beginSearch(search: string): Frame[] {
    const id = searchBlockId(this.#context.id, this.#searches.size)
    this.#searches.set(search, id)
    return this.#start({ kind: 'search', id }, searchBlock(id))
  }

  #endSearch({ item, search = `item ${this.#searches.size}` }: GatewayItem): Frame[] {
    const begun = this.#searches.has(search) ? [] : this.#beginSearch(search)
    const id = this.#searches.get(search)!
    const isOpen = this.#open?.kind === 'search' && this.#open.id === id
    const input = isOpen ? [this.#delta({ type: 'input_json_delta', partial_json: searchInput(item) })] : []
    return [...begun, ...input, ...this.#start(undefined, searchResultBlock(id, item)), ...this.#stop()]
  }

  #text(text: string): Frame[] {
    if (text === '') return []
    const start = this.#textLength
    this.#textLength += text.length
    const open = this.#open
    if (open?.kind === 'text') {
      open.text += text
      return [this.#textDelta(text)]
    }
    const started = this.#start({ kind: 'text', text, start, event: undefined }, { type: 'text', text: '' })
    return [...started, this.#textDelta(text)]
  }

  #reasoning(detail: ReasoningDetail): Frame[] {
    const block = blockOfDetail(detail)
    if (block.type === 'redacted_thinking') return [...this.#start(undefined, block), ...this.#stop()]
    if (block.type === 'compaction') {
      return [
        ...this.#start(undefined, { type: 'compaction', content: null }),
        this.#delta({ type: 'compaction_delta', content: block.content ?? null }),
        ...this.#stop(),
      ]
    }
    const frames: Frame[] = []
    const open = this.#open
    if (open?.kind === 'thinking' && open.detail.index === detail.index) {
      open.detail = joinReasoning(open.detail, detail)
    } else {
      frames.push(
        ...this.#start({ kind: 'thinking', detail }, { type: 'thinking', thinking: '', signature: '' }),
      )
    }
    const thinking = thinkingText(detail)
    if (thinking !== '') frames.push(this.#delta({ type: 'thinking_delta', thinking }))
    return frames
  }

  #start(block: OpenBlock | undefined, content_block: JsonObject): Frame[] {
    const frames = this.#close()
    this.#index += 1
    this.#open = block
    return [...frames, namedFrame('content_block_start', { index: this.#index, content_block })]
  }

  #close(): Frame[] {
    const open = this.#open
    if (open === undefined) return []
    this.#open = undefined
    if (open.kind === 'thinking') {
      return [this.#delta({ type: 'signature_delta', signature: signatureOf(open.detail) }), ...this.#stop()]
    }
    return this.#stop()
  }

  #stop(): Frame[] {
    return [namedFrame('content_block_stop', { index: this.#index })]
  }

  /** Like `#delta`, for the most frequent frame: only the text has to be escaped. */
  #textDelta(text: string): Frame {
    return { event: 'content_block_delta', data: `${this.#beforeText()}${JSON.stringify(text)}}}` }
  }

  #beforeText(): string {
    return `{"type":"content_block_delta","index":${this.#index},"delta":{"type":"text_delta","text":`
  }

  #delta(delta: JsonObject): Frame {
    return namedFrame('content_block_delta', { index: this.#index, delta })
  }
}

/** The part of an open text block that a source is cited for. Some providers restart the offsets with each text. */
function quotedIn(
  { text, start: before }: { text: string; start: number },
  { start, end }: Annotation,
): string {
  const within = start >= before && end - before <= text.length
  return within ? text.slice(start - before, end - before) : text.slice(-(end - start))
}

/** The names on `event:` lines are required: client libraries dispatch on them. */
function namedFrame(type: string, fields: JsonObject): Frame {
  return { event: type, data: JSON.stringify({ type, ...fields }) }
}
