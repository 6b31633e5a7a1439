// A key that leaks is frozen, whoever notices it, and its owner is told; whoever reports learns nothing of any key.

import { describe, expect, test } from 'bun:test'
import { issueKey, type KeyPause, unlimited } from '../../src/accounts/account.ts'
import type { Mail } from '../../src/accounts/identity/mail.ts'
import type { Act } from '../../src/accounts/identity/identity-store.ts'
import type { SharedSightings } from '../../src/accounts/identity/sign-in-limits.ts'
import { isFrozen, issueManagementKey, KeyLeaks, KeyNetworks, KeyUse } from '../../src/accounts/key-leaks.ts'
import { type AccountEvent, keyFrozen } from '../../src/notify/webhook.ts'
import { openStore } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { tempDir } from '../support/tmp.ts'
import { until } from '../chat/lab.ts'

const minute = 60_000

/** A store with a key of Anna's, and what watches over it. */
async function lab(mostNetworks = 0, sightings?: Pick<SharedSightings, 'see' | 'forgetSeen'>) {
  const dir = tempDir('weir-leaks-')
  const store = await openStore(dir.join('data'), { clock: () => noon })
  const anna = await store.accounts.createAccount('anna@example.org')
  const rights = { ...unlimited, account: anna.id, name: 'Laptop', mode: 'live', group: null } as const
  const { key, text } = await issueKey(store.accounts, { ...rights, sees: 'own', expiresAt: null }, noon)
  const state = { now: noon, mailWorks: true }
  const sent: Mail[] = []
  const acts: Act[] = []
  const warned: string[] = []
  const events: AccountEvent[] = []
  const leaks = new KeyLeaks({
    accounts: store.accounts,
    managementKeys: store.managementKeys,
    acts: { record: (act) => void acts.push(act) },
    onFrozen: (key, cause, at) => void events.push(keyFrozen(key, cause, at)),
    mailer: () => ({
      send: (mail) =>
        state.mailWorks ? Promise.resolve(void sent.push(mail)) : Promise.reject(new Error('down')),
    }),
    consoleUrl: () => 'https://weir.example/console',
    mostNetworks: () => mostNetworks,
    sightings,
    log: { warn: (message) => void warned.push(message) },
    now: () => state.now,
  })
  const paused = async () => (await store.accounts.findKey(key.id))!.paused
  return {
    store,
    anna,
    key,
    text,
    leaks,
    state,
    sent,
    acts,
    events,
    warned,
    paused,
    /** What was reported before it is done as well: reports are worked on one after the other. */
    async report(reported: string) {
      leaks.onReport(reported, '203.0.113.7')
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
    },
    async [Symbol.asyncDispose]() {
      await store.close()
      dir.remove()
    },
  }
}

describe('a key that is reported', () => {
  test('is frozen, its owner is told, and the act is logged; once', async () => {
    await using found = await lab()
    await found.report(found.text)
    await found.report(found.text)
    await until(() => found.sent.length > 0)
    expect(await found.paused()).toEqual({ at: noon, by: 'leak' })
    expect(found.sent).toHaveLength(1)
    expect(found.sent[0]).toMatchObject({ to: 'anna@example.org', subject: 'A key of yours is frozen' })
    expect(found.sent[0]!.text).toContain(`"Laptop" (…${found.key.lastFour}) was reported`)
    expect(found.sent[0]!.text).not.toContain(found.text)
    const data = {
      key: found.key.id,
      name: 'Laptop',
      mode: 'live',
      last4: found.key.lastFour,
      reason: 'leak',
    }
    expect(found.events).toMatchObject([{ account: found.anna.id, type: 'key.frozen', at: noon, data }])
    expect(found.acts).toMatchObject([
      {
        operator: 'weir',
        what: 'key.freeze',
        subject: found.anna.id,
        after: { key: found.key.id, paused_by: 'leak' },
      },
    ])
  })

  test('stays as it is unless the whole key was found', async () => {
    await using found = await lab()
    const { text, key } = found
    const near = `${text.slice(0, -1)}${text.endsWith('a') ? 'b' : 'a'}`
    for (const guess of [near, key.id, text.slice(0, 20), '', `sk-weir-live-${key.id}`, '\0', `${text} `])
      await found.report(guess)
    expect([await found.paused(), found.sent, found.acts]).toEqual([null, [], []])
  })

  test.each<[KeyPause['by'], KeyPause['by']]>([
    ['owner', 'leak'],
    ['operator', 'operator'],
    ['networks', 'networks'],
  ])('and was paused (%s) is then paused by: %s', async (before, after) => {
    await using found = await lab()
    await found.store.accounts.pauseKey(found.key.id, { at: noon - minute, by: before })
    await found.report(found.text)
    await until(found.paused, (pause) => pause!.by === after)
    // Of what was frozen already its owner knows.
    await found.report(found.text)
    expect(found.acts).toHaveLength(before === 'networks' ? 0 : 1)
  })

  test('is frozen although no mail can be sent', async () => {
    await using found = await lab()
    found.state.mailWorks = false
    await found.report(found.text)
    await until(() => found.warned.length > 0)
    expect(found.warned).toEqual(['the owner of a frozen key could not be told by mail'])
    expect(isFrozen((await found.store.accounts.findKey(found.key.id))!)).toBe(true)
  })

  test('and is a management key is revoked', async () => {
    await using found = await lab()
    const wanted = {
      account: found.anna.id,
      name: 'CI',
      expiresAt: null,
      networks: null,
      scope: 'admin' as const,
    }
    const { key, text } = await issueManagementKey(found.store.managementKeys, wanted, noon)
    await found.report(`${text}x`)
    await found.report(text)
    await until(() => found.sent.length > 0)
    expect((await found.store.managementKeys.find(key.id))!.revokedAt).toBe(noon)
    expect(found.sent.map(({ subject }) => subject)).toEqual(['A management key of yours was revoked'])
  })

  test('cannot be looked for: each network may report twenty a minute, and all of them three hundred', async () => {
    await using found = await lab()
    const report = (address: string) => () => found.leaks.onReport('sk-weir-live-guess', address)
    for (let time = 0; time < 20; time++) report(`203.0.113.${time}`)()
    expect(report('203.0.113.200')).toThrow('Too many keys were reported')
    report('198.51.100.1')()
    for (let network = 0; network < 279; network++)
      report(`10.0.${network % 256}.${Math.floor(network / 256)}`)()
    expect(report('192.0.2.1')).toThrow('Too many keys were reported')
    found.state.now += minute + 1
    report('203.0.113.200')()
  })
})

