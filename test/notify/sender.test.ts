// Messages to webhooks: signed, tried again with growing pauses, kept over a restart, in the end given up.

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { requireSigned } from '../../src/payments/processor.ts'
import { sealer } from '../../src/accounts/account.ts'
import { type Post, Webhooks, WebhookSender } from '../../src/notify/webhook.ts'
import type { EventType } from '../../src/notify/events.ts'
import { openStore } from '../../src/store/open.ts'
import type { Store } from '../../src/store/store.ts'
import { tempDir } from '../support/tmp.ts'

const start = Date.UTC(2026, 10, 22, 12)
const masterKey = 'master-key-0123456789-abcdefghijklm'
const hour = 3_600_000

let dir: ReturnType<typeof tempDir>
let store: Store
let now: number
let webhooks: Webhooks
let taken: { url: string; headers: Headers; body: string; at: number }[]
let answer: () => Response | Promise<Response>

const post: Post = async (url, { headers, body }) => {
  taken.push({ url, headers, body, at: now })
  return answer()
}
const senderOf = () =>
  new WebhookSender({ store: store.webhooks, webhooks, post, timeoutMs: 1_000, now: () => now })

async function opened(): Promise<void> {
  store = await openStore(dir.join('data'), { clock: () => now })
  webhooks = new Webhooks(store.webhooks, sealer([masterKey]), () => now)
}

beforeEach(async () => {
  dir = tempDir('weir-webhooks-')
  now = start
  taken = []
  answer = () => new Response()
  await opened()
})
afterEach(async () => {
  await store.close()
  dir.remove()
})

const event = (source: string, type: EventType = 'balance.low') => ({
  account: 'acct_anna',
  type,
  source,
  at: now,
  data: { available_usd: '0.5', threshold_usd: '1' },
})
const add = (events: readonly EventType[] = ['balance.low'], url = 'https://example.org/hook') =>
  webhooks.add('acct_anna', { url, events })

test('a message is signed as Standard Webhooks has it, and sent once', async () => {
  const { secret, webhook } = await add()
  await store.webhooks.emit(event('one'))
  await store.webhooks.emit(event('one'))
  await store.webhooks.emit(event('other', 'key.created'))
  await store.webhooks.emit({ ...event('one'), account: 'acct_bert' })
  await senderOf().sendDue()
  await senderOf().sendDue()
  const [message] = taken
  expect(taken).toHaveLength(1)
  expect(JSON.parse(message!.body)).toEqual({
    type: 'balance.low',
    timestamp: new Date(start).toISOString(),
    data: { available_usd: '0.5', threshold_usd: '1' },
  })
  const raw = new TextEncoder().encode(message!.body)
  expect(() => requireSigned(raw, message!.headers, [secret], now)).not.toThrow()
  expect(() => requireSigned(raw, message!.headers, ['whsec_b3RoZXI='], now)).toThrow()
  expect(await store.webhooks.listDeliveries(webhook.id, 10)).toMatchObject([
    { state: 'delivered', nextAt: null, attempts: [{ status: 200, error: null }] },
  ])
})

test('one that is not taken is sent again with growing pauses, by the same id, and given up after nine', async () => {
  const { webhook } = await add()
  await store.webhooks.emit(event('one'))
  answer = () => new Response('a page', { status: 500 })
  const sender = senderOf()
  for (let round = 0; round < 200; round++) {
    await sender.sendDue()
    const [delivery] = await store.webhooks.listDeliveries(webhook.id, 1)
    if (delivery!.nextAt === null) break
    now = delivery!.nextAt
  }
  expect(taken).toHaveLength(10)
  expect(new Set(taken.map(({ headers }) => headers.get('webhook-id'))).size).toBe(1)
  expect(new Set(taken.map(({ body }) => body)).size).toBe(1)
  const pauses = taken.slice(1).map(({ at }, index) => at - taken[index]!.at)
  expect(pauses).toEqual([
    5_000,
    300_000,
    1_800_000,
    2 * hour,
    5 * hour,
    10 * hour,
    14 * hour,
    20 * hour,
    24 * hour,
  ])
  now += 1_000 * hour
  await sender.sendDue()
  expect(taken).toHaveLength(10)
  expect(await store.webhooks.listDeliveries(webhook.id, 1)).toMatchObject([
    {
      state: 'given_up',
      attempts: Array.from({ length: 10 }, () => ({ status: 500, error: 'the answer was 500' })),
    },
  ])
})

test('what waits survives a process that dies while it sends: it comes again, by the same id', async () => {
  await add()
  await store.webhooks.emit(event('one'))
  answer = () => new Promise(() => undefined)
  // This process never hears the answer.
  void senderOf().sendDue()
  await Bun.sleep(0)
  expect(taken).toHaveLength(1)
  await store.close()
  await opened()
  answer = () => new Response()
  await senderOf().sendDue()
  expect(taken).toHaveLength(1)
  now += 2_000
  await senderOf().sendDue()
  expect(taken).toHaveLength(2)
  expect(taken[1]!.headers.get('webhook-id')).toBe(taken[0]!.headers.get('webhook-id'))
})

