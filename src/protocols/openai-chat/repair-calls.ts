// Tool-call deltas as providers send them, as the wire contract wants them: numbered without gaps, the name once,
// then arguments alone.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { isJson, isObject } from '../json.ts'
import { callsState } from './message-fields.ts'

interface Call {
  readonly index: number
  readonly id: string
  readonly name: string
  /** The provider's own index, where it sent one. */
  readonly theirs: number | undefined
  arguments: string
}

/** Follows the tool calls of one choice. */
export class CallRepair {
  readonly #calls: Call[] = []
  readonly #mintId: (index: number) => string

  /** `mintId` names a call whose provider gave it no id. */
  constructor(mintId: (index: number) => string) {
    this.#mintId = mintId
  }

  get state(): ReturnType<typeof callsState> {
    return callsState(this.#calls.map((call) => call.arguments))
  }

  /** The calls that ended without arguments; each still needs its `{}`. */
  withoutArguments(): number[] {
    return this.#calls.filter((call) => call.arguments === '').map((call) => call.index)
  }

  /** The entries of one upstream delta as entries of ours, each to be sent in a chunk of its own. */
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
    const known = this.#callOf(given)
    if (known) return this.#continued(known, text, given.id !== undefined && given.name !== undefined)
    // Arguments that belong to no call cannot be sent: there is no call to run.
    if (given.name === undefined) return []

    const ours = this.#calls.length
    const call: Call = {
      index: ours,
      id: given.id ?? this.#mintId(ours),
      name: given.name,
      theirs: given.theirs,
      arguments: '',
    }
    this.#calls.push(call)
    const start: JsonObject = {
      index: ours,
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: '', ...more },
      ...unknown,
    }
    return [start, ...this.#continued(call, text, false)]
  }

  /** A new id under an index that is taken is a new call: some providers number every parallel call 0. */
  #callOf(given: { theirs?: number | undefined; id?: string | undefined; name?: string | undefined }) {
    if (given.id !== undefined) {
      const sameId = this.#calls.find((call) => call.id === given.id && sameIndex(call.theirs, given.theirs))
      if (sameId || given.name !== undefined) return sameId
    }
    if (given.theirs !== undefined) {
      const last = this.#calls.findLast((call) => call.theirs === given.theirs)
      return last && given.name !== undefined && given.name !== last.name ? undefined : last
    }
    return given.name === undefined ? this.#calls.at(-1) : undefined
  }

  /** `repeated`: the delta spells out id and name again, so it may hold the whole call so far instead of a piece. */
  #continued(call: Call, text: string, repeated: boolean): JsonObject[] {
    let piece = text
    if (repeated && call.arguments !== '' && text.startsWith(call.arguments) && isJson(text)) {
      piece = text.slice(call.arguments.length)
    }
    if (piece === '') return []
    call.arguments += piece
    return [{ index: call.index, function: { arguments: piece } }]
  }
}

function sameIndex(a: number | undefined, b: number | undefined): boolean {
  return a === undefined || b === undefined || a === b
}

/** Arguments are JSON text; a few servers send the object itself. */
export function argumentText(args: Json | undefined): string {
  if (args == null) return ''
  return typeof args === 'string' ? args : JSON.stringify(args)
}
