// Sign-in data on both databases: what it gives, and that of two who come at once one is refused.

import { expect, test } from 'bun:test'
import { mintTicket } from '../../../src/accounts/identity/identity-store.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { usd } from '../../../src/credits/money.ts'
import { day, noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const clock = () => noon
const usable = { passwords: true, passkeys: true, issuer: undefined }
const passkeyOf = (id: string, account: string) => ({
  id,
  account,
  publicKey: new Uint8Array([1]),
  counter: 1,
  transports: ['usb'],
  name: id,
  backedUp: true,
  createdAt: noon,
  lastUsedAt: null,
})

describeOnBoth('identity store', (open) => {
  test('passwords, tickets, sessions, passkeys and identities come back as they were kept', async () => {
    const { accounts, identities } = await open(clock)
    const { id } = await accounts.createAccount('anna@example.org')
    await identities.setPassword(id, 'a hash', noon)
    expect(await identities.passwordOf(id)).toBe('a hash')
    const { ticket } = mintTicket('reset', id, noon)
    await identities.insertTicket(ticket)
    expect(await identities.findTicket(ticket.id, ticket.hash, 'reset', noon)).toEqual(ticket)
    expect(await identities.useTicket(ticket.id, ticket.hash, 'reset', noon)).toEqual(ticket)
    expect(await identities.useTicket(ticket.id, ticket.hash, 'reset', noon)).toBeUndefined()
    expect(await identities.insertPasskey(passkeyOf('k', id))).toBe(true)
    expect(await identities.insertPasskey(passkeyOf('k', id))).toBe(false)
    expect(await identities.listPasskeys(id)).toEqual([passkeyOf('k', id)])
    expect(await identities.usedPasskey('k', 1, 2, noon)).toBe(true)
    const identity = { issuer: 'https://id.example', subject: 's' }
    expect(await identities.linkIdentity(identity, id, noon)).toBe(true)
    expect(await identities.linkIdentity(identity, id, noon)).toBe(false)
    expect(await identities.findIdentity(identity)).toMatchObject({ id })
    expect(await identities.accessOf(id, noon)).toMatchObject({ password: 1, passkeys: 1, identities: 1 })
    await accounts.createAccount('bert@example.org')
    const taken = await Promise.try(() => identities.changeAddress(id, 'bert@example.org')).catch(
      (error: unknown) => error,
    )
    expect(taken).toBeInstanceOf(GatewayError)
    expect(await identities.setRole(id, 'operator', noon)).toBe(true)
    expect(await identities.accessOf(id, noon)).toMatchObject({ passkeys: 0, identities: 0 })
    expect(await identities.sweep(noon + 30 * day)).toBe(1)
  })

  test('of two operators who remove each other, and of two last ways in, one stays', async () => {
    const { accounts, identities } = await open(clock)
    for (let round = 0; round < 3; round++) {
      const both = await Promise.all(
        ['a', 'b'].map((name) => accounts.createAccount(`${name}${round}@example.org`, { role: 'operator' })),
      )
      const outcomes = await Promise.allSettled(
        both.map(({ id }) => Promise.try(() => identities.demote(id, noon))),
      )
      const refused = outcomes.filter(({ status }) => status === 'rejected').length
      // In the first round nobody else is an operator; later the one who stayed is.
      expect(refused).toBe(round === 0 ? 1 : 0)
    }
    const { id } = await accounts.createAccount('carl@example.org')
    await identities.insertPasskey(passkeyOf('one', id))
    await identities.insertPasskey(passkeyOf('two', id))
    const removed = await Promise.allSettled(
      ['one', 'two'].map((key) => Promise.try(() => identities.deletePasskey(id, key, usable))),
    )
    expect(removed.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect(await identities.listPasskeys(id)).toHaveLength(1)
  })

  test('the credit of a day is given up to its cap and no further, once for each address', async () => {
    const { identities } = await open(clock)
    const claim = (address: string, account: string) => ({
      address,
      account,
      day: noon,
      amount: usd('0.5'),
      cap: usd(2),
    })
    const addresses = Array.from({ length: 8 }, (_, n) => `p${n}@example.org`)
    for (const kind of ['claimWelcome', 'claimAllowance'] as const) {
      const answers = await Promise.all(
        addresses.map((address) => Promise.try(() => identities[kind](claim(address, address)))),
      )
      expect(answers.filter((answer) => answer === 'claimed')).toHaveLength(4)
      expect(answers.filter((answer) => answer === 'capped')).toHaveLength(4)
      const first = addresses[answers.indexOf('claimed')]!
      expect(await identities[kind](claim(first, first))).toBe('repeated')
      expect(await identities[kind](claim(first, 'another'))).toBe('taken')
    }
  })
})
