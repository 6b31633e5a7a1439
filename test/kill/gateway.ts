// Gateways that the tests kill, each behind a proxy of its own, and the tally of all that they have acknowledged.

import { join } from 'node:path'
import type { SQL } from 'bun'
import { CutProxy } from '../support/cut-proxy.ts'

export interface GatewayLoad {
  readonly accounts: number
  readonly lanes: number
  /** Of each lane between two calls. */
  readonly pauseMs?: number
}

/** A process with a ledger at work (gateways-child.ts). */
export class Gateway {
  readonly owner: string
  readonly proxy: CutProxy
  /** Calls that it has said to be held, and to be settled. */
  readonly held: string[] = []
  readonly settled: string[] = []
  /** Calls that it has said to have ended before its own settle. */
  readonly endedBefore: string[] = []
  /** Answers by what they were. */
  readonly answers = new Map<string, number>()
  /** What it has said of its end. */
  lost: string | undefined
  /** When it has acknowledged a settle last, and the longest time between two since `watch`, on this process's clock. */
  lastAt = performance.now()
  longestMs = 0
  readonly #child
  readonly #ready = Promise.withResolvers<void>()
  readonly #read: Promise<void>

  constructor(url: string, owner: string, { accounts, lanes, pauseMs = 0 }: GatewayLoad) {
    this.owner = owner
    this.proxy = new CutProxy(Number(new URL(url).port))
    const through = new URL(url)
    through.port = String(this.proxy.port)
    const script = join(import.meta.dir, 'gateways-child.ts')
    const args = [through.href, owner, String(accounts), String(lanes), String(pauseMs)]
    this.#child = Bun.spawn([process.execPath, script, ...args], { stdout: 'pipe', stderr: 'inherit' })
    this.#read = this.#readAll()
  }

  get ready(): Promise<void> {
    return this.#ready.promise
  }

  async #readAll(): Promise<void> {
    let rest = ''
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split('\n')
      rest = lines.pop()!
      for (const line of lines) this.#onLine(line.split(' '))
    }
  }

  #onLine([word, of, why]: readonly string[]): void {
    if (word === 'ready') this.#ready.resolve()
    else if (word === 'lost') this.lost = of
    else {
      const answer = why === undefined ? word! : `${word} ${why}`
      this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1)
    }
    if (word === 'held') this.held.push(of!)
    if (word === 'already-ended') this.endedBefore.push(of!)
    if (word !== 'settled') return
    this.settled.push(of!)
    this.longestMs = Math.max(this.longestMs, performance.now() - this.lastAt)
    this.lastAt = performance.now()
  }

  /** Measures from now on. */
  watch(): void {
    this.lastAt = performance.now()
    this.longestMs = 0
  }

  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(signal)
  }

  /** Resolves with how it ended, when all that it has said was read. */
  async ended(): Promise<number> {
    const code = await this.#child.exited
    await this.#read
    this.proxy.stop()
    return code
  }
}

export interface Tally {
  readonly held: number
  readonly settled: number
  /** Acknowledged holds of which there is no trace, and acknowledged settles that are not booked as they were said. */
  readonly lostHolds: number
  readonly lostSettles: number
  /** Calls that are charged more than once, or charged and open. */
  readonly doubled: number
  /** Accounts that have spent more than they were granted. */
  readonly overspent: number
  /** Calls that were charged otherwise than any gateway has asked for. */
  readonly wrong: number
  /** Calls that a peer has ended. */
  readonly recovered: number
  /** Settles of gateways that live, of calls that somebody else had ended. */
  readonly endedByOthers: number
  readonly open: number
}

/** Holds what was acknowledged against what the database says. */
export async function tallyOf(gateways: readonly Gateway[], admin: SQL): Promise<Tally> {
  const rows: { id: string; ending: string; charged: bigint }[] = await admin.unsafe(
    'SELECT id, ending, charged::int AS charged FROM call',
  )
  const open = new Set(
    ((await admin.unsafe('SELECT id FROM open_call')) as { id: string }[]).map(({ id }) => id),
  )
  const ended = new Map(rows.map(({ id, ending, charged }) => [id, `${ending} ${charged}`]))
  const count = async (text: string) => {
    const [row] = (await admin.unsafe(`SELECT count(*)::int AS count FROM (${text}) AS found`)) as {
      count: number
    }[]
    return row!.count
  }
  const held = gateways.flatMap((gateway) => gateway.held)
  const settled = gateways.flatMap((gateway) => gateway.settled)
  const right = new Set(['finished 700', 'recovered 300', 'recovered 0'])
  return {
    held: held.length,
    settled: settled.length,
    lostHolds: held.filter((call) => !open.has(call) && !ended.has(call)).length,
    lostSettles: settled.filter((call) => ended.get(call) !== 'finished 700').length,
    doubled:
      rows.length -
      ended.size +
      rows.filter(({ id }) => open.has(id)).length +
      (await count(
        'SELECT settle_chain, settle_tx FROM call WHERE settle_tx IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1',
      )) +
      // A charge of which there is no call.
      (await count(
        `SELECT DISTINCT chain, tx FROM journal WHERE kind = 'settle' AND NOT EXISTS (
           SELECT 1 FROM call WHERE settle_chain = journal.chain AND settle_tx = journal.tx)`,
      )),
    overspent: await count(
      `SELECT account FROM lot GROUP BY account HAVING min(remaining - pinned) < 0 OR min(remaining) < 0
         OR sum(granted) < (SELECT coalesce(sum(charged), 0) FROM call WHERE call.account = lot.account)`,
    ),
    wrong: [...ended.values()].filter((each) => !right.has(each)).length,
    recovered: [...ended.values()].filter((each) => each.startsWith('recovered')).length,
    endedByOthers: gateways.reduce((sum, { endedBefore }) => sum + endedBefore.length, 0),
    open: open.size,
  }
}
