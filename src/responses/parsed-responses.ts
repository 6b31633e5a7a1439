// Stored responses as objects: what is stored is text, of up to megabytes, and is parsed in steps.

import type { Awaitable } from '../awaitable.ts'
import type { JsonObject } from '../conversation/request.ts'
import { parseSteps } from '../json/parse.ts'
import type { Steps } from '../json/steps.ts'
import type {
  Conversation,
  ResponseStore,
  ResponseViewer,
  StoredResponse,
  WrittenResponse,
} from './response-store.ts'

type Store = Pick<ResponseStore, 'find' | 'sizeOf' | 'conversation'>

/** Shares the event loop among all calls. */
interface Turns {
  through<T>(steps: Steps<T>): T | Promise<T>
}

/** Permission to read and parse so many bytes. */
export type Turn = (bytes: number) => Awaitable<void>

/** A conversation no larger than this is read before its turn: it takes less than asking for its size. */
const littleBytes = 65_536

export class ParsedResponses {
  readonly #store: Store
  readonly #turns: Turns

  constructor(store: Store, turns: Turns) {
    this.#store = store
    this.#turns = turns
  }

  /** As the store's `find`. Many requests may wait for their turns, so nothing is read before. */
  async find(viewer: ResponseViewer, id: string, turn: Turn): Promise<StoredResponse | undefined> {
    const size = await this.#store.sizeOf(viewer, id)
    if (size === undefined) return undefined
    await turn(size)
    const written = await this.#store.find(viewer, id)
    return written && this.#turns.through(parsedSteps(written))
  }

  /** As the store's `conversation`. */
  async conversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
    turn: Turn,
  ): Promise<Conversation> {
    const conversation = await this.#writtenConversation(viewer, id, maxBytes, turn)
    if (conversation.kind !== 'whole') return conversation
    const responses: StoredResponse[] = []
    for (const written of conversation.responses)
      responses.push(await this.#turns.through(parsedSteps(written)))
    return { kind: 'whole', responses }
  }

  async #writtenConversation(
    viewer: ResponseViewer,
    id: string,
    maxBytes: number,
    turn: Turn,
  ): Promise<Conversation<WrittenResponse>> {
    const little = await this.#store.conversation(viewer, id, Math.min(maxBytes, littleBytes))
    if (little.kind === 'whole') {
      await turn(little.responses.reduce((sum, { size }) => sum + size, 0))
      return little
    }
    if (little.kind === 'missing' || little.bytes > maxBytes) return little
    await turn(little.bytes)
    return this.#store.conversation(viewer, id, maxBytes)
  }
}

function* parsedSteps(written: WrittenResponse): Steps<StoredResponse> {
  const input = (yield* parsedOf(written.input)) as JsonObject[]
  const answer = (yield* parsedOf(written.answer)) as JsonObject
  return { ...written, input, answer }
}

function* parsedOf(pieces: readonly string[]): Steps<unknown> {
  if (pieces.length === 1) return yield* parseSteps(pieces[0]!)
  const text = pieces.join('')
  yield
  return yield* parseSteps(text)
}
