// Makes names and ids unique.

import { createHash } from 'node:crypto'

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
