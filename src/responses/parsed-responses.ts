// Stored responses as objects: what is stored is text, of up to megabytes, and is parsed in steps.

import type { Awaitable } from '../awaitable.ts'
import type { JsonObject } from '../conversation/request.ts'
import { parseSteps } from '../json/parse.ts'
import type { Steps } from '../json/steps.ts'
import type { Conversation, ResponseStore, StoredResponse, WrittenResponse } from './response-store.ts'

type Store = Pick<ResponseStore, 'find' | 'conversation'>

/** Shares the event loop among all calls. */
interface Turns {
  through<T>(steps: Steps<T>): T | Promise<T>
}

/** Permission to parse so many bytes. */
export type Turn = (bytes: number) => Awaitable<void>

export class ParsedResponses {
  readonly #store: Store
  readonly #turns: Turns

  constructor(store: Store, turns: Turns) {
    this.#store = store
    this.#turns = turns
  }

  /** As the store's `find`. */
  async find(account: string, id: string, turn?: Turn): Promise<StoredResponse | undefined> {
    const written = await this.#store.find(account, id)
    if (written === undefined) return undefined
    await turn?.(written.size)
    return this.#turns.through(parsedSteps(written))
  }

  /** As the store's `conversation`. */
  async conversation(account: string, id: string, maxBytes: number, turn?: Turn): Promise<Conversation> {
    const conversation = await this.#store.conversation(account, id, maxBytes)
    if (conversation.kind !== 'whole') return conversation
    await turn?.(conversation.responses.reduce((sum, { size }) => sum + size, 0))
    const responses: StoredResponse[] = []
    for (const written of conversation.responses)
      responses.push(await this.#turns.through(parsedSteps(written)))
    return { kind: 'whole', responses }
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
