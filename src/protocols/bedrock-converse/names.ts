// Names that Bedrock accepts, for those of clients that it would refuse.

import type { NameRule } from '../wire-names.ts'

/** The longest name or id Bedrock takes. */
export const longestName = 64

export const toolNameRule: NameRule = { longest: longestName, forbidden: /[^a-zA-Z0-9_-]/g, opening: /^./ }

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
