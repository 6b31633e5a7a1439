// How people sign in, as it is kept, the same on both databases: what is used up, removed or claimed by many at once.

import { expect, test } from 'bun:test'
import type { Account } from '../../../src/accounts/account.ts'
import {
  type IdentityStore,
  mintTicket,
  type Passkey,
  ticketIdOf,
  ticketLife,
  type UsableWays,
} from '../../../src/accounts/identity/identity-store.ts'
import { type CreditClaim, dayMs, startOfDay, welcomeGrant, Welcomes } from '../../../src/credits/calendar.ts'
import { usd } from '../../../src/credits/money.ts'
import { noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const many = Array.from({ length: 12 }, (_, n) => n)
const onlyWay = 'This is the only way to sign in to the account. Set a password first.'
const lastOperator = 'This is the last operator of this gateway.'

const accounts = (ids: readonly string[], role = 'user') =>
  `INSERT INTO account (id, email, created_at, suspended, role) VALUES ${ids
    .map((id) => `('${id}', '${id}@example.org', 0, 0, '${role}')`)
    .join(', ')}`

const sessions = (account: string, ids: readonly string[], expiresAt: number) =>
  `INSERT INTO session (id, account, hash, last_four, created_at, expires_at, user_agent) VALUES ${ids
    .map((id) => `('${id}', '${account}', 'ab', '1234', 0, ${expiresAt}, 'a browser')`)
    .join(', ')}`

const passkeyOf = (account: string, id = 'credential'): Passkey => ({
  id,
  account,
  publicKey: new Uint8Array([1, 2, 3]),
  counter: 4,
  transports: ['internal'],
  name: 'laptop',
  backedUp: true,
  createdAt: noon,
  lastUsedAt: null,
})

const identityOf = (subject: string) => ({ issuer: 'https://id.example.org', subject })
const anyWay: UsableWays = { passwords: true, passkeys: true, issuer: 'https://id.example.org/' }

/** How often each answer was given; of what was refused, the message. */
async function tally(answers: readonly (() => unknown)[]): Promise<Record<string, number>> {
  const given = await Promise.all(
    answers.map(async (answer) => {
      try {
        return String(await answer())
      } catch (error) {
        return (error as Error).message
      }
    }),
  )
  return Object.fromEntries(
    [...new Set(given)].toSorted().map((each) => [each, given.filter((other) => other === each).length]),
  )
}

describeOnBoth('identities', (open) => {
  test('a ticket is used once, whoever else has it', async () => {
    const { identities } = await open(() => noon)
    const { ticket, text } = mintTicket('link', 'anna', noon, { email: 'anna@example.org' })
    expect(text).toMatch(/^wt-weir-[0-9A-Za-z]{12}-[0-9A-Za-z]{39}$/)
    expect(ticketIdOf(text)).toBe(ticket.id)
    await identities.insertTicket(ticket)
    for (const wrong of [
      { kind: 'reset' },
      { hash: mintTicket('link', null, noon).ticket.hash },
      { now: noon + ticketLife.link },
      { id: 'unknownticke' },
    ] as const) {
      const { id, hash, kind, now } = { ...ticket, now: noon, ...wrong }
      expect(await identities.findTicket(id, hash, kind, now)).toBeUndefined()
      expect(await identities.useTicket(id, hash, kind, now)).toBeUndefined()
    }
    expect(await identities.findTicket(ticket.id, ticket.hash, 'link', noon)).toEqual(ticket)
    const used = await Promise.all(many.map(() => identities.useTicket(ticket.id, ticket.hash, 'link', noon)))
    expect(used.filter((each) => each !== undefined)).toEqual([ticket])
    expect(await identities.findTicket(ticket.id, ticket.hash, 'link', noon)).toBeUndefined()
  })

  test('a ticket is dropped when a newer one takes its place, and swept when its time is over', async () => {
    const { identities } = await open(() => noon)
    const [first, second, reset] = (['link', 'link', 'reset'] as const).map(
      (kind) => mintTicket(kind, 'anna', noon).ticket,
    )
    for (const each of [first!, reset!]) await identities.insertTicket(each)
    await identities.dropTickets('anna', 'link')
    await identities.insertTicket(second!)
    expect(await identities.useTicket(first!.id, first!.hash, 'link', noon)).toBeUndefined()
    expect(await identities.findTicket(second!.id, second!.hash, 'link', noon)).toEqual(second)
    expect(await identities.sweep(noon + ticketLife.link)).toBe(1)
    expect(await identities.findTicket(second!.id, second!.hash, 'link', noon)).toBeUndefined()
    expect(await identities.useTicket(reset!.id, reset!.hash, 'reset', noon)).toEqual(reset)
  })

  test('a session goes on while it is used, and ends with a new password', async () => {
    const { identities, execute } = await open(() => noon)
    await execute(accounts(['anna']))
    await execute(sessions('anna', ['one', 'two', 'three'], noon + dayMs))
    await execute(sessions('anna', ['lapsed'], noon))
    await identities.touchSession('one', noon + 5, noon + 2 * dayMs)
    await identities.elevateSession('two', noon + 9)
    const opened = await identities.openSessions('anna', noon)
    expect(opened).toMatchObject([
      { id: 'one', seenAt: noon + 5, expiresAt: noon + 2 * dayMs, userAgent: 'a browser', idleMs: null },
      { id: 'three', elevatedUntil: null },
      { id: 'two', elevatedUntil: noon + 9 },
    ])
    await identities.endSessions('anna', noon, 'two')
    expect((await identities.openSessions('anna', noon)).map(({ id }) => id)).toEqual(['two'])
    expect(await identities.passwordOf('anna')).toBeNull()
    await identities.setPassword('anna', 'a hash', noon)
    expect(await identities.passwordOf('anna')).toBe('a hash')
    expect(await identities.passwordOf('berta')).toBeNull()
    expect(await identities.openSessions('anna', noon)).toEqual([])
  })

  test('a passkey signs with a counter that goes on; of its copies one counts', async () => {
    const { identities } = await open(() => noon)
    const inserted = await tally(many.map((n) => () => identities.insertPasskey(passkeyOf(`a${n}`))))
    expect(inserted).toEqual({ true: 1, false: 11 })
    const kept = await identities.findPasskey('credential')
    expect(kept).toEqual(passkeyOf(kept!.account))
    const used = many.map((n) => () => identities.usedPasskey('credential', 4, 5 + n, noon))
    expect(await tally(used)).toEqual({ true: 1, false: 11 })
    expect(await identities.renamePasskey('other', 'credential', 'mine')).toBe(false)
    expect(await identities.renamePasskey(kept!.account, 'credential', 'desk')).toBe(true)
    expect(await identities.listPasskeys(kept!.account)).toMatchObject([{ name: 'desk', lastUsedAt: noon }])
    expect(await identities.findPasskey('other')).toBeUndefined()
  })

  test("an identity and an address are one account's, however many want them at once", async () => {
    const { identities, execute } = await open(() => noon)
    const ids = many.map((n) => `a${n}`)
    await execute(accounts(ids))
    expect(await identities.findIdentity(identityOf('17'))).toBeUndefined()
    const linked = ids.map((id) => () => identities.linkIdentity(identityOf('17'), id, noon))
    expect(await tally(linked)).toEqual({ true: 1, false: 11 })
    const owner = (await identities.findIdentity(identityOf('17')))!
    expect(owner).toMatchObject({ email: `${owner.id}@example.org`, role: 'user', verifiedAt: null })
    expect(await identities.listIdentities(owner.id)).toEqual([{ ...identityOf('17'), linkedAt: noon }])
    expect(await identities.findIdentity({ ...identityOf('17'), issuer: 'https://other' })).toBeUndefined()
    const moved = await tally(ids.map((id) => () => identities.changeAddress(id, 'new@example.org')))
    expect(moved).toEqual({ undefined: 1, 'This e-mail address has an account.': 11 })
    for (const at of [noon, noon + 1]) await identities.verifyEmail(owner.id, at)
    expect(await identities.findIdentity(identityOf('17'))).toMatchObject({ verifiedAt: noon })
  })

  test('an account keeps one way in, when all are removed at once', async () => {
    const { identities, execute } = await open(() => noon)
    await execute(accounts(['anna', 'berta']))
    for (const n of many) {
      if (n % 2 === 0) await identities.insertPasskey(passkeyOf('anna', `p${n}`))
      else await identities.linkIdentity(identityOf(`s${n}`), 'anna', noon)
    }
    const removed = many.map(
      (n) => () =>
        n % 2 === 0
          ? identities.deletePasskey('anna', `p${n}`, anyWay)
          : identities.unlinkIdentity(identityOf(`s${n}`), 'anna', anyWay),
    )
    expect(await tally(removed)).toEqual({ [onlyWay]: 1, true: 11 })
    const left = [...(await identities.listPasskeys('anna')), ...(await identities.listIdentities('anna'))]
    expect(left).toHaveLength(1)
    expect(await identities.deletePasskey('berta', 'p0', anyWay)).toBe(false)
    expect(await identities.unlinkIdentity(identityOf('s1'), 'berta', anyWay)).toBe(false)
  })

  test('what this gateway cannot check is no way in', async () => {
    const { identities, execute } = await open(() => noon)
    await execute(accounts(['anna']))
    await identities.insertPasskey(passkeyOf('anna', 'first'))
    await identities.insertPasskey(passkeyOf('anna', 'second'))
    await identities.linkIdentity({ issuer: 'https://id.example.org/', subject: 's' }, 'anna', noon)
    const none: UsableWays = { passwords: false, passkeys: false, issuer: undefined }
    const remove = (usable: UsableWays) => async () => await identities.deletePasskey('anna', 'first', usable)
    await expect(remove(none)).toThrow(onlyWay)
    await expect(remove({ ...none, issuer: 'https://other.example.org' })).toThrow(onlyWay)
    await identities.setPassword('anna', 'a hash', noon)
    await expect(remove(none)).toThrow(onlyWay)
    expect(await identities.listPasskeys('anna')).toHaveLength(2)
    expect(await identities.deletePasskey('anna', 'first', { ...none, passkeys: true })).toBe(true)
    const last = (usable: UsableWays) => identities.deletePasskey('anna', 'second', usable)
    expect(await last({ ...none, issuer: 'https://id.example.org' })).toBe(true)
    const unlink = { issuer: 'https://id.example.org/', subject: 's' }
    expect(await identities.unlinkIdentity(unlink, 'anna', { ...none, passwords: true })).toBe(true)
  })

  test('an operator stays, when all demote, suspend and delete each other at once', async () => {
    const { identities, execute } = await open(() => noon)
    const ids = many.map((n) => `a${n}`)
    await execute(accounts(ids, 'operator'))
    for (const id of ids) await identities.linkIdentity(identityOf(id), id, noon)
    const acts = [
      (id: string) => identities.demote(id, noon),
      (id: string) => identities.suspend(id),
      (id: string) => identities.deleteAccount(id, noon),
    ]
    const removed = await tally(ids.map((id, n) => () => acts[n % acts.length]!(id)))
    expect(removed[lastOperator]).toBe(1)
    const { id: left } = await lastOf(identities, ids)
    await expect(async () => await identities.demote(left, noon)).toThrow(lastOperator)
    expect(await identities.setRole(left, 'user', noon)).toBe(true)
    expect(await identities.setRole(left, 'user', noon)).toBe(false)
    await identities.demote(left, noon)
    expect(await identities.suspend(left)).toBe(true)
    expect(await identities.suspend('nobody')).toBe(false)
  })

  test('a deleted account is gone with every way into it, and its address is free again', async () => {
    const { identities, conversations, mcpServers, provisioning, execute } = await open(() => noon)
    await execute(accounts(['anna', 'berta']))
    await execute(sessions('anna', ['one'], noon + dayMs))
    const talk = { id: 'conv', account: 'anna', title: 'Us', model: null, lastResponse: null }
    const unplaced = { folder: null, pinned: false, settings: null, share: null }
    await conversations.add({ ...talk, ...unplaced, createdAt: noon, updatedAt: noon }, 10)
    const server = { account: 'anna', name: 'wiki', url: 'https://mcp.example.com', sealed: null }
    await mcpServers.put({ ...server, createdAt: noon, changedAt: noon })
    const said = {
      kind: 'user',
      userName: 'anna',
      externalId: null,
      attributes: {},
      changedAt: noon,
    } as const
    await provisioning.put({ ...said, id: 'anna' })
    const { ticket } = mintTicket('verification', 'anna', noon)
    await identities.insertTicket(ticket)
    await identities.insertPasskey(passkeyOf('anna'))
    await identities.linkIdentity(identityOf('17'), 'anna', noon)
    await identities.setPassword('anna', 'a hash', noon)
    await execute(sessions('anna', ['two'], noon + dayMs))
    expect(await identities.accessOf('anna', noon)).toMatchObject({
      password: 1,
      passkeys: 1,
      identities: 1,
      sessions: 1,
      mcp_servers: 1,
      conversations: 1,
    })
    await identities.deleteAccount('anna', noon + 1)
    expect(Object.values(await identities.accessOf('anna', noon))).toEqual(Array(10).fill(0))
    expect(await identities.findTicket(ticket.id, ticket.hash, 'verification', noon)).toBeUndefined()
    expect(await provisioning.find('anna')).toBeUndefined()
    await identities.linkIdentity(identityOf('17'), 'anna', noon)
    const gone = { email: 'anna@deleted.invalid', suspended: true }
    expect(await identities.findIdentity(identityOf('17'))).toMatchObject(gone)
    expect(await identities.suspend('anna')).toBe(false)
    await identities.changeAddress('anna', 'x@example.org')
    expect(await identities.findIdentity(identityOf('17'))).toMatchObject(gone)
    await identities.changeAddress('berta', 'anna@example.org')
  })

  test('a day welcomes no more than its limit, and each address one account, however many come at once', async () => {
    const { identities } = await open(() => noon)
    const claim = { day: startOfDay(noon), amount: usd('0.5'), cap: usd(2) }
    const of = (account: string, address: string, more: Partial<CreditClaim> = {}) =>
      identities.claimWelcome({ ...claim, account, address, ...more })
    expect(await tally(many.map((n) => () => of(`a${n}`, 'one')))).toEqual({ claimed: 1, taken: 11 })
    expect(await tally(many.map((n) => () => of(`a${n}`, `of ${n}`)))).toEqual({ claimed: 3, capped: 9 })
    const again = await tally(many.map((n) => () => of(`a${n}`, `of ${n}`)))
    expect(again).toEqual({ repeated: 3, capped: 9 })
    // One that had its credit before does not count.
    await identities.returnWelcome('one')
    expect(await of('berta', 'of berta')).toBe('claimed')
    expect(await of('carla', 'of carla')).toBe('capped')
    expect(await of('carla', 'of carla', { day: claim.day + dayMs })).toBe('claimed')
  })

  test('a day allows no more than its limit, and each address one account, however many come at once', async () => {
    const { identities } = await open(() => noon)
    const claim = { day: startOfDay(noon), amount: usd('0.2'), cap: usd('0.8') }
    const of = (account: string, address: string, more: Partial<CreditClaim> = {}) =>
      identities.claimAllowance({ ...claim, account, address, ...more })
    expect(await tally(many.map((n) => () => of(`a${n}`, 'one')))).toEqual({ claimed: 1, taken: 11 })
    expect(await tally(many.map((n) => () => of(`a${n}`, `of ${n}`)))).toEqual({ claimed: 3, capped: 9 })
    const later = { day: claim.day + dayMs }
    const next = await tally(many.map((n) => () => of(`a${n}`, `of ${n}`, later)))
    expect(next).toEqual({ claimed: 4, capped: 8 })
    const same = await tally(many.map((n) => () => of(`a${n}`, `of ${n}`, later)))
    expect(same).toEqual({ repeated: 4, capped: 8 })
    const last = { day: later.day + dayMs }
    expect(await of('a0', 'one', last)).toBe('claimed')
    // The clock has gone back.
    expect(await of('a0', 'one')).toBe('taken')
  })

  test('the welcome credit is granted once to an address, and counts for the day it is given', async () => {
    let now = noon
    const { identities, ledger } = await open(() => now)
    const free = async (account: string) =>
      (await ledger.balance(account)).lots.reduce((sum, lot) => sum + lot.remaining, 0n)
    await ledger.grant(welcomeGrant('old'))
    const claim = { address: 'of anna', account: 'anna', day: startOfDay(noon), amount: usd('0.5') }
    // Its process died before the grant.
    await identities.claimWelcome({ ...claim, cap: usd(1) })
    const welcomes = () => new Welcomes(identities, ledger, usd(1), () => now)
    await Promise.all([welcomes(), welcomes()].map((each) => each.ensure('anna', 'of anna')))
    const first = welcomes()
    // What was granted before there were claims takes nothing from the day.
    for (const name of ['old', 'again', 'berta', 'carla'])
      await first.ensure(name, name === 'again' ? 'of anna' : `of ${name}`)
    const given = await Promise.all(['anna', 'old', 'again', 'berta', 'carla'].map(free))
    expect(given).toEqual([usd('0.5'), usd('0.5'), 0n, usd('0.5'), 0n])
    // A restart forgets nothing of what the day has given.
    await welcomes().ensure('carla', 'of carla')
    expect(await free('carla')).toBe(0n)
    now += dayMs
    await first.ensure('carla', 'of carla')
    expect(await free('carla')).toBe(usd('0.5'))
  })
})

/** The one that is left of operators that have removed each other. */
async function lastOf(identities: IdentityStore, ids: readonly string[]): Promise<Account> {
  const left: Account[] = []
  for (const id of ids) {
    // The identity of a deleted one is gone.
    const account = await identities.findIdentity(identityOf(id))
    if (account?.role === 'operator' && !account.suspended) left.push(account)
  }
  expect(left).toHaveLength(1)
  return left[0]!
}
