// What accounts have besides keys of calls, and what is sent of them, the same on both databases.

import { expect, test } from 'bun:test'
import type { ManagementKey } from '../../../src/accounts/key-leaks.ts'
import type { AccountEvent, WebhookRow } from '../../../src/notify/webhook.ts'
import { noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const twoAccounts = `INSERT INTO account (id, email, created_at, suspended) VALUES ('a','a@example.org',0,0), ('b','b@example.org',0,0)`

const keyOf = (id: string, account: string): ManagementKey => ({
  id,
  account,
  name: 'deploy',
  hash: 'ab',
  lastFour: '1234',
  createdAt: noon,
  expiresAt: null,
  revokedAt: null,
  networks: ['10.0.0.0/8'],
  scope: 'admin',
})

const webhookOf = (id: string, account: string, events: WebhookRow['events']): WebhookRow => ({
  id,
  account,
  url: 'https://example.org',
  events,
  sealed: new Uint8Array([1, 2]),
  createdAt: noon,
})

const eventOf = (account: string, source: string): AccountEvent<'key.created'> => ({
  account,
  type: 'key.created',
  source,
  at: noon,
  data: { key: source, name: 'a', mode: 'live', last4: '1234', replaces: null },
})

const said = {
  id: 'a',
  kind: 'user',
  userName: 'anna',
  externalId: 'x',
  attributes: { a: [1] },
  changedAt: noon,
} as const

describeOnBoth('records', (open, database) => {
  test('a management key is there once, and keeps the time of its first revocation', async () => {
    const { managementKeys, execute } = await open(() => noon)
    await execute(twoAccounts)
    expect(await managementKeys.insert(keyOf('k1', 'a'))).toBe(true)
    expect(await managementKeys.insert(keyOf('k1', 'b'))).toBe(false)
    await managementKeys.insert(keyOf('k2', 'b'))
    expect(await managementKeys.revoke('k1', noon)).toBe(true)
    await managementKeys.revoke('k1', noon + 1)
    expect(await managementKeys.revoke('k3', noon)).toBe(false)
    expect(await managementKeys.find('k1')).toEqual({ ...keyOf('k1', 'a'), revokedAt: noon })
    expect((await managementKeys.list()).map(({ id }) => id)).toEqual(['k1', 'k2'])
    expect((await managementKeys.list('a')).map(({ id }) => id)).toEqual(['k1'])
    await managementKeys.remove('k1')
    expect(await managementKeys.find('k1')).toBeUndefined()
  })

  test('acts are found by what they are, the newest first', async () => {
    const { acts } = await open(() => noon)
    for (const what of ['key.revoke', 'key.pause', 'keyring', 'account.suspend'])
      await acts.record({ at: noon, operator: 'op', what, subject: 's', before: null, after: { what } })
    const found = await acts.page(10, undefined, { what: 'key' })
    expect(found.map(({ what }) => what)).toEqual(['key.pause', 'key.revoke'])
    expect(found[0]).toMatchObject({ operator: 'op', before: null, after: { what: 'key.pause' }, at: noon })
    expect(await acts.page(10, found[1]!.seq)).toEqual([])
    expect((await acts.page(1)).map(({ what }) => what)).toEqual(['account.suspend'])
  })

  test('of two who add a revision of the settings one is first, and its act alone is logged', async () => {
    const { settings, acts } = await open(() => noon)
    const row = { revision: 1, at: noon, operator: 'op', before: 0, settings: '{}', sealed: null }
    const act = { at: noon, operator: 'op', what: 'settings.change', subject: '1', before: null, after: null }
    expect(await settings.revision()).toBe(0)
    const both = await Promise.all([settings.append(row, act, 5), settings.append(row, act, 5)])
    expect(both.toSorted()).toEqual([false, true])
    expect(await acts.page(10)).toHaveLength(1)
    for (let revision = 2; revision < 9; revision++) await settings.append({ ...row, revision }, act, 5)
    expect(await settings.latest()).toMatchObject({ revision: 8, before: 0 })
    expect(await settings.revision()).toBe(8)
    expect(await settings.find(3)).toBeUndefined()
    expect(await settings.find(4)).toMatchObject({ revision: 4 })
  })

  test('a registered server is replaced by name', async () => {
    const { mcpServers, execute } = await open(() => noon)
    await execute(twoAccounts)
    const row = {
      account: 'a',
      name: 's',
      url: 'https://example.org',
      sealed: null,
      createdAt: noon,
      changedAt: noon,
    }
    await mcpServers.put(row)
    await mcpServers.put({ ...row, url: 'https://example.com', createdAt: noon + 9, changedAt: noon + 9 })
    expect(await mcpServers.list('a')).toEqual([
      { ...row, url: 'https://example.com', createdAt: noon, changedAt: noon + 9 },
    ])
    expect(await mcpServers.remove('a', 's')).toBe(true)
    expect(await mcpServers.find('a', 's')).toBeUndefined()
  })

  test('changes of an account by directories are made one at a time, whichever process is asked, each with what the one before has made', async () => {
    const one = await open(() => noon)
    const two = await one.beside()
    await one.execute(twoAccounts)
    await one.provisioning.put({ ...said, attributes: { changes: 0 } })
    let atWork = 0
    const change = ({ provisioning, accounts }: Pick<typeof two, 'provisioning' | 'accounts'>) =>
      provisioning.changeAlone('a', async () => {
        expect(++atWork).toBe(1)
        const { attributes } = (await provisioning.find('a'))!
        const changes = Number(attributes['changes'])
        // Each process has the account of before in memory.
        const { suspended } = (await accounts.findAccount('a'))!
        expect(suspended).toBe(changes % 2 === 1)
        await (suspended ? accounts.resume('a') : accounts.suspend('a'))
        await provisioning.put({ ...said, attributes: { changes: changes + 1 } })
        atWork--
      })
    await Promise.all(Array.from({ length: 8 }, (_, n) => change(n % 2 ? one : two)))
    expect((await two.provisioning.find('a'))?.attributes).toEqual({ changes: 8 })
    // One that fails is over as well, and another account waits for nobody.
    const fails = one.provisioning.changeAlone('a', () =>
      two.provisioning.changeAlone('b', () => Promise.reject(new Error('it is full'))),
    )
    expect(await fails.catch(String)).toBe('Error: it is full')
    await change(two)
    if (database === 'SQLite') return
    // Of a process that has ended meanwhile nothing is left.
    await one.execute(
      `INSERT INTO upkeep (name, at, value) VALUES ('change a', ${noon - 60_000}, '{"owner":"gone","turn":"1"}')`,
    )
    await change(two)
  })

  test('what a directory says of an account is found by each of its names', async () => {
    const { provisioning } = await open(() => noon)
    await provisioning.put({ ...said, userName: 'ann' })
    await provisioning.put(said)
    expect(await provisioning.find('a')).toEqual(said)
    expect(await provisioning.byUserName('anna')).toBe('a')
    expect(await provisioning.byUserName('ann')).toBeUndefined()
    expect(await provisioning.byExternalId('x', 'group')).toBeUndefined()
    expect(await provisioning.byExternalId('x', 'user')).toBe('a')
  })

  test('an event is queued once for each webhook that wants it', async () => {
    const { webhooks } = await open(() => noon)
    await webhooks.addWebhook(webhookOf('w1', 'a', ['key.created', 'top_up.credited']))
    await webhooks.addWebhook(webhookOf('w2', 'a', ['top_up.credited']))
    await webhooks.addWebhook(webhookOf('w3', 'b', ['key.created']))
    for (let n = 0; n < 2; n++) await webhooks.emit(eventOf('a', 'key.created:1'))
    await webhooks.emit(eventOf('c', 'key.created:1'))
    expect(await webhooks.listDeliveries('w1', 9)).toMatchObject([
      { type: 'key.created', state: 'waiting', nextAt: noon, attempts: [] },
    ])
    expect(await webhooks.listDeliveries('w2', 9)).toEqual([])
    expect(await webhooks.lastSource('a', 'key.created')).toBe('key.created:1')
    expect(await webhooks.lastSource('b', 'key.created')).toBeUndefined()
    expect(await webhooks.accountsWanting(['key.created'], '', 9)).toEqual(['a', 'b'])
    expect(await webhooks.accountsWanting(['key.created'], 'a', 9)).toEqual(['b'])
    expect(await webhooks.accountsWanting(['key.created'], '', 1)).toEqual(['a'])
  })

  test('accounts take turns with what is due, and nothing is taken twice', async () => {
    const { webhooks } = await open(() => noon)
    for (const [id, account] of [
      ['w1', 'a'],
      ['w2', 'a'],
      ['w3', 'b'],
    ] as const)
      await webhooks.addWebhook(webhookOf(id, account, ['key.created']))
    for (const account of ['a', 'b']) await webhooks.emit(eventOf(account, 'key.created:1'))
    expect((await webhooks.claimDue(noon, noon + 60, ['w1'], 1)).map(({ webhook }) => webhook)).toEqual([
      'w3',
    ])
    const claims = await Promise.all([1, 2, 3].map(() => webhooks.claimDue(noon, noon + 60, [], 9)))
    expect(
      claims
        .flat()
        .map(({ webhook }) => webhook)
        .toSorted(),
    ).toEqual(['w1', 'w2'])
    expect(await webhooks.claimDue(noon + 59, noon + 99, [], 9)).toEqual([])
    const again = await webhooks.claimDue(noon + 60, noon + 99, [], 9)
    expect(again).toHaveLength(3)
    for (const { id } of again)
      await webhooks.conclude(id, { state: 'delivered', nextAt: null, attempts: [] })
    expect(await webhooks.forgetDeliveries(noon + 1, 2)).toBe(2)
    expect(await webhooks.removeWebhook('b', 'w1')).toBe(false)
  })
})
