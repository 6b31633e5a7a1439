// Tools by names that a protocol accepts, for those of clients that it would refuse, there and back.

import type { ChatEvent } from '../conversation/event.ts'
import type { ChatRequest } from '../conversation/request.ts'
import { freeName, FreeNames } from './free-names.ts'
import type { StreamParser, Target } from './protocol.ts'

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
    for (const name of all.filter((each) => !this.#fits(each))) this.#give(name, this.#minted(name))
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

  #minted(name: string): string {
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
