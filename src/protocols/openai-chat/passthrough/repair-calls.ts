// Repairs tool-call deltas to the wire contract: numbered without gaps, the name once, then arguments only.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'
import { argumentText, isAnotherCall, newArguments } from '../../openai/calls.ts'
import { callsState } from '../../openai/message-fields.ts'

interface Call {
  readonly index: number
  readonly id: string
  /** The provider's id; ours differs if another call had it first. */
  readonly theirId: string
  readonly name: string
  /** The provider's own index, where it sent one. */
  readonly theirs: number | undefined
  arguments: string
}

/** What came of a call before its name. */
interface Nameless {
  readonly id: string | undefined
  readonly arguments: string
}

/** The first call with an id: of all, of those without a provider index, and under each index. */
interface SameId {
  readonly first: Call
  unnumbered: Call | undefined
  readonly numbered: Map<number, Call>
}

/** Follows the tool calls of one choice. */
export class CallRepair {
  readonly #calls: Call[] = []
  readonly #sameId = new Map<string, SameId>()
  /** The latest call under each provider index. */
  readonly #latest = new Map<number, Call>()
  /** Under the provider's index, or none. */
  readonly #nameless = new Map<number | undefined, Nameless>()
  readonly #mintId: (index: number) => string

  /** `mintId` generates an id for a call without one. */
  constructor(mintId: (index: number) => string) {
    this.#mintId = mintId
  }

  get state(): ReturnType<typeof callsState> {
    return callsState(this.#calls.map((call) => call.arguments))
  }

  /** Whether there was a call without a function name, which nobody can run. */
  get hasNameless(): boolean {
    return this.#nameless.size > 0
  }

  /** Calls that ended without arguments; each still needs its `{}`. */
  withoutArguments(): number[] {
    return this.#calls.filter((call) => call.arguments === '').map((call) => call.index)
  }

  /** Our entries for an upstream delta, each to be sent in a chunk of its own. */
  step(deltas: readonly Json[]): JsonObject[] {
    return deltas.flatMap((delta) => (isObject(delta) ? this.#one(delta) : []))
  }

  #one(delta: JsonObject): JsonObject[] {
    const { index: theirs, id, type: _type, function: definition, ...unknown } = delta
    const { name, arguments: args, ...more } = isObject(definition) ? definition : {}
    const given = {
      theirs: typeof theirs === 'number' ? theirs : undefined,
      id: typeof id === 'string' && id !== '' ? id : undefined,
      name: typeof name === 'string' && name !== '' ? name : undefined,
    }
    const text = argumentText(args)
    const known = this.#callOf(given, text)
    if (known) return this.#continued(known, text, given.name !== undefined)
    if (given.name === undefined) return this.#awaitName(given, text)

    const before = this.#nameless.get(given.theirs)
    this.#nameless.delete(given.theirs)
    const call = this.#started(given.name, given.id ?? before?.id, given.theirs)
    const { index: ours } = call
    const start: JsonObject = {
      index: ours,
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: '', ...more },
      ...unknown,
    }
    return [start, ...this.#continued(call, (before?.arguments ?? '') + text, false)]
  }

  /** A call starts with its name; anything before is kept for it. */
  #awaitName(given: { theirs: number | undefined; id: string | undefined }, text: string): [] {
    if (given.id === undefined && text === '') return []
    const before = this.#nameless.get(given.theirs)
    const args = (before?.arguments ?? '') + text
    this.#nameless.set(given.theirs, { id: before?.id ?? given.id, arguments: args })
    return []
  }

  #started(name: string, id: string | undefined, theirs: number | undefined): Call {
    const index = this.#calls.length
    // Servers that restart their ids with each call would make two calls one.
    const isTaken = id !== undefined && this.#sameId.has(id)
    const ours = id === undefined || isTaken ? this.#mintId(index) : id
    const call: Call = { index, id: ours, theirId: id ?? ours, name, theirs, arguments: '' }
    this.#add(call)
    return call
  }

  #add(call: Call): void {
    this.#calls.push(call)
    if (call.theirs !== undefined) this.#latest.set(call.theirs, call)
    const known = this.#sameId.get(call.theirId)
    const same: SameId = known ?? { first: call, unnumbered: undefined, numbered: new Map() }
    if (!known) this.#sameId.set(call.theirId, same)
    if (call.theirs === undefined) same.unnumbered ??= call
    else if (!same.numbered.has(call.theirs)) same.numbered.set(call.theirs, call)
  }

  /** A new id under a used index is a new call: some providers number every parallel call 0. */
  #callOf(
    given: { theirs?: number | undefined; id?: string | undefined; name?: string | undefined },
    text: string,
  ) {
    if (given.id !== undefined) {
      const sameId = firstOf(this.#sameId.get(given.id), given.theirs)
      if (sameId || given.name !== undefined) return sameId
    }
    if (given.theirs !== undefined) {
      const last = this.#latest.get(given.theirs)
      return last && given.name !== undefined && isAnotherCall(last, given.name, text) ? undefined : last
    }
    return given.name === undefined ? this.#calls.at(-1) : undefined
  }

  /** `repeated`: the delta repeats the name, so it may contain the whole call so far. */
  #continued(call: Call, text: string, repeated: boolean): JsonObject[] {
    const piece = repeated ? newArguments(call.arguments, text) : text
    if (piece === '') return []
    call.arguments += piece
    return [{ index: call.index, function: { arguments: piece } }]
  }
}

/** The earliest call that an id can refer to: an index that either side lacks distinguishes nothing. */
function firstOf(same: SameId | undefined, theirs: number | undefined): Call | undefined {
  if (same === undefined || theirs === undefined) return same?.first
  const { unnumbered } = same
  const numbered = same.numbered.get(theirs)
  if (numbered === undefined || unnumbered === undefined) return numbered ?? unnumbered
  return numbered.index < unnumbered.index ? numbered : unnumbered
}
