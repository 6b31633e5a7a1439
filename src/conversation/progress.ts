// What is known of an answer while it streams.

import { Delivered, inPieces, pieceCharacters, sizeOf } from './delivered.ts'
import type { ChatEvent, Fault } from './event.ts'
import { laterUsage, type Usage } from './usage.ts'

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
