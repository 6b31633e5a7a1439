// Every refusal can be found by its id: a request that never became a call leaves a row in the request log too, under
// its account and key where they are known. Where not, operators see the key's public id and the client's address.

import type { Caller } from '../../accounts/account.ts'
import { GatewayError, type RefusedCredential } from '../../errors/errors.ts'
import { publicIdIn } from '../../accounts/secrets.ts'
import { detailOf } from '../../chat/billing/charge.ts'
import { networkOf } from '../../accounts/identity/network.ts'
import type { RequestLogRow } from '../../observe/request-log.ts'
import { sessionCookie } from './site.ts'
import type { ServingParts } from '../parts.ts'
import { authenticateSession } from './authenticate.ts'
import { errorResponse, type Refuse } from './error-response.ts'

export interface RefusedRequest {
  readonly request: Request
  readonly requestId: string
  /** By performance.now(). */
  readonly arrivedAt: number
  /** Whoever was identified before the refusal. */
  readonly known: RefusedCredential | undefined
  /** Identifies the caller. */
  readonly identify: () => Caller | Promise<Caller>
}

type NotingParts = Pick<ServingParts, 'calls' | 'site' | 'now' | 'accounts' | 'log'>

/** Notes a refusal that nothing has noted yet. Never throws; who asked may be found out later than the answer is sent. */
export function noteRefusal(parts: NotingParts, refused: RefusedRequest, error: GatewayError): void {
  try {
    note(parts, refused, error)
  } catch (failure) {
    parts.log.error('a refusal could not be noted', { request_id: refused.requestId, error: failure })
  }
}

function note(parts: NotingParts, refused: RefusedRequest, error: GatewayError): void {
  const { calls, log, site } = parts
  const { request, requestId } = refused
  const { code, status, details } = error
  const fields = { request_id: requestId, ...targetOf(request), status, code, param: details.param }
  if (!calls.turnedAway(fields, error) || isAnswer(request, error)) return
  const known = refused.known ?? details.credential
  // Once the answer is sent the connection may be gone.
  const address = site.addressOf(request)
  const noted = { ...refused, error, address }
  if (known !== undefined || isUnasked(request)) return keep(parts, noted, known ?? {})
  // A flood must not cost a look-up for each request.
  if (!calls.mayLookUp(parts.now())) return keep(parts, noted, {})
  whoAsked(parts, refused).then(
    (credential) => keep(parts, noted, credential),
    (failure: unknown) =>
      log.error('a refusal could not be noted', { request_id: requestId, error: failure }),
  )
}

const answersToReading: ReadonlySet<string> = new Set(['not_found', 'not_signed_in'])

/** Whether somebody looked if a thing is there, or if they are signed in: it is logged, but the answer is no refusal. */
function isAnswer({ method }: Request, { code }: GatewayError): boolean {
  return (method === 'GET' || method === 'HEAD') && answersToReading.has(code)
}

/** The response for a refusal that is answered rather than thrown; it is noted first. */
export function refusedLater(
  parts: NotingParts,
  { request, requestId }: Pick<RefusedRequest, 'request' | 'requestId'>,
  caller: Caller,
  refuse: Refuse = errorResponse,
): Refuse {
  const arrivedAt = performance.now()
  return (thrown, ...more) => {
    const known = credentialOf(caller)
    const refused = { request, requestId, arrivedAt, known, identify: () => caller }
    if (thrown instanceof GatewayError) noteRefusal(parts, refused, thrown)
    return refuse(thrown, ...more)
  }
}

export function credentialOf({ account, key }: Caller): RefusedCredential {
  return { account: account.id, ...(key === null ? {} : { key: key.id }) }
}

const longestMessage = 300

const credentialHeaders = ['authorization', 'x-api-key', 'x-goog-api-key', 'cookie']

/** Whether a request carries nothing that says who asks. */
function isUnasked({ headers }: Request): boolean {
  return !credentialHeaders.some((name) => headers.has(name))
}

/** Who sent a request that was refused before anybody asked: too large, of another type, at no address. */
async function whoAsked(
  parts: NotingParts,
  { request, identify }: RefusedRequest,
): Promise<RefusedCredential> {
  const cookie = request.headers.has('authorization') ? undefined : sessionCookie(request, parts.site)
  try {
    if (cookie !== undefined)
      return credentialOf((await authenticateSession(request.headers, parts, cookie)).caller)
    return credentialOf(await identify())
  } catch (error) {
    return error instanceof GatewayError ? (error.details.credential ?? {}) : {}
  }
}

interface Noted extends RefusedRequest {
  readonly error: GatewayError
  /** The client's. */
  readonly address: string
}

function keep(
  { calls, now }: NotingParts,
  { request, requestId, arrivedAt, error, address }: Noted,
  { account = '', key, keyId }: RefusedCredential,
): void {
  const at = now()
  const publicId = key === undefined ? (keyId ?? publicIdIn(request.headers)) : undefined
  const unknown = account === '' ? { address, ...(publicId === undefined ? {} : { key_id: publicId }) } : {}
  calls.keepTurnedAway({ account, network: networkOf(address), at }, (unlisted): RequestLogRow => {
    const more = unlisted === 0 ? {} : { more_like_this: unlisted }
    const { method, path = '' } = targetOf(request)
    const target = { method, path: calls.withoutSecrets(path) }
    // Of an invalid request the message may quote the body.
    const said =
      error.code === 'invalid_request'
        ? {}
        : { message: calls.withoutSecrets(error.message.slice(0, longestMessage)) }
    return {
      requestId,
      at,
      account,
      key: key ?? null,
      model: '',
      provider: null,
      stream: false,
      status: error.status,
      code: error.code,
      ending: null,
      promptTokens: 0,
      completionTokens: 0,
      cost: 0n,
      attempts: 0,
      firstByteMs: null,
      totalMs: Math.round(performance.now() - arrivedAt),
      detail: detailOf(error, { ...said, ...target, ...unknown, ...more }),
      contents: null,
    }
  })
}

function targetOf(request: Request): { readonly method: string; readonly path: string | undefined } {
  return { method: request.method, path: URL.parse(request.url)?.pathname.slice(0, 200) }
}
