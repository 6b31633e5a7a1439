// Calls run for as long as their caller may call.

import { describe, expect, test } from 'bun:test'
import type { Account, ApiKey, Caller, Session } from '../../src/accounts/account.ts'
import type { GroupStanding } from '../../src/accounts/group.ts'
import { Callers } from '../../src/chat/call.ts'
import { GatewayError } from '../../src/errors/errors.ts'

/** Accounts, keys and sessions that can be changed, by id. */
function lab() {
  const account: Account = {
    id: 'acct_anna',
    email: 'anna@example.org',
    createdAt: 0,
    suspended: false,
    role: 'user',
    verifiedAt: 0,
    monthlyCredit: 0n,
  }
  const rows = {
    accounts: new Map([[account.id, account]]),
    keys: new Map<string, ApiKey>(),
    sessions: new Map<string, Session>(),
    standings: new Map<string, GroupStanding>(),
    now: 1_000,
    fault: undefined as Error | undefined,
  }
  const lookup = <Row>(from: Map<string, Row>, id: string) => {
    if (rows.fault) throw rows.fault
    return from.get(id)
  }
  const shutdown = new AbortController()
  const callers = new Callers({
    accounts: {
      findAccount: (id) => lookup(rows.accounts, id),
      findKey: (id) => lookup(rows.keys, id),
      findSession: (id) => lookup(rows.sessions, id),
      findStanding: (group, person) => lookup(rows.standings, `${group} ${person}`),
    },
    now: () => rows.now,
    stopping: shutdown.signal,
    log: { info: () => undefined, warn: () => undefined },
  })
  const key = (id: string, more: Partial<ApiKey> = {}): Caller => {
    const born = {
      id,
      account: account.id,
      mode: 'live',
      group: null,
      expiresAt: null,
      revokedAt: null,
      paused: null,
    }
    const row = { ...born, ...more } as ApiKey
    rows.keys.set(id, row)
    return { account, key: row, standing: null, session: null, channel: 'api', mode: 'live' }
  }
  const session = (id: string): Caller => {
    rows.sessions.set(id, { id, account: account.id, expiresAt: 90_000_000, revokedAt: null } as Session)
    return { account, key: null, standing: null, session: id, channel: 'app', mode: 'live' }
  }
  const codeOf = ({ signal }: { readonly signal: AbortSignal }) =>
    signal.aborted ? (signal.reason as GatewayError).code : undefined
  const aborted = ({ signal }: { readonly signal: AbortSignal }) =>
    signal.aborted
      ? Promise.resolve()
      : new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
  return { rows, callers, shutdown, key, session, account, codeOf, aborted }
}

describe('running calls', () => {
  test('of a key that is revoked end, and no others', async () => {
    const { rows, callers, key, session, codeOf, aborted } = lab()
    const revoked = [await callers.enter(key('one')), await callers.enter(key('one'))]
    const others = [await callers.enter(key('two')), await callers.enter(session('three'))]
    rows.keys.set('one', { ...rows.keys.get('one')!, revokedAt: 999 })
    callers.onChanged()
    await Promise.all(revoked.map(aborted))
    expect([...revoked, ...others].map(codeOf)).toEqual([
      'api_key_revoked',
      'api_key_revoked',
      undefined,
      undefined,
    ])
  })

  test('of an account that is suspended end, whatever they were made with; after it was resumed new ones run', async () => {
    const { rows, callers, key, session, account, codeOf, aborted } = lab()
    const [one, two] = [key('one'), session('two')]
    const running = [await callers.enter(one), await callers.enter(two)]
    rows.accounts.set(account.id, { ...account, suspended: true })
    callers.onChanged()
    await Promise.all(running.map(aborted))
    expect(running.map(codeOf)).toEqual(['account_suspended', 'account_suspended'])
    await expect(callers.enter(one)).rejects.toMatchObject({ code: 'account_suspended' })
    rows.accounts.set(account.id, account)
    expect(codeOf(await callers.enter(one))).toBeUndefined()
  })

  test('of a session that is ended end', async () => {
    const { rows, callers, session, codeOf, aborted } = lab()
    const running = await callers.enter(session('one'))
    rows.sessions.set('one', { ...rows.sessions.get('one')!, revokedAt: 1_000 })
    callers.onChanged()
    await aborted(running)
    expect(codeOf(running)).toBe('api_key_revoked')
  })

  test('with a key that expires end when it does, though nothing was changed', async () => {
    const { rows, callers, key, codeOf, aborted } = lab()
    const running = await callers.enter(key('one', { expiresAt: 1_020 }))
    rows.now = 1_020
    await aborted(running)
    expect(codeOf(running)).toBe('api_key_expired')
  })

  test('end at a shutdown, and so do those that begin after it', async () => {
    const { callers, key, shutdown } = lab()
    const running = await callers.enter(key('one'))
    shutdown.abort()
    expect(running.signal.aborted).toBe(true)
    // No GatewayError: who reads it says that the gateway shuts down.
    expect(running.signal.reason).not.toBeInstanceOf(GatewayError)
    expect((await callers.enter(key('two'))).signal.aborted).toBe(true)
  })

  test('end also if nobody could be looked up when their key was revoked', async () => {
    const { rows, callers, key, codeOf, aborted } = lab()
    const running = await callers.enter(key('one'))
    rows.fault = new Error('the database cannot be read')
    rows.keys.set('one', { ...rows.keys.get('one')!, revokedAt: 999 })
    callers.onChanged()
    await Promise.resolve()
    rows.fault = undefined
    await aborted(running)
    expect(codeOf(running)).toBe('api_key_revoked')
  })
})

test('a call whose key has ended since it was authenticated does not begin', async () => {
  const { rows, callers, key } = lab()
  const caller = key('one')
  rows.keys.set('one', { ...rows.keys.get('one')!, revokedAt: 999 })
  await expect(callers.enter(caller)).rejects.toMatchObject({ code: 'api_key_revoked' })
})
