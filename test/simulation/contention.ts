// Several processes at one database: `bun test/simulation/contention.ts --tries 400000 --seconds 600 [--postgres]`, with which
// all but the sums that are read from the file is done on PostgreSQL, by gateways of one database.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { formatUsd, usd } from '../../src/credits/money.ts'
import { openStore } from '../../src/store/open.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { grantOf } from '../credits/support.ts'
import { freshDatabase } from '../support/postgres.ts'
import { tempDir } from '../support/tmp.ts'

const processes = 4
const readEveryMs = 50

/** Where everybody writes: a folder, or the address of a database. */
interface Place extends Disposable {
  readonly address: string
}

type MakePlace = (name: string) => Promise<Place>

const inFolder: MakePlace = (name) => {
  const dir = tempDir(`weir-${name}-`)
  return Promise.resolve({ address: dir.path, [Symbol.dispose]: () => dir.remove() })
}

const onPostgres: MakePlace = async (name) => {
  const address = await freshDatabase(name)
  return { address, [Symbol.dispose]: () => undefined }
}

/** `owner`: the name of a gateway; without it as a command opens it. */
export function openAt(address: string, owner?: string) {
  const clock = Date.now
  if (!address.startsWith('postgres://')) return openStore(address, { clock })
  return openOnPostgres(address, { clock, ...(owner !== undefined && { owner }) })
}

function start(address: string, name: string, what: 'spend' | 'budget' | 'share' | 'work', amount: number) {
  const command = [
    process.execPath,
    join(import.meta.dir, 'contention-child.ts'),
    address,
    name,
    what,
    String(amount),
  ]
  return Bun.spawn(command, { stdout: 'pipe', stderr: 'inherit' })
}

async function figureOf(child: ReturnType<typeof start>): Promise<number> {
  const text = await new Response(child.stdout).text()
  if ((await child.exited) !== 0) throw new Error('a process failed')
  return Number(text)
}

/** 4 processes of 16 clients each try to take holds that only `holds` of them can get. */
export async function overspend(
  holds: number,
  tries: number,
  makePlace = inFolder,
): Promise<{ admitted: number; pinned: bigint; ok: boolean }> {
  using place = await makePlace('overspend')
  const store = await openAt(place.address)
  await store.ledger.grant(grantOf('g', usd(holds)))
  const children = Array.from({ length: processes }, (_, n) =>
    start(place.address, `p${n}`, 'spend', tries / processes),
  )
  const admitted = await Promise.all(children.map(figureOf))
  const pinned = (await store.ledger.balance('anna')).lots.reduce((sum, lot) => sum + lot.pinned, 0n)
  const { ok } = await store.ledger.audit()
  await store.close()
  return { admitted: admitted.reduce((sum, count) => sum + count, 0), pinned, ok }
}

/**
 * 4 processes of 16 clients each take holds for calls without a limit, on a credit and a key's limit below it: what the
 * calls were told is theirs, and what is set aside for them.
 */
export async function shares(
  tries: number,
  makePlace = inFolder,
): Promise<{ told: number; pinned: number; ok: boolean }> {
  using place = await makePlace('shares')
  const store = await openAt(place.address)
  await store.ledger.grant(grantOf('g', usd(500)))
  const children = Array.from({ length: processes }, (_, n) =>
    start(place.address, `p${n}`, 'share', tries / processes),
  )
  const told = await Promise.all(children.map(figureOf))
  const pinned = (await store.ledger.balance('anna')).lots.reduce((sum, lot) => sum + lot.pinned, 0n)
  const { ok } = await store.ledger.audit()
  await store.close()
  return { told: told.reduce((sum, amount) => sum + amount, 0), pinned: Number(pinned), ok }
}

/** The budgets of `budgets`: less together than their parts, and more than there is time to spend alone. */
export const nested = { person: 130, group: 200, all: 300 }

/**
 * 4 processes of 16 clients each, two in each of two groups in a third, call on the credit of one account: what each
 * person, each group and all together have got, of which some is spent and some reserved.
 */
