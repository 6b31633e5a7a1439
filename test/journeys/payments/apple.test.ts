// The App Store's notifications: the pinned root, the app and the environment, and what each of them comes to.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHash, createPrivateKey, type JsonWebKey, sign } from 'node:crypto'
import { appAccountToken } from '../../../src/payments/apple.ts'
import chains from '../../fixtures/payments/apple-chains.json'
import { day } from '../../credits/support.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { answerOf, Payer, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

interface Chain {
  readonly x5c: readonly string[]
  readonly key: object
}

/** Certificates made for these tests, each chain with a root of its own. */
const { good, other, unmarked }: Record<'good' | 'other' | 'unmarked', Chain> = chains
const fingerprint = ({ x5c }: Chain) =>
  createHash('sha256').update(Buffer.from(x5c[2]!, 'base64')).digest('hex')
const configFor = (chain: Chain) => `local_servers: { discover: false }
subscriptions:
  apple: { bundle_id: org.example.app, root_sha256: "${fingerprint(chain)}" }
  products: { premium_month: { credit_usd: "5", months: 1 } }
`

let weir: ServedWeir
let names = 0

beforeAll(async () => {
  weir = await serveWeir({ config: configFor(good) })
})
afterAll(() => weir?.stop())

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

function signed(payload: object, { x5c, key }: Chain = good, alg = 'ES256'): string {
  const text = `${part({ alg, x5c })}.${part(payload)}`
  const privateKey = createPrivateKey({ key: key as JsonWebKey, format: 'jwk' })
  return `${text}.${sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`
}

const now = Date.now()

function transactionOf(anna: Payer, more: object = {}) {
  return {
    bundleId: 'org.example.app',
    environment: 'Production',
    originalTransactionId: `2000000${anna.account.slice(-6)}`,
    transactionId: '20000001',
    productId: 'premium_month',
    purchaseDate: now - day,
    expiresDate: now + 20 * day,
    appAccountToken: appAccountToken(anna.account),
    type: 'Auto-Renewable Subscription',
    ...more,
  }
}

function notificationOf(type: string, transaction: string, data: object = {}) {
  const [notificationType, subtype] = type.split(':')
  return {
    notificationType,
    ...(subtype === undefined ? {} : { subtype }),
    notificationUUID: crypto.randomUUID(),
    version: '2.0',
    signedDate: now,
    data: {
      bundleId: 'org.example.app',
      environment: 'Production',
      signedTransactionInfo: transaction,
      ...data,
    },
  }
}

async function post(signedPayload: unknown, server: Pick<ServedWeir, 'origin'> = weir) {
  const response = await fetch(`${server.origin}/hooks/subscriptions/apple`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ signedPayload }),
  })
  return answerOf(response)
}

const tell = (anna: Payer, type: string, more: object = {}) =>
  post(signed(notificationOf(type, signed(transactionOf(anna, more)))))

async function subscriptionOf(anna: Payer): Promise<string | undefined> {
  const { json } = await anna.send('GET', '/app/v1/credits')
  const { pools } = json['data'] as { pools: { type: string; remaining: string }[] }
  return pools.find(({ type }) => type === 'subscription')?.remaining
}

const payer = () => Payer.of(weir, `reader${++names}`)
const bad = { status: 400, code: 'bad_signature' }

