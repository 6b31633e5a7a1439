// App Store Server Notifications V2: a JWS whose certificate chain leads to a root pinned by the operator. Verified
// locally. developer.apple.com/documentation/appstoreservernotifications/responsebodyv2.

import { verify, X509Certificate } from 'node:crypto'
import { z } from 'zod'
import { GatewayError } from '../errors/errors.ts'
import { badSignature } from './processor.ts'
import type { SubscriptionMessage, SubscriptionState } from './subscriptions.ts'

export interface AppleSettings {
  readonly bundleId: string
  readonly environment: 'Production' | 'Sandbox'
  /** SHA-256 of the root certificate, hex in small letters. */
  readonly rootFingerprint: string
}

/** Extensions of Apple's certificates, as DER: 1.2.840.113635.100.6.11.1 for the signer, …6.2.1 for its issuer. */
const signerMark = Buffer.from('060a2a864886f76364060b01', 'hex')
const issuerMark = Buffer.from('060a2a864886f76364060201', 'hex')

const header = z.object({ alg: z.literal('ES256'), x5c: z.array(z.string()).length(3) })

const notification = z.object({
  notificationType: z.string(),
  subtype: z.string().optional(),
  notificationUUID: z.string().min(1),
  data: z
    .object({ bundleId: z.string(), environment: z.string(), signedTransactionInfo: z.string().optional() })
    .optional(),
})

const transaction = z.object({
  bundleId: z.string(),
  environment: z.string(),
  originalTransactionId: z.string(),
  productId: z.string(),
  purchaseDate: z.int().nonnegative(),
  expiresDate: z.int().nonnegative().optional(),
  appAccountToken: z.string().optional(),
})

/** The state of the period after each notification; others do not change it. */
const states: Readonly<Record<string, SubscriptionState>> = {
  SUBSCRIBED: 'active',
  DID_RENEW: 'active',
  OFFER_REDEEMED: 'active',
  'DID_CHANGE_RENEWAL_PREF:UPGRADE': 'active',
  'DID_FAIL_TO_RENEW:GRACE_PERIOD': 'grace',
  EXPIRED: 'ended',
  GRACE_PERIOD_EXPIRED: 'ended',
  REFUND: 'refunded',
  REFUND_REVERSED: 'refund_reversed',
  REVOKE: 'refunded',
}

/**
 * What a notification says about a subscription; undefined if nothing. Throws `bad_signature` unless it is signed
 * under the pinned root, and `invalid_request` for another app or an undocumented form. A notification of the other
 * environment is a test.
 */
export function readNotification(
  signedPayload: string,
  settings: AppleSettings,
  now: number,
): SubscriptionMessage | undefined {
  const { notificationType, subtype, data } = parseShape(
    notification,
    verifyJws(signedPayload, settings, now),
  )
  const state = states[`${notificationType}:${subtype ?? ''}`] ?? states[notificationType]
  if (state === undefined || data?.signedTransactionInfo === undefined) return undefined
  requireApp(data.bundleId, settings)
  const sold = parseShape(transaction, verifyJws(data.signedTransactionInfo, settings, now))
  requireApp(sold.bundleId, settings)
  const { appAccountToken: token, expiresDate } = sold
  const account = token === undefined ? undefined : accountOfToken(token)
  if (account === undefined || expiresDate === undefined) {
    const what = account === undefined ? 'appAccountToken' : 'expiresDate'
    throw new GatewayError('invalid_request', {
      message: `${what} is not there, or not one of ours.`,
      param: what,
    })
  }
  return {
    subscription: sold.originalTransactionId,
    source: 'apple',
    account,
    product: sold.productId,
    period: { from: new Date(sold.purchaseDate).toISOString(), to: new Date(expiresDate).toISOString() },
    state,
    test: [data.environment, sold.environment].some((environment) => environment !== settings.environment),
  }
}

function requireApp(bundleId: string, settings: AppleSettings): void {
  if (bundleId === settings.bundleId) return
  throw new GatewayError('invalid_request', { message: 'It is about another app.', param: 'bundleId' })
}

/** The payload of a JWS signed by the certificate chain in its header. */
function verifyJws(jws: string, settings: AppleSettings, now: number): unknown {
  const [head, payload, signature, ...more] = jws.split('.')
  if (head === undefined || payload === undefined || signature === undefined || more.length > 0)
    throw badSignature()
  const signer = signerIn(head, settings, now)
  const isGood = verify(
    'sha256',
    Buffer.from(`${head}.${payload}`),
    { key: signer.publicKey, dsaEncoding: 'ieee-p1363' },
    Buffer.from(signature, 'base64url'),
  )
  if (!isGood) throw badSignature()
  return decodePart(payload)
}

/** The signing certificate, if the chain to the pinned root is valid at `now`. */
function signerIn(head: string, { rootFingerprint }: AppleSettings, now: number): X509Certificate {
  const { success, data } = header.safeParse(decodePart(head))
  if (!success) throw badSignature()
  const [signer, issuer, root] = data.x5c.map(certificate)
  if (!signer || !issuer || !root) throw badSignature()
  const holds =
    root.fingerprint256.replaceAll(':', '').toLowerCase() === rootFingerprint &&
    isIssued(issuer, root) &&
    isIssued(signer, issuer) &&
    signer.raw.includes(signerMark) &&
    issuer.raw.includes(issuerMark) &&
    [signer, issuer, root].every((one) => Date.parse(one.validFrom) <= now && now <= Date.parse(one.validTo))
  if (!holds) throw badSignature()
  return signer
}

function isIssued(certificate: X509Certificate, by: X509Certificate): boolean {
  return by.ca && certificate.checkIssued(by) && certificate.verify(by.publicKey)
}

function certificate(base64: string): X509Certificate | undefined {
  try {
    return new X509Certificate(Buffer.from(base64, 'base64'))
  } catch {
    return undefined
  }
}

function decodePart(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
  } catch {
    throw badSignature()
  }
}

function parseShape<T>(schema: z.ZodType<T>, value: unknown): T {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  throw new GatewayError('invalid_request', {
    message: 'The notification is not of the documented shape.',
    cause: read.error,
  })
}

/**
 * The UUID by which an app identifies an account to Apple (`appAccountToken`): the digits of the account's id in a
 * UUID of version 8, so that neither side has to store it. Undefined for an id that is not ours.
 */
export function appAccountToken(account: string): string | undefined {
  const id = /^acct_([0-9a-f]{18})$/.exec(account)?.[1]
  if (id === undefined) return undefined
  return `${marker}-${id.slice(0, 4)}-8${id.slice(4, 7)}-8${id.slice(7, 10)}-${id.slice(10)}0000`
}

/** `weir`. */
const marker = '77656972'

function accountOfToken(token: string): string | undefined {
  const parts = /^77656972-([0-9a-f]{4})-8([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{8})0000$/.exec(
    token.toLowerCase(),
  )
  return parts ? `acct_${parts.slice(1).join('')}` : undefined
}