test('an address that hangs holds up its own messages and nobody else’s', async () => {
  await add(['balance.low'], 'https://hangs.example/hook')
  await add(['balance.low'], 'https://example.org/hook')
  for (const source of ['one', 'two', 'three']) await store.webhooks.emit(event(source))
  let release = (_: Response) => undefined as void
  const hung = new Promise<Response>((resolve) => (release = resolve))
  const slowPost: Post = async (url, request) => {
    taken.push({ url, ...request, at: now })
    return url.includes('hangs') ? hung : new Response()
  }
  const sender = new WebhookSender({
    store: store.webhooks,
    webhooks,
    post: slowPost,
    timeoutMs: 1_000,
    now: () => now,
  })
  const first = sender.sendDue()
  for (let round = 0; round < 5; round++) {
    await Bun.sleep(0)
    void sender.sendDue()
  }
  await Bun.sleep(5)
  const to = (host: string) => taken.filter(({ url }) => url.includes(host)).length
  expect([to('hangs'), to('example.org')]).toEqual([1, 3])
  release(new Response())
  await first
})

test('410 ends it at once; no connection and no answer in time are attempts like others', async () => {
  const { webhook } = await add()
  await store.webhooks.emit(event('gone'))
  answer = () => new Response(null, { status: 410 })
  await senderOf().sendDue()
  await store.webhooks.emit(event('refused'))
  answer = () => Promise.reject(new Error('ECONNREFUSED'))
  await senderOf().sendDue()
  const states = (await store.webhooks.listDeliveries(webhook.id, 10)).map(({ state, attempts }) => [
    state,
    attempts[0]!.error,
  ])
  expect(states.toSorted()).toEqual([
    ['given_up', 'the answer was 410'],
    ['waiting', 'no connection'],
  ])
})

test('a deleted account is told of nothing more', async () => {
  const { id: account } = await store.accounts.createAccount('anna@example.org')
  const { webhook } = await webhooks.add(account, {
    url: 'https://example.org/hook',
    events: ['balance.low'],
  })
  await store.webhooks.emit({ ...event('one'), account })
  await store.identities.deleteAccount(account, now)
  await senderOf().sendDue()
  expect([taken, await store.webhooks.listDeliveries(webhook.id, 10), await webhooks.list(account)]).toEqual([
    [],
    [],
    [],
  ])
})

test('a removed webhook takes what waits for it along; without a master key none is added', async () => {
  const { webhook } = await add()
  await store.webhooks.emit(event('one'))
  expect(await webhooks.remove('acct_bert', webhook.id)).toBe(false)
  expect(await webhooks.remove('acct_anna', webhook.id)).toBe(true)
  await senderOf().sendDue()
  expect(taken).toEqual([])
  const keyless = new Webhooks(store.webhooks, undefined, () => now)
  await expect(
    keyless.add('acct_anna', { url: 'https://a.example', events: ['balance.low'] }),
  ).rejects.toMatchObject({
    code: 'unsupported_parameter',
  })
  for (const url of ['ftp://a.example', 'https://user:secret@a.example', 'nothing'])
    await expect(add(['balance.low'], url)).rejects.toMatchObject({ code: 'invalid_request' })
})

test('a request that arrives twice at once adds one webhook, whose secret is that of the first answer', async () => {
  const wanted = { url: 'https://a.example/hook', events: ['balance.low'] } as const
  const [first, second] = await Promise.allSettled(
    ['form', 'form'].map((request) => webhooks.add('acct_anna', wanted, request)),
  )
  expect(second).toMatchObject({ status: 'rejected', reason: { code: 'idempotency_conflict' } })
  if (first?.status !== 'fulfilled') throw new Error('the first was refused')
  const listed = await webhooks.list('acct_anna')
  expect(listed.map((webhook) => webhooks.secretOf(webhook))).toEqual([first.value.secret])
})

test('an account with many addresses that do not answer does not delay the messages of others', async () => {
  for (let at = 0; at < 20; at++)
    await webhooks.add('acct_mallory', { url: `https://tarpit.example/${at}`, events: ['balance.low'] })
  await add()
  for (let at = 0; at < 30; at++)
    await store.webhooks.emit({ ...event(`m${at}`), account: 'acct_mallory', at: now - 60_000 + at })
  await store.webhooks.emit(event('one'))
  const claimed = async (busy: readonly string[], room: number) =>
    (await store.webhooks.claimDue(now, now + hour, busy, room)).map(({ webhook }) => webhook)
  const hanging = await claimed([], 16)
  const [anna] = await webhooks.list('acct_anna')
  // Nobody had anything in flight: its first message comes among the first of both.
  expect(hanging.slice(0, 2)).toContain(anna!.id)
  const tarpits = hanging.filter((id) => id !== anna!.id)
  await store.webhooks.emit(event('two'))
  expect(await claimed(tarpits, 1)).toEqual([anna!.id])
})
