// Identifies the caller by the bearer key or session token of a request.

import {
  type Caller,
  type CallerLookups,
  keyFault,
  matches,
  readKey,
  type Session,
  sessionFault,
  sessionIdOf,
} from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'

export interface Authentication {
  readonly accounts: CallerLookups
  readonly now: () => number
}

/**
 * The caller with the key in `Authorization: Bearer`. Rejects with `missing_api_key`, `invalid_api_key`,
 * `api_key_revoked`, `api_key_expired`, and `invalid_request` for two different credentials. A mistyped key is refused
 * by its checksum without a database lookup; no answer repeats the key.
 */
export async function authenticate(headers: Headers, parts: Authentication): Promise<Caller> {
  return callerOf(bearerOf(headers), parts)
}

/** Like `authenticate`, for clients that send the key in a header of their own, as a bearer, or both. */
export async function authenticateEither(
  headers: Headers,
  parts: Authentication,
  header: 'x-api-key' | 'x-goog-api-key' = 'x-api-key',
): Promise<Caller> {
  return callerOf(keyOf(headers, header), parts)
}

async function callerOf(text: string, { accounts, now }: Authentication): Promise<Caller> {
  const read = readKey(text)
  if (read.kind === 'malformed') throw new GatewayError('invalid_api_key', { credential: {} })
  const key = await accounts.findKey(read.id)
  if (!key || !matches(key, text))
    throw new GatewayError('invalid_api_key', { credential: { keyId: read.id } })
  const fault = keyFault(key, now())
  if (fault) throw fault
  const account = await accounts.findAccount(key.account)
  if (!account) throw new GatewayError('invalid_api_key')
  return { account, key, session: null, channel: 'api', mode: key.mode }
}

/** Who is signed in, and by which session. */
export interface SignedIn {
  readonly caller: Caller
  readonly session: Session
}

/**
 * The signed-in account of a session token, as a caller from the app: `cookie` if given, otherwise the token in
 * `Authorization: Bearer`. Throws the same codes as `authenticate`; API keys and session tokens are not
 * interchangeable.
 */
export async function authenticateSession(
  headers: Headers,
  { accounts, now }: Authentication,
  cookie?: string,
): Promise<SignedIn> {
  const text = cookie ?? bearerOf(headers)
  const id = sessionIdOf(text)
  const session = id === undefined ? undefined : await accounts.findSession(id)
  if (!session || !matches(session, text)) {
    throw new GatewayError('invalid_api_key', {
      message: 'This is no session token that is valid here.',
      credential: {},
    })
  }
  const fault = sessionFault(session, now())
  if (fault) throw fault
  const account = await accounts.findAccount(session.account)
  if (!account) throw new GatewayError('invalid_api_key')
  return { caller: { account, key: null, session: id!, channel: 'app', mode: 'live' }, session }
}

export function bearerOf(headers: Headers): string {
  const authorization = headers.get('authorization')
  const other = headers.get('x-api-key')
  if (authorization === null) {
    const hint = other === null ? undefined : 'This endpoint takes the key as Authorization: Bearer <key>.'
    throw new GatewayError('missing_api_key', hint === undefined ? {} : { message: hint })
  }
  const key = bearerIn(authorization)
  if (other !== null && other !== key) throw differing()
  return key
}

function keyOf(headers: Headers, header: string): string {
  const key = headers.get(header) ?? ''
  // An empty header is not a credential: some clients send one beside the header that they use.
  const authorization = (headers.get('authorization') ?? '').replace(/^bearer *$/i, '')
  if (authorization === '') {
    if (key !== '') return key
    throw new GatewayError('missing_api_key', {
      message: `The request carries no API key: send it as ${header}, or as Authorization: Bearer <key>.`,
    })
  }
  if (key !== '' && authorization.replace(/^bearer +/i, '').trimEnd() !== key) throw differing()
  return bearerIn(authorization)
}

/** As nearly all clients write it. */
const plainBearer = /^bearer \S+$/i

function bearerIn(authorization: string): string {
  if (plainBearer.test(authorization)) return authorization.slice('Bearer '.length)
  const match = /^bearer +(\S+) *$/i.exec(authorization)
  if (match?.[1]) return match[1]
  throw new GatewayError(/^bearer *$/i.test(authorization) ? 'missing_api_key' : 'invalid_api_key')
}

function differing(): GatewayError {
  return new GatewayError('invalid_request', { message: 'The request carries two different credentials.' })
}