export async function budgets(
  tries: number,
  makePlace = inFolder,
): Promise<{ people: number[]; used: Record<'left' | 'right' | 'all', bigint>; ok: boolean }> {
  using place = await makePlace('budgets')
  const store = await openAt(place.address)
  await store.ledger.grant(grantOf('g', usd(1_000)))
  const children = Array.from({ length: processes }, (_, n) =>
    start(place.address, `p${n}`, 'budget', tries / processes),
  )
  const people = await Promise.all(children.map(figureOf))
  const scopes = ['grp_left', 'grp_right', 'grp_all'].map((scope) => ({ scope, windowStart: 0 }))
  const [left, right, all] = (await store.ledger.budgetSpend(scopes)).map(({ spent, held }) => spent + held)
  const { ok } = await store.ledger.audit()
  await store.close()
  return { people, used: { left: left!, right: right!, all: all! }, ok }
}

/** What must be true of every single moment of the file; a row of it is a moment at which it was not. */
const conserved = `
  SELECT * FROM (SELECT
    (SELECT coalesce(sum(amount), 0) FROM journal) AS all_legs,
    (SELECT coalesce(sum(posted - debt), 0) FROM wallet)
      - (SELECT coalesce(sum(amount), 0) FROM journal WHERE account GLOB 'wallet:*') AS posted,
    (SELECT coalesce(sum(posted), 0) FROM wallet) - (SELECT coalesce(sum(remaining), 0) FROM lot) AS remaining,
    (SELECT coalesce(sum(held), 0) FROM wallet)
      - (SELECT coalesce(sum(hold), 0) FROM open_call) AS held,
    (SELECT count(*) FROM wallet WHERE posted < 0 OR held < 0 OR debt < 0 OR held > posted) AS negative)
  WHERE all_legs <> 0 OR posted <> 0 OR remaining <> 0 OR held <> 0 OR negative <> 0`

/** Reads the sums every 50 ms while 4 processes move money about. */
export async function conservation(
  ms: number,
): Promise<{ reads: number; wrong: unknown[]; commands: number; ok: boolean }> {
  using dir = tempDir('weir-conservation-')
  const store = await openStore(dir.path, { clock: Date.now })
  for (const account of ['anna', 'berta', 'carla']) {
    await store.ledger.grant(grantOf(`start-${account}`, usd(50), { account }))
  }
  const reader = new Database(join(dir.path, 'weir.db'), { readonly: true, safeIntegers: true })
  const read = reader.prepare(conserved)
  const working = Promise.all(
    Array.from({ length: processes }, (_, n) => figureOf(start(dir.path, `p${n}`, 'work', ms))),
  )
  const progress = { over: false }
  const finished = working.finally(() => (progress.over = true))
  const wrong: unknown[] = []
  let reads = 0
  while (!progress.over) {
    wrong.push(...read.all())
    reads++
    await Bun.sleep(readEveryMs)
  }
  const commands = (await finished).reduce((sum, count) => sum + count, 0)
  reader.close()
  const { ok } = await store.ledger.audit()
  await store.close()
  return { reads, wrong, commands, ok }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      tries: { type: 'string', default: '400000' },
      seconds: { type: 'string', default: '600' },
      postgres: { type: 'boolean', default: false },
    },
  })
  const makePlace = values.postgres ? onPostgres : inFolder
  const spent = await overspend(2_000, Number(values.tries), makePlace)
  process.stdout.write(
    `${Number(values.tries)} tries of 2000 holds: ${spent.admitted} admitted, audit ${spent.ok}\n`,
  )
  const grouped = await budgets(Number(values.tries), makePlace)
  process.stdout.write(
    `nested budgets: ${grouped.people.join(' ')} of ${nested.all}, ${formatUsd(grouped.used.all)} used, audit ${grouped.ok}\n`,
  )
  const shared = await shares(Number(values.tries) / 20, makePlace)
  process.stdout.write(
    `calls without a limit: ${shared.told} told, ${shared.pinned} held, audit ${shared.ok}\n`,
  )
  const bank = values.postgres ? undefined : await conservation(Number(values.seconds) * 1000)
  if (bank)
    process.stdout.write(
      `${bank.commands} commands, ${bank.reads} reads, ${bank.wrong.length} wrong, audit ${bank.ok}\n`,
    )
  const isShared = shared.told === shared.pinned && shared.pinned <= Number(usd(400)) && shared.ok
  process.exitCode =
    spent.admitted === 2_000 &&
    spent.ok &&
    grouped.used.all === usd(nested.all) &&
    grouped.ok &&
    isShared &&
    (bank === undefined || (bank.wrong.length === 0 && bank.ok))
      ? 0
      : 1
}