describe('a notification', () => {
  test('that somebody has subscribed is a period of credit, once', async () => {
    const anna = await payer()
    const notification = signed(notificationOf('SUBSCRIBED:INITIAL_BUY', signed(transactionOf(anna))))
    for (let again = 0; again < 3; again++)
      expect(await post(notification)).toMatchObject({ status: 200, json: { outcome: 'applied' } })
    await tell(anna, 'DID_RENEW')
    expect(await subscriptionOf(anna)).toBe('5')
    await sound(weir)
  })

  test.each([
    ['REFUND', '0'],
    ['REVOKE', '0'],
    ['EXPIRED:VOLUNTARY', '5'],
    ['DID_FAIL_TO_RENEW:GRACE_PERIOD', '5'],
    ['DID_FAIL_TO_RENEW', '5'],
    ['DID_CHANGE_RENEWAL_STATUS:AUTO_RENEW_DISABLED', '5'],
    ['CONSUMPTION_REQUEST', '5'],
  ])('of %s leaves %p', async (type, left) => {
    const anna = await payer()
    await tell(anna, 'SUBSCRIBED:INITIAL_BUY')
    expect((await tell(anna, type)).status).toBe(200)
    expect(await subscriptionOf(anna)).toBe(left)
  })

  test('that a refund was reversed returns the credit, once', async () => {
    const anna = await payer()
    await tell(anna, 'SUBSCRIBED:INITIAL_BUY')
    await tell(anna, 'REFUND')
    expect(await subscriptionOf(anna)).toBe('0')
    for (let again = 0; again < 2; again++) await tell(anna, 'REFUND_REVERSED')
    expect(await subscriptionOf(anna)).toBe('5')
    await tell(anna, 'REFUND')
    expect(await subscriptionOf(anna)).toBe('5')
    await sound(weir)
  })

  test('of the sandbox is a test, and one without a transaction is nothing', async () => {
    const anna = await payer()
    const sandbox = { environment: 'Sandbox' }
    expect(await tell(anna, 'SUBSCRIBED', sandbox)).toMatchObject({
      status: 200,
      json: { outcome: 'ignored' },
    })
    const outer = signed(notificationOf('SUBSCRIBED', signed(transactionOf(anna)), sandbox))
    expect(await post(outer)).toMatchObject({ status: 200, json: { outcome: 'ignored' } })
    const test = signed(notificationOf('TEST', '', { signedTransactionInfo: undefined }))
    expect(await post(test)).toMatchObject({ status: 200, json: { outcome: 'ignored' } })
    expect(await subscriptionOf(anna)).toBe('0')
  })

  test('that anybody else has signed is refused, outside and inside', async () => {
    const anna = await payer()
    const transaction = transactionOf(anna)
    const notification = notificationOf('SUBSCRIBED', signed(transaction))
    const whole = signed(notification)
    const [head, , signature] = whole.split('.')
    const mixed: Chain = { x5c: [other.x5c[0]!, good.x5c[1]!, good.x5c[2]!], key: other.key }
    const swapped: Chain = { x5c: [...other.x5c.slice(0, 2), good.x5c[2]!], key: other.key }
    for (const payload of [
      signed(notification, other),
      signed(notification, mixed),
      signed(notification, swapped),
      signed(notification, { ...good, x5c: good.x5c.slice(0, 2) }),
      signed(notification, { ...good, x5c: [] }),
      signed(notification, { ...good, key: other.key }),
      signed(notification, good, 'HS256'),
      signed(notification, good, 'none'),
      `${head}.${part({ ...notification, notificationType: 'REFUND' })}.${signature}`,
      `${head}.${part(notification)}.`,
      signed(notificationOf('SUBSCRIBED', signed(transaction, other))),
      signed(notificationOf('SUBSCRIBED', 'a.b.c')),
      'nonsense',
      '',
    ])
      expect(await post(payload)).toMatchObject(bad)
    expect(await subscriptionOf(anna)).toBe('0')
  })

  test('by a certificate without the mark of its purpose is refused', async () => {
    await using lax = await serveWeir({ config: configFor(unmarked) })
    const anna = await Payer.of(lax, 'anna')
    const notification = notificationOf('SUBSCRIBED', signed(transactionOf(anna), unmarked))
    expect(await post(signed(notification, unmarked), lax)).toMatchObject(bad)
  })

  test.each([
    ['another app', { bundleId: 'org.example.other' }],
    ['no account', { appAccountToken: undefined }],
    ['a token that is none of ours', { appAccountToken: crypto.randomUUID() }],
    ['a product that is not sold here', { productId: 'gold' }],
    ['no end', { expiresDate: undefined }],
  ])('about %s is refused', async (_, more) => {
    const anna = await payer()
    expect(await tell(anna, 'SUBSCRIBED', more)).toMatchObject({ status: 400, code: 'invalid_request' })
  })
})

test('without settings the address does not exist, and a body with more in it is refused', async () => {
  await using plain = await serveWeir({ config: 'local_servers: { discover: false }' })
  expect(await post('a.b.c', plain)).toMatchObject({ status: 404, code: 'not_found' })
  const response = await fetch(`${weir.origin}/hooks/subscriptions/apple`, {
    method: 'POST',
    body: '{"a":1}',
  })
  expect(response.status).toBe(400)
})

test('a token stands for its account, and is a UUID', () => {
  const token = appAccountToken('acct_0123456789abcdef01')
  expect(token).toBe('77656972-0123-8456-8789-abcdef010000')
  expect(appAccountToken('someone')).toBeUndefined()
})
