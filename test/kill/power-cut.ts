// What a power cut leaves: the ledger's writes and syncs are recorded from the kernel's side, and disks are built from
// them on which everything that was not synced is missing, torn or there, in any order.
// The long run: `bun test/kill/power-cut.ts --images 500 --calls 300`.

import { Database } from 'bun:sqlite'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { auditFile } from '../../src/store/sqlite/audit/audit.ts'
import { openDatabase } from '../../src/store/sqlite/database/connection.ts'
import { noon } from '../credits/support.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { tempDir } from '../support/tmp.ts'

type Event =
  | { readonly kind: 'write'; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly file: string; readonly size: number }
  | { readonly kind: 'sync'; readonly file: string }
  /** The client has been told that this call is charged. */
  | { readonly kind: 'acknowledged'; readonly call: string }

export interface PowerCutReport {
  readonly images: number
  readonly acknowledged: number
  /** Images of which SQLite or the audit says that they are damaged. */
  readonly damaged: number
  /** Acknowledged calls that are not there, over all images. */
  readonly lost: number
}

const sector = 512

/** Records a ledger at work, and cuts its power at so many moments. */
export async function cutPower(
  synchronous: 'FULL' | 'NORMAL',
  { images, calls, seed }: { readonly images: number; readonly calls: number; readonly seed: number },
): Promise<PowerCutReport> {
  using dir = tempDir('weir-power-')
  const events = await recorded(dir.path, synchronous, calls)
  const first = events.findIndex(({ kind }) => kind === 'acknowledged')
  if (first < 0) throw new Error('nothing was recorded')
  const random = seeded(seed)
  let damaged = 0
  let lost = 0
  for (let image = 0; image < images; image++) {
    const until = first + 1 + random.below(events.length - first)
    const path = dir.join(`image-${image}`)
    const past = events.slice(0, until)
    build(path, past, random)
    const acknowledged = past.flatMap((event) => (event.kind === 'acknowledged' ? [event.call] : []))
    const missing = missingIn(path, acknowledged)
    if (missing === undefined) damaged++
    else lost += missing
    rmSync(path, { recursive: true })
  }
  const acknowledged = events.filter(({ kind }) => kind === 'acknowledged').length
  return { images, acknowledged, damaged, lost }
}

async function recorded(dir: string, synchronous: string, calls: number): Promise<Event[]> {
  const trace = join(dir, 'trace')
  const child = join(import.meta.dir, 'power-cut-child.ts')
  const strace = [
    'strace',
    '-f',
    '-y',
    '-xx',
    '-s',
    '100000',
    '-e',
    'trace=pwrite64,write,fdatasync,fsync,ftruncate',
  ]
  const work = [process.execPath, child, join(dir, 'data'), synchronous, String(calls)]
  await Bun.spawn([...strace, '-o', trace, ...work], { stdout: 'ignore', stderr: 'ignore' }).exited
  return readFileSync(trace, 'latin1').split('\n').flatMap(eventOf)
}

const patterns = {
  write: /^\d+ +pwrite64\(\d+<([^>]*)>, "([^"]*)", \d+, (\d+)/,
  said: /^\d+ +write\(1<[^>]*>, "([^"]*)"/,
  sync: /^\d+ +f(?:data)?sync\(\d+<([^>]*)>\) += 0/,
  truncate: /^\d+ +ftruncate\(\d+<([^>]*)>, (\d+)/,
}

function eventOf(line: string): Event[] {
  const write = patterns.write.exec(line)
  if (write)
    return [{ kind: 'write', file: nameOf(write[1]!), at: Number(write[3]), bytes: decoded(write[2]!) }]
  const said = patterns.said.exec(line)
  if (said) return [{ kind: 'acknowledged', call: decoded(said[1]!).toString().trim() }]
  const sync = patterns.sync.exec(line)
  if (sync) return [{ kind: 'sync', file: nameOf(sync[1]!) }]
  const truncate = patterns.truncate.exec(line)
  return truncate ? [{ kind: 'truncate', file: nameOf(truncate[1]!), size: Number(truncate[2]) }] : []
}

function decoded(hex: string): Buffer {
  return Buffer.from(hex.replaceAll('\\x', ''), 'hex')
}

function nameOf(hexPath: string): string {
  return basename(decoded(hexPath).toString())
}

/** The files as the disk has them. The log's index is shared memory, which a power cut takes away. */
function build(path: string, events: readonly Event[], random: Random): void {
  mkdirSync(path)
  for (const file of ['weir.db', 'weir.db-wal']) {
    const own = events.filter((event) => event.kind !== 'acknowledged' && event.file === file)
    const synced = own.findLastIndex(({ kind }) => kind === 'sync')
    const disk = new Disk()
    for (const event of own.slice(0, synced + 1)) disk.carryOut(event)
    for (const event of shuffled(own.slice(synced + 1), random)) {
      if (random.oneIn(2)) continue
      if (event.kind === 'write' && random.oneIn(2)) disk.tear(event, random)
      else disk.carryOut(event)
    }
    writeFileSync(join(path, file), disk.content)
  }
}

class Disk {
  #bytes = Buffer.alloc(0)
  #size = 0

  get content(): Buffer {
    return this.#bytes.subarray(0, this.#size)
  }

  carryOut(event: Event): void {
    if (event.kind === 'write') this.#put(event.at, event.bytes)
    if (event.kind === 'truncate') {
      this.#reserve(event.size)
      this.#bytes.fill(0, event.size)
      this.#size = event.size
    }
  }

  /** Some sectors of the write are on the disk, others are not. */
  tear({ at, bytes }: Extract<Event, { kind: 'write' }>, random: Random): void {
    for (let from = 0; from < bytes.length; from += sector) {
      if (random.oneIn(2)) this.#put(at + from, bytes.subarray(from, from + sector))
    }
  }

  #put(at: number, bytes: Buffer): void {
    this.#reserve(at + bytes.length)
    bytes.copy(this.#bytes, at)
    this.#size = Math.max(this.#size, at + bytes.length)
  }

  #reserve(size: number): void {
    if (size > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes], Math.max(size, 2 * this.#bytes.length))
  }
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  const all = [...items]
  for (let at = all.length - 1; at > 0; at--) {
    const other = random.below(at + 1)
    ;[all[at], all[other]] = [all[other]!, all[at]!]
  }
  return all
}

/** How many acknowledged calls are not charged in this image; undefined when the file is damaged. */
function missingIn(path: string, acknowledged: readonly string[]): number | undefined {
  let database: Database | undefined
  try {
    database = openDatabase(path, noon)
    const check = database.query<{ integrity_check: string }, []>('PRAGMA integrity_check').get()
    if (check?.integrity_check !== 'ok' || !auditFile(join(path, 'weir.db')).ok) return undefined
    const rows = database
      .query<{ id: string }, []>("SELECT id FROM call WHERE state = 'settled' AND charged = 700")
      .all()
    const settled = new Set(rows.map(({ id }) => id))
    return acknowledged.filter((call) => !settled.has(call)).length
  } catch {
    return undefined
  } finally {
    database?.close()
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { images: { type: 'string', default: '500' }, calls: { type: 'string', default: '300' } },
  })
  const size = { images: Number(values.images), calls: Number(values.calls), seed: 1 }
  const full = await cutPower('FULL', size)
  const control = await cutPower('NORMAL', size)
  process.stdout.write(`FULL ${JSON.stringify(full)}\nNORMAL ${JSON.stringify(control)}\n`)
  process.exitCode = full.damaged === 0 && full.lost === 0 && control.lost > 0 ? 0 : 1
}
