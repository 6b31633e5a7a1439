// Where the ends of calls go while the database cannot be written: a file whose space was taken beforehand, so that a
// full disk still has room for them. Start-up reads it; a command in it is carried out once, by its call's state.

import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { SpillTarget } from './group-commit.ts'

const defaultBytes = 4 * 1024 * 1024

/**
 * Records of `<length, 8 hex digits><SHA-256, first 16 hex digits><JSON>`, one after the other from the beginning;
 * the first that does not check ends the list, so clearing the file is writing zeros over its first bytes.
 */
export class SpillFile implements SpillTarget {
  readonly #file: number
  readonly #bytes: number
  #end = 0

  constructor(dataDir: string, bytes = defaultBytes) {
    const path = join(dataDir, 'settles.spill')
    this.#file = openSync(path, existingOrNew(path), 0o600)
    this.#bytes = bytes
    reserve(this.#file, bytes)
  }

  /** The records that an earlier process left, in their order. Appending goes on behind them. */
  read(): unknown[] {
    const all = Buffer.alloc(this.#bytes)
    readSync(this.#file, all, 0, this.#bytes, 0)
    const records: unknown[] = []
    this.#end = 0
    for (;;) {
      const text = recordAt(all, this.#end)
      if (text === undefined) return records
      records.push(decoded(text))
      this.#end += headerBytes + Buffer.byteLength(text)
    }
  }

  /** Adds a record; when the file is full the record stays in memory alone. */
  append(record: unknown): void {
    const text = encoded(record)
    const body = Buffer.from(header(text) + text)
    if (this.#end + body.length + headerBytes > this.#bytes) return
    // The zeros behind it end the list even where an older, longer list has left its tail.
    writeSync(
      this.#file,
      Buffer.concat([body, Buffer.alloc(headerBytes)]),
      0,
      body.length + headerBytes,
      this.#end,
    )
    this.#end += body.length
  }

  sync(): void {
    fdatasyncSync(this.#file)
  }

  clear(): void {
    writeSync(this.#file, Buffer.alloc(headerBytes), 0, headerBytes, 0)
    this.#end = 0
    this.sync()
  }

  close(): void {
    closeSync(this.#file)
  }
}

const headerBytes = 24

/** Takes the file's space. Throws when the disk has not so much, and leaves what there is to the database. */
function reserve(file: number, bytes: number): void {
  const before = fstatSync(file).size
  const missing = bytes - before
  // A full disk takes a part of what is written without a word, and refuses the next write only.
  if (missing <= 0 || writeSync(file, new Uint8Array(missing), 0, missing, before) === missing) return
  ftruncateSync(file, before)
  closeSync(file)
  throw new Error(`the disk has no room for the ${bytes} bytes of settles.spill`)
}

function existingOrNew(path: string): string {
  try {
    closeSync(openSync(path, 'r+'))
    return 'r+'
  } catch {
    return 'w+'
  }
}

function header(text: string): string {
  return Buffer.byteLength(text).toString(16).padStart(8, '0') + Bun.SHA256.hash(text, 'hex').slice(0, 16)
}

function recordAt(all: Buffer, at: number): string | undefined {
  const head = all.toString('latin1', at, at + headerBytes)
  if (!/^[0-9a-f]{24}$/.test(head)) return undefined
  const start = at + headerBytes
  const text = all.toString('utf8', start, start + parseInt(head.slice(0, 8), 16))
  return header(text) === head ? text : undefined
}

/** JSON in which an amount is `{"$pico":"<decimal>"}`. */
function encoded(record: unknown): string {
  return JSON.stringify(record, (_key, value: unknown) =>
    typeof value === 'bigint' ? { $pico: `${value}` } : value,
  )
}

function decoded(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'object' && value !== null && '$pico' in value ? BigInt(String(value.$pico)) : value,
  )
}
