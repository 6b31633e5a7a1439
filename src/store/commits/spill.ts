// Where the ends of calls go while the database cannot be written: a file whose space was taken beforehand, so that a
// full disk still has room for them. Start-up reads it; a command in it is carried out once, by its call's state.

import {
  closeSync,
  copyFileSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { asideName, setAside } from '../sqlite/database/sqlite.ts'
import type { SpillTarget } from './durability.ts'

const defaultBytes = 4 * 1024 * 1024

/**
 * Records of `<length, 8 hex digits><SHA-256, first 16 hex digits><JSON>`, one after the other from the beginning;
 * the first that does not check ends the list, so clearing the file is writing zeros over its first bytes.
 */
export class SpillFile implements SpillTarget {
  readonly #path: string
  readonly #file: number
  readonly #bytes: number
  readonly #now: number
  #end = 0
  #movedAside: string | null = null

  /** `now`, in milliseconds since 1970, is for the name of what has to be set aside. */
  constructor(dataDir: string, now: number, { name = 'settles.spill', bytes = defaultBytes } = {}) {
    this.#path = join(dataDir, name)
    this.#now = now
    if (statSync(this.#path, { throwIfNoEntry: false })?.isDirectory())
      this.#movedAside = setAside(this.#path, now)
    this.#file = openSync(this.#path, existingOrNew(this.#path), 0o600)
    this.#bytes = bytes
    reserve(this.#file, bytes)
  }

  /** Where a copy is of what could not be read, if there was any. */
  get movedAside(): string | null {
    return this.#movedAside
  }

  /**
   * The records that an earlier process left, in their order. Appending goes on behind them. What follows and is no
   * record (a write that was cut off, or another program's) is copied aside.
   */
  read(): unknown[] {
    const records: unknown[] = []
    this.#end = 0
    // Nearly always nothing: then a start does not go through megabytes of zeros.
    if (isBlank(this.#read(headerBytes))) return records
    const all = this.#read(this.#bytes)
    for (;;) {
      const text = recordAt(all, this.#end)
      if (text === undefined) break
      records.push(decodeRecord(text))
      this.#end += headerBytes + Buffer.byteLength(text)
    }
    if (!isBlank(all.subarray(this.#end, this.#end + headerBytes))) this.#setRestAside()
    return records
  }

  /** The file's first bytes. */
  #read(length: number): Buffer {
    const bytes = Buffer.alloc(length)
    readSync(this.#file, bytes, 0, length, 0)
    return bytes
  }

  /** Copies the file, and returns the copy's name. */
  copyAside(): string {
    const copy = asideName(this.#path, 'damaged', this.#now)
    copyFileSync(this.#path, copy)
    return copy
  }

  #setRestAside(): void {
    this.#movedAside = this.copyAside()
    writeSync(this.#file, Buffer.alloc(headerBytes), 0, headerBytes, this.#end)
    this.sync()
  }

  /** Adds a record; when the file is full the record stays in memory alone. Throws when it cannot be written. */
  append(record: unknown): void {
    const text = encodeRecord(record)
    const body = Buffer.from(header(text) + text)
    // Every stream reports progress every few seconds: half of the file is left to the ends of calls.
    const room = isProgress(record) ? this.#bytes / 2 : this.#bytes
    if (this.#end + body.length + headerBytes > room) return
    // The zeros behind it end the list even where an older, longer list has left its tail.
    const bytes = Buffer.concat([body, Buffer.alloc(headerBytes)])
    if (writeSync(this.#file, bytes, 0, bytes.length, this.#end) < bytes.length)
      throw new Error('a spill file took a part of a record')
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

function isProgress(record: unknown): boolean {
  return typeof record === 'object' && record !== null && 'kind' in record && record.kind === 'checkpoint'
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0)
}

/** Takes the file's space. Throws when the disk has not so much, and leaves what there is to the database. */
function reserve(file: number, bytes: number): void {
  const before = fstatSync(file).size
  const missing = bytes - before
  // A full disk takes a part of what is written without a word, and refuses the next write only.
  if (missing <= 0 || writeSync(file, new Uint8Array(missing), 0, missing, before) === missing) return
  ftruncateSync(file, before)
  closeSync(file)
  throw new Error(`the disk has no room for the ${bytes} bytes of a spill file`)
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
function encodeRecord(record: unknown): string {
  return JSON.stringify(record, (_key, value: unknown) =>
    typeof value === 'bigint' ? { $pico: `${value}` } : value,
  )
}

function decodeRecord(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'object' && value !== null && '$pico' in value ? BigInt(String(value.$pico)) : value,
  )
}
