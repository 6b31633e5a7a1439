// Makes names and ids unique.

import { createHash } from 'node:crypto'
import type { ChatEvent } from '../conversation/event.ts'
import type { ChatRequest } from '../conversation/request.ts'
import type { StreamParser, Target } from './protocol.ts'

export class FreeNames {
  /** Where the search ended, by stem. */
  readonly #last = new Map<string, number>()

  /**
   * The first name that is not taken, of those that `nameOf` makes of the numbers from 2 on. `stem` is what all of them
   * begin with: a search goes on where the last of its stem ended. From the beginning each time, the ten thousand calls of
   * a conversation that share one id would take fifty million tries.
   */
  of(stem: string, nameOf: (copy: number) => string, isTaken: (name: string) => boolean): string {
    let copy = this.#last.get(stem) ?? 1
    let name: string
    do name = nameOf(++copy)
    while (isTaken(name))
    this.#last.set(stem, copy)
    return name
  }
}

/** The maximum length of a number after a name, including the underscore. */
const longestTail = 8

/** The same for names of limited length: the number replaces the last characters. */
export function freeName(
  names: FreeNames,
  name: string,
  longest: number,
  isTaken: (name: string) => boolean,
): string {
  const whole = name.slice(0, longest)
  if (!isTaken(whole)) return whole
  const nameOf = (copy: number) => {
    const tail = `_${copy}`
    return name.slice(0, longest - tail.length) + tail
  }
  return names.of(name.slice(0, longest - longestTail), nameOf, isTaken)
}

/**
 * The id that a provider gave a tool call; what `mint` makes if it gave none, or that of another call: two calls of one id
 * could not be matched with their results. It is added to those that are `taken`.
 */
export function callIdOf(given: string | undefined, taken: Set<string>, mint: () => string): string {
  const id = given && !taken.has(given) ? given : mint()
  taken.add(id)
  return id
}

/**
 * An id for a tool call whose provider gave it none, or that of another call: the same whenever the answer is read again.
 * `seed` is the answer's own id, `place` says where in it the call is.
 */
export function mintedId(seed: string, ...place: readonly number[]): string {
  const digest = createHash('sha256')
    .update([seed, ...place].join('/'))
    .digest('hex')
  return `call_${digest.slice(0, 24)}`
}

// Tools by names that a protocol accepts, for those of clients that it would refuse, there and back.

export interface NameRule {
  /** The most characters of a name. */
  readonly longest: number
  /** Matches, globally, each character that may not be in a name. */
  readonly forbidden: RegExp
  /** Matches a name that begins as it may. */
  readonly opening: RegExp
}

/**
 * Gives every thing of a kind a wire name of its own: the one it has, where that is allowed, else one made from it.
 * Equal names stay equal, so definitions, history and choice agree.
 */
export class WireNames {
  readonly #rule: NameRule
  readonly #wire = new Map<string, string>()
  readonly #taken = new Set<string>()
  readonly #names = new FreeNames()

  /** `known` are all names there will be. */
  constructor(rule: NameRule, known: Iterable<string>) {
    this.#rule = rule
    // Names that need no change come first: none of them may be taken by a changed one.
    const all = [...new Set(known)]
    for (const name of all.filter((each) => this.#fits(each))) this.#give(name, name)
    for (const name of all.filter((each) => !this.#fits(each))) this.#give(name, this.#mint(name))
  }

  of(name: string): string {
    return this.#wire.get(name) ?? name
  }

  /** From wire names to the client's, where they differ. */
  clientNames(): Record<string, string> {
    const changed = [...this.#wire].filter(([name, wire]) => name !== wire)
    return Object.fromEntries(changed.map(([name, wire]) => [wire, name]))
  }

  #fits(name: string): boolean {
    const { longest, forbidden, opening } = this.#rule
    return name.length <= longest && name.search(forbidden) < 0 && opening.test(name)
  }

  #give(name: string, wire: string): void {
    this.#wire.set(name, wire)
    this.#taken.add(wire)
  }

  #mint(name: string): string {
    const { longest, forbidden, opening } = this.#rule
    const allowed = name.replace(forbidden, '_')
    const stem = opening.test(allowed) ? allowed : `_${allowed}`
    return freeName(this.#names, stem, longest, (wire) => this.#taken.has(wire))
  }
}

/** The names of all tools that a request declares, or that its history calls. */
export function toolNamesOf({ tools, messages }: ChatRequest, rule: NameRule): WireNames {
  const called = messages.flatMap((message) =>
    message.role === 'assistant' ? message.toolCalls.map((call) => call.name) : [],
  )
  return new WireNames(rule, [...tools.map((tool) => tool.name), ...called])
}

/** The events with the client's own names of the tools that are called. */
export function withClientNames(
  events: readonly ChatEvent[],
  { toolNames = {} }: Pick<Target, 'toolNames'>,
): readonly ChatEvent[] {
  return events.map((event) =>
    event.kind === 'tool-call-start' && Object.hasOwn(toolNames, event.name)
      ? { ...event, name: toolNames[event.name]! }
      : event,
  )
}

/** The same parser, whose calls have the client's own names of the tools. */
export function parserWithClientNames(parser: StreamParser, target: Pick<Target, 'toolNames'>): StreamParser {
  if (Object.keys(target.toolNames ?? {}).length === 0) return parser
  return {
    push: (frame) => withClientNames(parser.push(frame), target),
    end: () => withClientNames(parser.end(), target),
    ...(parser.texts && { texts: (received, at) => parser.texts!(received, at) }),
  }
}
