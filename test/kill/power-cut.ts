// What a power cut leaves: the ledger's writes and syncs are recorded from the kernel's side, and disks are built from
// them on which everything that was not synced is missing, torn or there, in any order.
// The long run: `bun test/kill/power-cut.ts --images 500 --calls 300`.

import { Database } from 'bun:sqlite'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { auditFile } from '../../src/store/sqlite/audit/audit.ts'
import { openDatabase } from '../../src/store/sqlite/database/sqlite.ts'
import { noon } from '../credits/support.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { tempDir } from '../support/tmp.ts'

/** How commits become durable in a trial. All but the first two must lose something. */
export type CommitOrder =
  'synced by each commit' | 'answered after the sync' | 'answered before the sync' | 'never synced'

/** What a client, or the file of anchors, has been told. */
export interface Acknowledged {
  readonly kind: 'acknowledged'
  readonly what: 'held' | 'settled' | 'anchored' | 'written'
  readonly id: string
}

export type Event =
  | { readonly kind: 'write'; readonly file: string; readonly at: number; readonly bytes: Buffer }
  | { readonly kind: 'truncate'; readonly file: string; readonly size: number }
  /** A sync that has ended: it covers the events before `began`. */
  | { readonly kind: 'sync'; readonly file: string; readonly began: number; readonly thread: string }
  | Acknowledged

export interface PowerCutReport {
  readonly images: number
  /** Calls that were charged and answered. */
  readonly acknowledged: number
  /** What SQLite or the audit says of each image that is damaged. */
  readonly damaged: readonly string[]
  /** What was acknowledged and is not there, over all images. */
  readonly lost: number
}

export interface Trial {
  readonly images: number
  readonly calls: number
  readonly seed: number
  /** How many calls are made at a time. */
  readonly lanes?: number
  /** It ends when so many charges are lost: all of them are looked for where nothing is said. */
  readonly enough?: number
}

/** The syncs of the log, by the thread that waited for them. */
export interface SyncCounts {
  readonly byLoop: number
  readonly byPool: number
}

const sector = 512

/** Records a ledger at work, in so many `lanes`, and cuts its power at so many moments. */
export async function cutPower(
  order: CommitOrder,
  { images, calls, seed, lanes = 6, enough = Infinity }: Trial,
): Promise<PowerCutReport & { readonly logSyncs: SyncCounts }> {
  using dir = tempDir('weir-power-')
  const { events, loop } = await recorded(dir.path, order, calls, lanes)
  const first = events.findIndex(({ kind }) => kind === 'acknowledged')
  if (first < 0) throw new Error('nothing was recorded')
  const random = seeded(seed)
  const damaged: string[] = []
  let lost = 0
  for (let image = 0; image < images && lost < enough; image++) {
    const until = first + 1 + random.below(events.length - first)
    const path = dir.join(`image-${image}`)
    const past = events.slice(0, until)
    build(path, past, random)
    const missing = missingIn(path, past.filter(isAcknowledged))
    if (typeof missing === 'string') damaged.push(`image ${image}, cut after event ${until}: ${missing}`)
    else lost += missing
    rmSync(path, { recursive: true })
  }
  const acknowledged = events.filter((event) => isAcknowledged(event) && event.what === 'settled').length
  const syncs = events.filter((event) => event.kind === 'sync' && event.file === logName)
  const byLoop = syncs.filter((event) => event.kind === 'sync' && event.thread === loop).length
  return { images, acknowledged, damaged, lost, logSyncs: { byLoop, byPool: syncs.length - byLoop } }
}

const logName = 'weir.db-wal'

function isAcknowledged(event: Event): event is Acknowledged {
  return event.kind === 'acknowledged'
}

interface Recording {
  readonly events: readonly Event[]
  /** The thread that writes. */
  readonly loop: string
}

async function recorded(dir: string, order: CommitOrder, calls: number, lanes: number): Promise<Recording> {
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
  const work = [process.execPath, child, join(dir, 'data'), order, String(calls), String(lanes)]
  await Bun.spawn([...strace, '-o', trace, ...work], { stdout: 'ignore', stderr: 'ignore' }).exited
  return recordingOf(readFileSync(trace, 'latin1').split('\n'))
}

const patterns = {
  unfinished: /^(\d+) +(.*) <unfinished \.\.\.>$/,
  resumed: /^(\d+) +<\.\.\. \w+ resumed>(.*)$/,
  write: /^\d+ +pwrite64\(\d+<([^>]*)>, "([^"]*)", \d+, (\d+)\) += \d/,
  said: /^\d+ +write\(1<[^>]*>, "([^"]*)"/,
  sync: /^(\d+) +f(?:data)?sync\(\d+<([^>]*)>\) += 0/,
  truncate: /^\d+ +ftruncate\(\d+<([^>]*)>, (\d+)\) += 0/,
}

