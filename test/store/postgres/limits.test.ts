// Limits that several gateways keep together on one database.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { SignInLimits } from '../../../src/accounts/identity/sign-in-limits.ts'
import { inTurn } from '../../../src/serve/gateway/tools.ts'
import { InFlight } from '../../../src/chat/call.ts'
import { Limiter, type LimitedCaller, type RequestLimits } from '../../../src/http/intake/paid/limits.ts'
import { PostgresLimits } from '../../../src/store/postgres/peers.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { noon } from '../../credits/support.ts'
import { eventually } from '../../support/call-gateway.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

const attemptLimits = {
  signInFailures: 3,
  signInFailuresPerNetwork: 5,
  signUpsPerNetwork: 2,
  signUps: 50,
  mailsPerAddress: 3,
}

const rates: RequestLimits = {
  inFlight: 100,
  inFlightPerAccount: 50,
  keyRequestsPerMinute: 6,
  keyTokensPerMinute: 1_000,
  accountRequestsPerMinute: 0,
}

const caller: LimitedCaller = {
  account: { id: 'acct' },
  key: { id: 'key', lineage: null, requestsPerMinute: null, tokensPerMinute: null },
}

describeOnPostgres('limits of all gateways', () => {
  let admin: SQL
  const all: PostgresTables[] = []
  const gateways: PostgresLimits[] = []
  beforeAll(async () => {
    const url = await freshDatabase('limits')
    admin = new SQL({ url, max: 1 })
    for (let n = 0; n < 2; n++) {
      const tables = new PostgresTables({ server: url })
      await tables.open()
      all.push(tables)
      gateways.push(new PostgresLimits(tables, `gateway_${n}`))
    }
  })
  beforeEach(() => emptyTables(admin))
  afterAll(async () => {
    for (const tables of all) await tables.close()
    await admin.close()
  })

  describe('of sign-in', () => {
    let now = noon
    const clock = () => now
    const doors = () => gateways.map((counts) => new SignInLimits(attemptLimits, clock, counts))
    const codeOf = (attempt: Promise<unknown>) =>
      attempt.then(
        () => 'in',
        (error: { code: string }) => error.code,
      )

    test('a password is guessed as often at all gateways as at one', async () => {
      const [one, other] = doors()
      const guesses = Array.from({ length: 8 }, (_, n) =>
        codeOf((n % 2 ? one! : other!).signIn('anna', 'net')),
      )
      expect((await Promise.all(guesses)).filter((code) => code === 'in')).toHaveLength(3)
      now += 15_000
      expect(await codeOf(other!.signIn('anna', 'net'))).toBe('in')
      expect(await codeOf(one!.signIn('anna', 'net'))).toBe('rate_limit_exceeded')
    })

    test('who succeeds, or was not tried, is not counted', async () => {
      const [one, other] = doors()
      for (let n = 0; n < 6; n++) await (await one!.signIn('anna', 'net')).succeed()
      for (let n = 0; n < 6; n++) await (await other!.signIn('anna', 'net')).undo()
      const guesses = Array.from({ length: 8 }, (_, n) => codeOf(other!.signIn(`anna${n}`, 'net')))
      expect((await Promise.all(guesses)).filter((code) => code === 'in')).toHaveLength(5)
    })

    test('accounts are opened as often, and what is over is forgotten', async () => {
      const [one, other] = doors()
      const asked = [one!, other!, one!].map((door) => codeOf(door.signUp('net')))
      expect((await Promise.all(asked)).toSorted()).toEqual(['in', 'in', 'rate_limit_exceeded'])
      expect(await gateways[0]!.sweep(now)).toBe(0)
      now += 3_600_001
      expect(await gateways[0]!.sweep(now)).toBe(2)
      expect(await codeOf(other!.signUp('net'))).toBe('in')
    })

    test('the database knows no address', async () => {
      await doors()[0]!.mail('anna@example.org')
      const rows: { name: string }[] = await admin.unsafe('SELECT name FROM attempt_count')
      expect(rows).toHaveLength(1)
      expect(rows[0]!.name).not.toContain('anna')
    })
  })

  describe('of turns', () => {
    test('two gateways never act at once, and both do', async () => {
      let acting = 0
      let most = 0
      const act = async () => {
        most = Math.max(most, ++acting)
        await Bun.sleep(20)
        acting--
      }
      await Promise.all([0, 1, 0].map((n) => inTurn(gateways[n], 'refresh', Date.now, act)))
      expect(most).toBe(1)
    })

    test('one that dies in its turn is waited for no longer than a turn may last', async () => {
      let now = noon
      void inTurn(
        gateways[0],
        'refresh',
        () => now,
        () => new Promise(() => undefined),
      )
      const taken = async (): Promise<unknown[]> => admin.unsafe('SELECT 1 FROM attempt_count')
      await eventually(taken, (rows) => rows.length > 0)
      const other = inTurn(
        gateways[1],
        'refresh',
        () => (now += 10_000),
        () => Promise.resolve('done'),
      )
      expect(await other).toBe('done')
    })
  })

  describe('of calls in flight', () => {
    const inFlight: RequestLimits = { ...rates, inFlightPerAccount: 3, keyRequestsPerMinute: 0 }
    /** A call whose credit is held, as the ledger writes it. */
    const open = (id: string, owner: string, more = {}) => {
      const row = { account: 'acct', key: null, model: 'openai/gpt', inGroup: null, ...more }
      return admin.unsafe(
        `INSERT INTO open_call (id, account, key, hold, pins, funding, model, price_version, owner, lease_until, opened_at, in_group)
         VALUES ($1, $2, $3, 0, '[]', '', $4, '', $5, 0, 0, $6)`,
        [id, row.account, row.key, row.model, owner, row.inGroup],
      )
    }
    const limiterOf = (n: number, places = gateways[n]) =>
      new Limiter(
        () => inFlight,
        new InFlight(),
        () => noon,
        places,
      )
    const entersAs = async (limiter: Limiter, id: string, kind: 'real' | 'simulated' = 'real') => {
      try {
        await limiter.enter(caller, id, kind)
        return 'in'
      } catch (error) {
        return (error as { code: string }).code
      }
    }
    beforeEach(async () => {
      await admin.unsafe(
        `INSERT INTO chain (owner, epoch, batch, tx, head, at) VALUES ('gateway_0', 1, 0, 0, '', 0), ('gateway_1', 1, 0, 0, '', 0)`,
      )
    })

    test('those at other gateways count, each of its kind, and those of a dead one no more', async () => {
      const limiter = limiterOf(0)
      await open('a', 'gateway_1')
      // A group pays, and the place is that of the person.
      const inGroup = (person: string) => JSON.stringify({ group: 'grp', person, budgets: [] })
      await open('b', 'gateway_1', { account: 'grp', inGroup: inGroup('acct') })
      await open('of a colleague', 'gateway_1', { account: 'acct', inGroup: inGroup('other') })
      await open('simulated', 'gateway_1', { model: 'sim/echo' })
      await open('of another', 'gateway_1', { account: 'other' })
      await open('own', 'gateway_0')
      expect(await entersAs(limiter, 'c')).toBe('in')
      expect(await entersAs(limiter, 'd')).toBe('rate_limit_exceeded')
      expect(await entersAs(limiter, 'e', 'simulated')).toBe('in')
      // What a fence does.
      await admin.unsafe(`UPDATE chain SET owner = 'over:gateway_1' WHERE owner = 'gateway_1'`)
      expect(await entersAs(limiter, 'f')).toBe('in')
    })

    test('many that ask at once are answered together, and a database that is away refuses', async () => {
      await open('a', 'gateway_1')
      const limiter = limiterOf(0)
      const asked = Array.from({ length: 10 }, (_, n) => entersAs(limiter, `r${n}`))
      expect((await Promise.all(asked)).filter((answer) => answer === 'in')).toHaveLength(2)
      const away = new PostgresTables({ server: 'postgres://weir@127.0.0.1:1/none' })
      expect(await entersAs(limiterOf(0, new PostgresLimits(away, 'gateway_0')), 'x')).toBe(
        'store_unavailable',
      )
    })
  })

  describe('of the networks of a key', () => {
    test('a key that is used from many at several gateways is seen with all of them', async () => {
      const [one, other] = gateways
      const see = (at: PostgresLimits, network: string, now: number) => at.see('key', network, now, now - 10)
      expect(await see(one!, '10.0.0.0', noon)).toBe(1)
      expect(await see(other!, '10.0.1.0', noon)).toBe(2)
      expect(await see(other!, '10.0.0.0', noon + 5)).toBe(2)
      expect(await see(one!, '10.0.2.0', noon + 11)).toBe(2)
      expect(await one!.see('key_2', '10.0.2.0', noon, noon)).toBe(1)
      expect(await one!.seenOf('key', ['10.0.2.0', '10.0.1.0', '10.0.9.0'], noon + 1)).toEqual(['10.0.2.0'])
      await other!.forgetSeen('key')
      expect(await see(one!, '10.0.3.0', noon + 12)).toBe(1)
    })
  })

  describe('of rates', () => {
    const limiters = () =>
      gateways.map(
        () =>
          new Limiter(
            () => rates,
            new InFlight(),
            () => noon,
          ),
      )
    let requests = 0
    const enters = (limiter: Limiter) => {
      const id = `req${++requests}`
      try {
        // Of one gateway it is answered at once.
        void limiter.enter(caller, id, 'real')
        limiter.leave(id)
        return true
      } catch {
        return false
      }
    }
    const exchange = async (...of: Limiter[]) => {
      for (const limiter of of) await limiter.exchange(gateways[of.indexOf(limiter)]!)
    }

    test('what one gateway has let in counts at the other after an exchange', async () => {
      const [one, other] = limiters()
      for (const limiter of [one!, other!]) await limiter.exchange(gateways[0]!)
      expect([enters(one!), enters(one!), enters(one!), enters(one!)]).toEqual([true, true, true, true])
      expect(enters(other!)).toBe(true)
      await exchange(one!, other!)
      await exchange(one!, other!)
      expect([enters(one!), enters(one!), enters(other!)]).toEqual([true, false, true])
    })

    test('what is spent during an exchange, or could not be told, is told later', async () => {
      const [one, other] = limiters()
      for (const limiter of [one!, other!]) await limiter.exchange(gateways[0]!)
      enters(one!)
      const underWay = exchange(one!)
      enters(one!)
      await underWay
      const failing = { exchange: () => Promise.reject(new Error('down')) }
      expect(one!.exchange(failing)).rejects.toThrow('down')
      enters(other!)
      await exchange(one!, other!)
      expect(other!.headers(caller)['x-ratelimit-remaining-requests']).toBe('3')
    })

    test('tokens overdrawn at one gateway are waited for at the other', async () => {
      const [one, other] = limiters()
      for (const limiter of [one!, other!]) await limiter.exchange(gateways[0]!)
      enters(one!)
      one!.spentTokens('key', 5_000)
      enters(other!)
      await exchange(one!, other!)
      expect(enters(other!)).toBe(false)
    })
  })
})
