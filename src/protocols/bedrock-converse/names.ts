// Names and ids that Bedrock accepts, for those of clients that it would refuse.

import type { ChatRequest } from '../../conversation/request.ts'

/** The longest name or id Bedrock takes. */
export const longestName = 64

/**
 * Gives every thing of a kind a wire name of its own: the one it has, where that is allowed, else one made from it.
 * Equal names stay equal, so definitions, history and choice agree.
 */
export class WireNames {
  readonly #forbidden: RegExp
  readonly #wire = new Map<string, string>()
  readonly #taken = new Set<string>()

  /** `forbidden` matches, globally, each character that may not be in a name; `known` are all names there will be. */
  constructor(forbidden: RegExp, known: Iterable<string>) {
    this.#forbidden = forbidden
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
    return name !== '' && name.length <= longestName && name.search(this.#forbidden) < 0
  }

  #give(name: string, wire: string): void {
    this.#wire.set(name, wire)
    this.#taken.add(wire)
  }

  #minted(name: string): string {
    const stem = name.replace(this.#forbidden, '_') || '_'
    for (let copy = 1; ; copy += 1) {
      const tail = copy === 1 ? '' : `_${copy}`
      const minted = stem.slice(0, longestName - tail.length) + tail
      if (!this.#taken.has(minted)) return minted
    }
  }
}

/** The names of all tools that a request declares, or that its history calls. */
export function toolNamesOf({ tools, messages }: ChatRequest): WireNames {
  const called = messages.flatMap((message) =>
    message.role === 'assistant' ? message.toolCalls.map((call) => call.name) : [],
  )
  return new WireNames(/[^a-zA-Z0-9_-]/g, [...tools.map((tool) => tool.name), ...called])
}

/** Names of documents, each of its own: letters, digits, single spaces, hyphens, brackets. */
export class DocumentNames {
  readonly #taken = new Set<string>()

  next(filename: string | undefined): string {
    const stem =
      (filename ?? '')
        .replace(/\.[A-Za-z0-9]{1,5}$/, '')
        .replace(/[^a-zA-Z0-9\s()[\]-]/g, ' ')
        .replace(/\s+/g, ' ')
        .trim()
        .slice(0, 180) || 'document'
    for (let copy = 1; ; copy += 1) {
      const name = copy === 1 ? stem : `${stem} (${copy})`
      if (this.#taken.has(name)) continue
      this.#taken.add(name)
      return name
    }
  }
}