/**
 * A call that others were recorded within has two lines. What it wrote counts from the second; what a sync covers is
 * what was written before the first.
 */
function recordingOf(lines: readonly string[]): Recording {
  const events: Event[] = []
  const open = new Map<string, { readonly line: string; readonly began: number }>()
  let loop = ''
  for (const line of lines) {
    const begun = patterns.unfinished.exec(line)
    if (begun) {
      open.set(begun[1]!, { line: `${begun[1]} ${begun[2]}`, began: events.length })
      continue
    }
    const resumed = patterns.resumed.exec(line)
    const first = resumed && open.get(resumed[1]!)
    const event = first ? eventOf(first.line + resumed[2]!, first.began) : eventOf(line, events.length)
    if (!event) continue
    events.push(event)
    if (event.kind === 'acknowledged') loop = /^\d+/.exec(line)![0]
  }
  return { events, loop }
}

function eventOf(line: string, began: number): Event | undefined {
  const write = patterns.write.exec(line)
  if (write)
    return { kind: 'write', file: nameOf(write[1]!), at: Number(write[3]), bytes: decoded(write[2]!) }
  const said = patterns.said.exec(line)
  if (said) {
    const [what, id] = decoded(said[1]!).toString().trim().split(' ') as [Acknowledged['what'], string]
    return { kind: 'acknowledged', what, id }
  }
  const sync = patterns.sync.exec(line)
  if (sync) return { kind: 'sync', file: nameOf(sync[2]!), began, thread: sync[1]! }
  const truncate = patterns.truncate.exec(line)
  return truncate ? { kind: 'truncate', file: nameOf(truncate[1]!), size: Number(truncate[2]) } : undefined
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
  for (const file of ['weir.db', logName]) {
    const own = (event: Event) => event.kind !== 'acknowledged' && event.file === file
    const covered = coveredBySyncs(events, file)
    const disk = new Disk()
    for (const event of events.slice(0, covered).filter(own)) disk.carryOut(event)
    for (const event of shuffled(events.slice(covered).filter(own), random)) {
      if (random.oneIn(2)) continue
      if (event.kind === 'write' && random.oneIn(2)) disk.tear(event, random)
      else disk.carryOut(event)
    }
    writeFileSync(join(path, file), disk.content)
  }
}

/**
 * How many of the events the syncs of a file cover. Two threads sync the log, and the sync that ended last may have
 * begun before one that had ended already.
 */
export function coveredBySyncs(events: readonly Event[], file: string): number {
  const began = events.map((event) => (event.kind === 'sync' && event.file === file ? event.began : 0))
  return Math.max(0, ...began)
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

/** How much of what was acknowledged is not in this image, or what is wrong with the file when it is damaged. */
function missingIn(path: string, acknowledged: readonly Acknowledged[]): number | string {
  let database: Database | undefined
  try {
    database = openDatabase(path, noon)
    const check = database.query<{ integrity_check: string }, []>('PRAGMA integrity_check').get()
    if (check?.integrity_check !== 'ok') return String(check?.integrity_check)
    const audit = auditFile(join(path, 'weir.db'))
    const broken = audit.checks.filter(({ ok }) => !ok)
    if (broken.length > 0) return broken.map(({ name, detail }) => `${name}: ${detail}`).join('; ')
    const there = new Set<string>()
    for (const [what, sql] of Object.entries(proofs))
      for (const { id } of database.query<{ id: string }, []>(sql).all()) there.add(`${what} ${id}`)
    return acknowledged.filter(({ what, id }) => !there.has(`${what} ${id}`)).length
  } catch (error) {
    return String(error)
  } finally {
    database?.close()
  }
}

/** What must be in the file for what was acknowledged. */
const proofs: Record<Acknowledged['what'], string> = {
  held: 'SELECT id FROM open_call UNION ALL SELECT id FROM call',
  settled: "SELECT id FROM call WHERE state = 'settled' AND charged = 700",
  anchored: "SELECT tx || ':' || lower(hex(hash)) AS id FROM journal",
  written: 'SELECT owner AS id FROM server',
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { images: { type: 'string', default: '500' }, calls: { type: 'string', default: '300' } },
  })
  const size = { images: Number(values.images), calls: Number(values.calls), seed: 1 }
  const orders: readonly (readonly [CommitOrder, 'keeps' | 'loses', lanes: number])[] = [
    ['synced by each commit', 'keeps', 6],
    ['answered after the sync', 'keeps', 6],
    ['answered after the sync', 'keeps', 1],
    ['answered before the sync', 'loses', 6],
    ['never synced', 'loses', 6],
  ]
  for (const [order, expected, lanes] of orders) {
    const report = await cutPower(order, { ...size, lanes })
    process.stdout.write(`${order}, ${lanes} at a time: ${JSON.stringify(report)}\n`)
    if (report.damaged.length > 0 || report.lost > 0 !== (expected === 'loses')) process.exitCode = 1
  }
}
