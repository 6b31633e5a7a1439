// Mixed calls through the real server, each compared with the provider's bill: what was finished to the picodollar,
// what had to be estimated within its hold and, in the sum, within a few hundredths.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { formatUsd, parseUsd } from '../../src/credits/money.ts'
import {
  billOf,
  configOf,
  promptOf,
  rates,
  startBillingProvider,
  type Plan,
} from '../kill/billing-provider.ts'
import { callOnce, type Seen } from '../kill/client.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { startWeir } from '../support/run-weir.ts'

export interface ExactnessOptions {
  readonly calls: number
  readonly lanes: number
  readonly seed: number
}

/** Calls of one kind that had to be estimated, picodollars. */
export interface Estimates {
  calls: number
  charged: bigint
  due: bigint
}

export interface ExactnessReport {
  readonly calls: number
  readonly exact: number
  /** The sum of all differences of finished calls whose provider counted, picodollars. */
  readonly difference: bigint
  readonly estimates: Readonly<Record<string, Estimates>>
  /** (charged − due) ÷ due over all estimated calls. */
  readonly estimateError: number
  readonly broken: readonly string[]
}

interface CallRow {
  readonly id: string
  readonly state: string
  readonly charged: bigint | null
  readonly hold: bigint
  readonly estimated: bigint | null
  readonly upstream_id: string | null
}

export async function measureExactness(options: ExactnessOptions): Promise<ExactnessReport> {
  const random = seeded(options.seed)
  const provider = startBillingProvider()
  const weir = await startWeir({ config: configOf(provider) })
  try {
    const seen: Seen[] = []
    let number = 0
    const lane = async () => {
      while (number < options.calls) {
        const { plan, prompt, leaveAfter } = wish(random, String(number++))
        seen.push(await callOnce(weir, plan, prompt, leaveAfter))
      }
    }
    await Promise.all(Array.from({ length: options.lanes }, lane))
    await rested(weir.dataDir)
    const audit = await weir.command('ledger', 'audit', '--json')
    const broken = audit.code === 0 ? [] : [`the audit says: ${audit.stdout}${audit.stderr}`]
    return compared(seen, rowsOf(weir.dataDir), provider.bill, broken)
  } finally {
    await weir.stop()
    provider.stop()
  }
}

const lexicon =
  'the river runs to the sea past old mills where water turned heavy wheels for many hundred years'.split(' ')

/** What a client asks for: every mixture, and one in four streams left at any of its words. */
function wish(random: Random, nonce: string): { plan: Plan; prompt: string; leaveAfter: number } {
  const stream = !random.oneIn(3)
  const words = 1 + random.below(60)
  const leaves = stream && random.oneIn(4)
  const facts = {
    nonce,
    stream,
    words,
    // A stream that is left has to last until its client is gone.
    gapMs: leaves ? 2 : random.pick([0, 0, 1]),
    usage: random.pick([
      'plain',
      'plain',
      'plain',
      'cached',
      'cached',
      'reasoning',
      'zero',
      'missing',
      'inflated',
    ] as const),
    tool: random.oneIn(5),
    keyed: false,
  }
  const prompt = Array.from({ length: 400 + random.below(1200) }, () => random.pick(lexicon)).join(' ')
  const text = promptOf({ ...facts, prompt: 0 }, prompt)
  const plan = {
    ...facts,
    prompt: countTokens(text),
    usage: leaves && (facts.usage === 'zero' || facts.usage === 'inflated') ? 'plain' : facts.usage,
  }
  // A prompt that is counted three times as large costs more than anybody has allowed.
  if (plan.usage === 'inflated') {
    const maxCost = formatUsd(BigInt(2 * plan.prompt + 400) * rates.input)
    return { plan: { ...plan, maxCost }, prompt, leaveAfter: Infinity }
  }
  return { plan, prompt, leaveAfter: leaves ? 1 + random.below(words) : Infinity }
}

/** Waits until no call is open: clients that leave do not wait for the end of theirs. */
async function rested(dataDir: string): Promise<void> {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  database.run('PRAGMA busy_timeout = 1000')
  const open = database.prepare<{ open: number }, []>('SELECT count(*) AS open FROM open_call')
  const deadline = performance.now() + 10_000
  while (open.get()!.open > 0 && performance.now() < deadline) await Bun.sleep(20)
  database.close()
}

function rowsOf(dataDir: string): ReadonlyMap<string, CallRow> {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true, safeIntegers: true })
  const rows = database
    .query<CallRow, []>(
      `SELECT id, state, charged, hold, estimated, upstream_id FROM call
       UNION ALL SELECT id, 'open', NULL, hold, NULL, NULL FROM open_call`,
    )
    .all()
  database.close()
  return new Map(rows.map((row) => [row.id, row]))
}

function compared(
  seen: readonly Seen[],
  rows: ReadonlyMap<string, CallRow>,
  bill: ReturnType<typeof startBillingProvider>['bill'],
  broken: string[],
): ExactnessReport {
  let exact = 0
  let difference = 0n
  const estimates: Record<string, Estimates> = {}
  for (const call of seen) {
    const row = rows.get(call.id)
    const charged = row?.charged ?? 0n
    const what = `${call.plan.stream ? 'stream' : 'whole'}, ${call.plan.usage}, ${call.ending}`
    if (!row || row.state === 'open') {
      broken.push(
        `${what}: ${call.id || call.plan.nonce} is ${row?.state ?? 'lost'} ${call.status} ${call.text}`,
      )
      continue
    }
    const most = parseUsd(call.plan.maxCost ?? '')
    if (most !== undefined && charged > most)
      broken.push(`${what}: ${call.id} was charged ${charged}, beyond its max_cost of ${most}`)
    if (most === undefined && charged > row.hold)
      broken.push(`${what}: ${call.id} was charged ${charged}, beyond its hold of ${row.hold}`)
    if (call.ending === 'complete' && parseUsd(call.cost ?? '') !== charged)
      broken.push(`${what}: ${call.id} was shown ${call.cost} and charged ${charged}`)
    if (row.estimated !== 1n) {
      const billed = billOf(call.plan, call.plan.words)
      const due = most !== undefined && most < billed ? most : billed
      exact++
      difference += charged < due ? due - charged : charged - due
      if (charged !== due) broken.push(`${what}: ${call.id} was charged ${charged}, the bill is ${due}`)
      continue
    }
    if (call.ending === 'complete' && call.plan.usage !== 'missing' && call.plan.usage !== 'zero')
      broken.push(`${what}: ${call.id} was estimated although the provider counted`)
    // A call whose client disconnected is charged for what was delivered; the provider may have made a few words more.
    const booked = row.upstream_id === null ? undefined : bill.get(row.upstream_id)
    const made = call.ending === 'complete' ? call.plan.words : (booked?.words ?? call.words)
    const kind = `${call.plan.stream ? 'stream' : 'whole'} ${call.ending}`
    const sums = (estimates[kind] ??= { calls: 0, charged: 0n, due: 0n })
    sums.calls++
    sums.charged += charged
    sums.due += billOf({ ...call.plan, usage: 'plain' }, made)
  }
  const all = Object.values(estimates)
  const due = Number(all.reduce((sum, kind) => sum + kind.due, 0n))
  const charged = Number(all.reduce((sum, kind) => sum + kind.charged, 0n))
  const estimateError = due === 0 ? 0 : (charged - due) / due
  return { calls: seen.length, exact, difference, estimates, estimateError, broken }
}
