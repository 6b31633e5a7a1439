// The calls of a response by the positions of their items. Finding one takes constant time.

import type { ChatEvent } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { type CallContext, type CallState, continueCall } from '../../openai/calls.ts'

export class ItemCalls {
  readonly #byPosition = new Map<number, CallState>()
  /** The number of calls with each id. */
  readonly #ids = new Map<string, number>()
  /** The number of calls that have been started. */
  #started = 0

  /** In the order in which they first appeared. */
  get all(): readonly CallState[] {
    return [...this.#byPosition.values()]
  }

  at(position: number): CallState | undefined {
    return this.#byPosition.get(position)
  }

  /** Continues the call at a position with an entry in the format of chat completions. */
  take(position: number, entry: JsonObject, context: CallContext): readonly ChatEvent[] {
    const before = this.#byPosition.get(position)
    const [next, events] = continueCall(before, entry, {
      ...context,
      started: this.#started,
      isTaken: (id) => (this.#ids.get(id) ?? 0) > (before?.id === id ? 1 : 0),
    })
    if (next === before) return []
    this.#byPosition.set(position, next)
    if (before?.id !== next.id) {
      this.#count(before?.id ?? '', -1)
      this.#count(next.id, 1)
    }
    if (next.call !== before?.call) this.#started += 1
    return events
  }

  #count(id: string, by: number): void {
    if (id !== '') this.#ids.set(id, (this.#ids.get(id) ?? 0) + by)
  }
}