describe('a key that is used from many networks', () => {
  test('within an hour is frozen; slowly, it is not', async () => {
    await using found = await lab(3)
    for (let network = 0; network < 10; network++) {
      found.leaks.onUsed(found.key.id, `10.0.${network}.0/24`)
      found.state.now += 21 * minute
    }
    expect(await found.paused()).toBeNull()
    for (let network = 0; network < 3; network++) {
      found.leaks.onUsed(found.key.id, `10.1.${network}.0/24`)
      found.state.now += minute
    }
    await until(found.paused, (pause) => pause !== null)
    expect(await found.paused()).toMatchObject({ by: 'networks' })
    await until(() => found.sent.length > 0)
    expect(found.sent[0]!.text).toContain('was used from more networks within an hour')
  })

  test('is frozen by what all gateways together have seen, and then begins anew', async () => {
    const seen: string[] = []
    await using found = await lab(2, {
      see: (what, name, at, since) => {
        seen.push(`${what === found.key.id} ${name} ${at - since}`)
        // Another gateway has seen one that this one has not.
        return Promise.resolve(seen.length + 1)
      },
      forgetSeen: () => Promise.resolve(void seen.push('forgotten')),
    })
    found.leaks.onUsed(found.key.id, '10.0.0.0')
    found.leaks.onUsed(found.key.id, '10.0.1.0')
    await until(() => seen.length === 3)
    expect(seen).toEqual(['true 10.0.0.0 3600000', 'true 10.0.1.0 3600000', 'forgotten'])
    expect(await found.paused()).toEqual({ at: noon, by: 'networks' })
  })

  test('is let be where no number is set', async () => {
    await using found = await lab(0)
    for (let network = 0; network < 50; network++) found.leaks.onUsed(found.key.id, `10.0.${network}.0/24`)
    await new Promise((resolve) => setImmediate(resolve))
    expect(await found.paused()).toBeNull()
  })

  test('begins anew when it was frozen, so that its owner can resume it', () => {
    const networks = new KeyNetworks()
    const use = (network: number) => networks.isBeyond('k', String(network), 2, noon)
    expect([use(1), use(2), use(1), use(3), use(1), use(2), use(3)]).toEqual([
      false,
      false,
      false,
      true,
      false,
      false,
      true,
    ])
  })

  test('is told of by networks and not by addresses, each once in a while; not with networks of its own', () => {
    const told: string[] = []
    const use = new KeyUse((key, network) => told.push(`${key} ${network}`))
    const key = { id: 'k', networks: null }
    for (const address of [
      '203.0.113.7',
      '203.0.113.8',
      '2001:db8:1:2::1',
      '2001:db8:1:ff00::1',
      '2001:db8:2::1',
    ])
      use.note(key, address)
    use.note({ id: 'bound', networks: ['10.0.0.0/8'] }, '10.0.0.1')
    expect(told).toEqual(['k 203.0.113.0/24', 'k 2001:db8:1::/48', 'k 2001:db8:2::/48'])
  })
})
