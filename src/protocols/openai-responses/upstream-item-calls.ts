// The calls of a response by the positions of their items, so that finding one costs the same however many there are.

import { createHash } from 'node:crypto'
import type { ChatEvent } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { type CallContext, type CallState, continueCall } from '../openai-chat/upstream-calls.ts'
import { VersionedMap } from '../versioned-map.ts'

export interface ItemCalls {
  readonly byPosition: VersionedMap<number, CallState>
  /** How many calls have an id. */
  readonly ids: VersionedMap<string, number>
  /** How many calls have been started. */
  readonly started: number
}

export function noItemCalls(): ItemCalls {
  return { byPosition: new VersionedMap(), ids: new VersionedMap(), started: 0 }
}

/** Takes an entry, in the shape of chat completions, of the call at a position. */
export function takeItemCall(
  state: ItemCalls,
  position: number,
  entry: JsonObject,
  context: CallContext,
): readonly [ItemCalls, readonly ChatEvent[]] {
  const before = state.byPosition.get(position)
  const [next, events] = continueCall(before, entry, {
    ...context,
    started: state.started,
    isTaken: (id) => (state.ids.get(id) ?? 0) > (before?.id === id ? 1 : 0),
  })
  if (next === before) return [state, []]
  return [
    {
      byPosition: state.byPosition.with(position, next),
      ids: before?.id === next.id ? state.ids : moved(state.ids, before?.id ?? '', next.id),
      started: state.started + (next.call === before?.call ? 0 : 1),
    },
    events,
  ]
}

function moved(ids: ItemCalls['ids'], from: string, to: string): ItemCalls['ids'] {
  const left = from === '' ? ids : ids.with(from, (ids.get(from) ?? 1) - 1)
  return to === '' ? left : left.with(to, (left.get(to) ?? 0) + 1)
}

/** An id for a call that came without one, or with another's: the same for the same answer. */
export function mintedId(seed: string, call: number): string {
  return `call_${createHash('sha256').update(`${seed}/${call}`).digest('hex').slice(0, 24)}`
}
