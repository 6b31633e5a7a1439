// The index of a release, `release.json`: what `weir upgrade` reads of it, once SHA256SUMS has been proven.

import { z } from 'zod'

export const releaseIndex = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+(-[\w.]+)?$/),
  commit: z.string(),
  /** The version of the database that this program writes. */
  schema: z.int(),
  files: z.array(
    z.object({ name: z.string(), kind: z.string(), target: z.string().nullable(), bytes: z.int() }),
  ),
})

export type ReleaseIndex = z.output<typeof releaseIndex>

/** The SHA-256 of each file that a SHA256SUMS names, hex. */
export function sumsIn(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/^([0-9a-f]{64}) [ *](\S+)$/gm)].map(([, sum, name]) => [name!, sum!]))
}
