// Replaces names that Bedrock would refuse.

import { FreeNames } from '../free-names.ts'
import type { NameRule } from '../wire-names.ts'

/** The longest name or id Bedrock takes. */
export const longestName = 64

export const toolNameRule: NameRule = { longest: longestName, forbidden: /[^a-zA-Z0-9_-]/g, opening: /^./ }

/** Names of documents, each of its own: letters, digits, single spaces, hyphens, brackets. */
export class DocumentNames {
  readonly #taken = new Set<string>()
  readonly #names = new FreeNames()

  next(filename: string | undefined): string {
    const stem =
      (filename ?? '')
        .replace(/\.[A-Za-z0-9]{1,5}$/, '')
        .replace(/[^a-zA-Z0-9\s()[\]-]/g, ' ')
        .replace(/\s+/g, ' ')
        .trim()
        .slice(0, 180) || 'document'
    const isTaken = (name: string) => this.#taken.has(name)
    const name = isTaken(stem) ? this.#names.of(stem, (copy) => `${stem} (${copy})`, isTaken) : stem
    this.#taken.add(name)
    return name
  }
}
