// Stores heads of the hash chain beside the database. The chain alone cannot show that its end is missing: a truncated
// log, or an older copy of the file, verifies to its last line. An anchored head must be in the journal.

import { appendFileSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Database } from 'bun:sqlite'
import { z } from 'zod'
import type { Replacement } from '../../../credits/ledger/ledger.ts'

/** The last transaction of a journal, and the hash of its last line. */
export interface Head {
  readonly tx: number
  readonly hash: Uint8Array
}

const anchorSchema = z.object({
  at: z.string(),
  /** `restored` and `accepted` begin a new history: what was anchored before may be missing. */
  kind: z.enum(['head', 'restored', 'accepted']),
  tx: z.int().min(0),
  hash: z.string(),
  note: z.string().optional(),
})
export type Anchor = z.infer<typeof anchorSchema>

/** One anchor per this many commits and at most one a second; the sweep adds the last. */
const everyCommits = 256
const everyMs = 1_000
/** A larger file is cut to its newest lines. */
const mostBytes = 4 * 1024 * 1024
const keptLines = 1_000

export function anchorsBeside(databasePath: string): string {
  return join(dirname(databasePath), 'ledger.anchors')
}

/** All anchors of the file, oldest first; empty if there is no file. Invalid lines are skipped. */
export function readAnchors(path: string): Anchor[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
    throw error
  }
  return text.split('\n').flatMap((line) => anchorOf(line) ?? [])
}

/** A line cut off by a crash is not an anchor. */
function anchorOf(line: string): Anchor | undefined {
  try {
    // At a start there are few: compiling the schema would take longer than checking them.
    return anchorSchema.safeParse(JSON.parse(line), { jitless: true }).data
  } catch {
    return undefined
  }
}

/** Adds one line. `now` in milliseconds since 1970. */
export function appendAnchor(path: string, now: number, anchor: Head & Pick<Anchor, 'kind' | 'note'>): void {
  const { kind, tx, hash, note } = anchor
  const line: Anchor = {
    at: new Date(now).toISOString(),
    kind,
    tx,
    hash: hash.toHex(),
    ...(note && { note }),
  }
  appendFileSync(path, `${JSON.stringify(line)}\n`, { mode: 0o600 })
}

/**
 * The first anchor that the journal contradicts, as text; null if there is none. Read `anchors` before opening the
 * database snapshot, otherwise the newest could be later than the snapshot.
 */
export function missingAnchor(database: Database, anchors: readonly Anchor[]): string | null {
  const start = anchors.findLastIndex(({ kind }) => kind !== 'head')
  const at = database.prepare<{ hash: Uint8Array }, [number]>(
    'SELECT hash FROM journal WHERE tx = ? ORDER BY leg DESC LIMIT 1',
  )
  for (const anchor of anchors.slice(Math.max(0, start))) {
    const found = at.get(anchor.tx)?.hash
    if (anchor.tx === 0 || found?.toHex() === anchor.hash) continue
    const named = `transaction ${anchor.tx}, which was the last one at ${anchor.at},`
    return found ? `${named} is another one now` : `${named} is not in the journal`
  }
  return null
}

/** The end of a journal, read from its file; transaction 0 for an empty one. */
export function headOf(database: Database): Head {
  const last = database
    .prepare<{ tx: bigint; hash: Uint8Array }, []>(
      'SELECT tx, hash FROM journal ORDER BY tx DESC, leg DESC LIMIT 1',
    )
    .get()
  return last ? { tx: Number(last.tx), hash: last.hash } : { tx: 0, hash: new Uint8Array(32) }
}

/** Where a history was replaced on purpose, oldest first. */
export function replacements(anchors: readonly Anchor[]): Replacement[] {
  return anchors.flatMap(({ kind, at, tx, note = '' }) => (kind === 'head' ? [] : [{ kind, at, tx, note }]))
}

/** Writes the heads of a ledger that is at work. A file that cannot be written must not keep a charge from being made. */
export class Anchors {
  readonly #path: string
  readonly #clock: () => number
  readonly #anchored: (head: Head) => void
  #last: number | null = null
  #commits = 0
  #writtenAt = Number.NEGATIVE_INFINITY
  #mayThin = false

  constructor(path: string, clock: () => number, anchored: (head: Head) => void) {
    this.#path = path
    this.#clock = clock
    this.#anchored = anchored
  }

  /** To be called once all anchors were found in the journal: from now on old lines may be dropped. */
  allowThinning(): void {
    this.#mayThin = true
  }

  /** Whether this process has committed something that is not anchored. */
  get behind(): boolean {
    return this.#commits > 0
  }

  /** To be called after every commit with the head that it made durable. */
  onCommitted(head: Head): void {
    if (head.tx === this.#last || ++this.#commits < everyCommits) return
    if (performance.now() - this.#writtenAt >= everyMs) this.write(head)
  }

  /** Anchors a durable head unless it was the last one anchored. */
  write(head: Head): void {
    if (head.tx === this.#last || head.tx === 0) return
    this.#last = head.tx
    this.#commits = 0
    this.#writtenAt = performance.now()
    try {
      appendAnchor(this.#path, this.#clock(), { kind: 'head', ...head })
      if (this.#mayThin && statSync(this.#path).size > mostBytes) this.#thin()
    } catch {
      // The log below gets the head all the same, and the next anchor is tried again.
    }
    this.#anchored(head)
  }

  #thin(): void {
    const lines = readFileSync(this.#path, 'utf8').trimEnd().split('\n')
    const old = lines.slice(0, -keptLines).filter((line) => anchorOf(line)?.kind !== 'head')
    const fresh = `${this.#path}.new`
    writeFileSync(fresh, [...old, ...lines.slice(-keptLines), ''].join('\n'), { mode: 0o600 })
    renameSync(fresh, this.#path)
  }
}
