// Gateways on one database are killed, stopped for too long and cut off while they work: nothing that was acknowledged is
// lost, nothing is charged twice, and no hold stays.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { SQL } from 'bun'
import { usd } from '../../src/credits/money.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { grantOf } from '../credits/support.ts'
import { CutProxy } from '../support/cut-proxy.ts'
import { describeOnPostgres, freshDatabase } from '../support/postgres.ts'

const gateways = 3
const accounts = 4
const lanes = 8
const rounds = 6
/** Calls that all gateways together have acknowledged between two blows. */
const callsBetween = 60

type Ledger = Awaited<ReturnType<typeof openOnPostgres>>['ledger']

class Gateway {
  readonly owner: string
  readonly proxy: CutProxy
  /** Calls that it has said to be settled. */
  readonly settled: string[] = []
  /** What it has said of its end. */
  lost: string | undefined
  readonly #child
  readonly #ready = Promise.withResolvers<void>()
  readonly #read: Promise<void>

  constructor(url: string, owner: string) {
    this.owner = owner
    this.proxy = new CutProxy(Number(new URL(url).port))
    const through = new URL(url)
    through.port = String(this.proxy.port)
    const script = join(import.meta.dir, 'gateways-child.ts')
    this.#child = Bun.spawn(
      [process.execPath, script, through.href, owner, String(accounts), String(lanes)],
      { stdout: 'pipe', stderr: 'inherit' },
    )
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

  #onLine([word, of]: readonly string[]): void {
    if (word === 'ready') this.#ready.resolve()
    else if (word === 'settled') this.settled.push(of!)
    else if (word === 'lost') this.lost = of
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

describeOnPostgres('gateways on one database', () => {
  let url: string
  let admin: SQL
  beforeAll(async () => {
    url = await freshDatabase('gateways')
    admin = new SQL({ url, max: 1 })
  })
  const all: Gateway[] = []
  afterAll(async () => {
    for (const gateway of all) gateway.kill('SIGKILL')
    await admin.close()
  })

  const openCallsOf = async (owner: string) => {
    const [row] = await admin.unsafe('SELECT count(*)::int AS count FROM open_call WHERE owner = $1', [owner])
    return (row as { count: number }).count
  }

  /** What ten seconds without a sign of life do, and what the leader does then. */
  async function bury(ledger: Ledger, owner: string): Promise<number> {
    await admin.unsafe('UPDATE chain SET heartbeat_until = 0 WHERE owner = $1', [owner])
    let ended = 0
    // Who was stopped in the middle of a transaction keeps what it has locked for two seconds: then the database gives it up.
    do ended += await ledger.recover(Date.now()).catch(() => 0)
    while ((await openCallsOf(owner)) > 0)
    return ended
  }

  test('survive what befalls each of them', async () => {
    const { ledger, close } = await openOnPostgres(url, {
      clock: Date.now,
      owner: 'leader',
      peers: { graceMs: 0 },
    })
    for (let n = 0; n < accounts; n++)
      await ledger.grant(grantOf(`g${n}`, usd(1), { account: `account ${n}` }))

    const start = async () => {
      const gateway = new Gateway(url, `gateway${all.length}`)
      all.push(gateway)
      await gateway.ready
      return gateway
    }
    const living = await Promise.all(Array.from({ length: gateways }, start))
    const acknowledged = () => all.reduce((sum, { settled }) => sum + settled.length, 0)
    const work = async () => {
      const enough = acknowledged() + callsBetween
      while (acknowledged() < enough) await new Promise((resolve) => setImmediate(resolve))
    }

    let recovered = 0
    for (let round = 0; round < rounds; round++) {
      await work()
      const at = round % gateways
      const gateway = living[at]!
      if (round % 3 === 0) {
        gateway.kill('SIGKILL')
        await gateway.ended()
        recovered += await bury(ledger, gateway.owner)
      } else if (round % 3 === 1) {
        gateway.kill('SIGSTOP')
        recovered += await bury(ledger, gateway.owner)
        const before = gateway.settled.length
        gateway.kill('SIGCONT')
        expect([await gateway.ended(), gateway.lost]).toEqual([1, 'Fenced'])
        // What it had on its way when it was stopped may still be read; it is checked below as all else.
        expect(gateway.settled.length - before).toBeLessThanOrEqual(lanes)
      } else {
        gateway.proxy.carriage = round % 2 ? 'lose-answers' : 'lose-requests'
        const before = gateway.proxy.withheld
        while (gateway.proxy.withheld === before) await new Promise((resolve) => setImmediate(resolve))
        gateway.proxy.cut()
        gateway.proxy.carriage = 'pass'
        continue
      }
      living[at] = await start()
    }
    await work()
    for (const gateway of living) {
      gateway.kill('SIGKILL')
      await gateway.ended()
      recovered += await bury(ledger, gateway.owner)
    }
    expect(recovered).toBeGreaterThan(0)

    const rows: { id: string; ending: string; charged: bigint }[] = await admin.unsafe(
      'SELECT id, ending, charged::int AS charged FROM call',
    )
    const settled = new Set(rows.filter(({ ending }) => ending === 'finished').map(({ id }) => id))
    expect(all.flatMap((gateway) => gateway.settled.filter((call) => !settled.has(call)))).toEqual([])
    const charges = new Set(rows.map(({ ending, charged }) => `${ending} ${charged}`))
    expect(
      [...charges].filter((each) => !['finished 700', 'recovered 300', 'recovered 0'].includes(each)),
    ).toEqual([])
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    await close()
  }, 60_000)
})
