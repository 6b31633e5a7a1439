// A route: its address, who may call it, its handler and its documentation, and how it is run.

import { Elysia } from 'elysia'
import { type Caller, publicIdIn, type Session } from '../accounts/account.ts'
import { networkOf, requireWithin } from '../accounts/identity/sign-in-limits.ts'
import { detailOf } from '../chat/billing/charge.ts'
import {
  asGatewayError,
  GatewayError,
  type RefusedCredential,
  type RenderedError,
  renderError,
  retryHeaders,
} from '../errors/errors.ts'
import type { RequestLogRow } from '../observe/call-log.ts'
import { wireError } from '../protocols/gemini/inbound/inbound.ts'
import type { Operation } from './docs/operation.ts'
import {
  authenticate,
  authenticateSession,
  requireOwnOrigin,
  sessionCookie,
  sitePath,
} from './intake/caller.ts'
import type { HttpParts, ServingParts } from './parts.ts'

export interface RouteCall {
  readonly request: Request
  readonly requestId: string
  /** The path parameters: `id` for `:id`, `*` for the rest. */
  readonly params: Readonly<Record<string, string>>
  /** The caller, by the route's `identify`. Throws or rejects with GatewayError if nobody is identified. */
  caller(): Caller | Promise<Caller>
  /** Takes note of who asks, for the request log, where the route has a way of its own to identify them. */
  askedBy(who: RefusedCredential): void
}

export type Identify = (parts: ServingParts, request: Request) => Caller | Promise<Caller>

/** `Parts` is what the handler depends on. */
export interface Route<Parts = HttpParts> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'ALL'
  /** `:name` stands for one segment, `*` for the rest. */
  readonly path: string
  /** Throws or rejects with GatewayError before the first byte. */
  readonly handle: (parts: Parts, call: RouteCall) => Response | Promise<Response>
  /** By API key by default. */
  readonly identify?: Identify
  /** The shape of errors for the clients of this route; the contract's own by default. */
  readonly errors?: (request: Request) => Refuse
  /** Load balancers probe by HTTP/1.0, without a Host. */
  readonly takesNoHost?: true
  /** Answered at once, however many requests wait; otherwise a busy process would fail its probe and be restarted. */
  readonly skipsScheduler?: true
  /** Loaded with the first reader of the documentation; absent for pages. */
  readonly operation?: () => Promise<Operation>
}

// Turns any failure into the error response of the wire contract.

/** The response for a thrown value. Anything but a GatewayError becomes `internal_error`, its cause only logged. */
export type Refuse = (thrown: unknown, requestId: string, publicUrl: string) => Response

/** Error responses in another shape, for routes whose clients expect it. */
export function refusalIn(shape: (error: RenderedError) => object): Refuse {
  return (thrown, requestId, publicUrl) => {
    const error = asGatewayError(thrown)
    return Response.json(shape(renderError(error, requestId, publicUrl)), {
      status: error.status,
      headers: {
        'x-request-id': requestId,
        ...servedBy(error),
        ...allowHeader(error),
        ...retryHeaders(error),
      },
    })
  }
}

export const errorResponse: Refuse = refusalIn((error) => error)

/** As Google's clients read it. */
export const refuseGemini: Refuse = refusalIn(wireError)

/** As SCIM's clients read it (RFC 7644, 3.12). */
export const refuseScim: Refuse = (thrown, ...asked) => {
  const { status } = asGatewayError(thrown)
  return refusalIn(({ error }) => ({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
    status: String(status),
    detail: error.message,
  }))(thrown, ...asked)
}

/** The failed provider, under the names that answers use. */
function servedBy({ details }: GatewayError): Record<string, string> {
  const model = details.metadata?.['model']
  return {
    ...(details.provider === undefined ? {} : { 'x-weir-provider': details.provider }),
    ...(typeof model === 'string' && /^[\x21-\x7e]+$/.test(model) ? { 'x-weir-model': model } : {}),
  }
}

/** The methods of the path, which a 405 must name. */
function allowHeader({ code, details }: GatewayError): Record<string, string> {
  const methods = details.metadata?.['allow']
  return code === 'method_not_allowed' && Array.isArray(methods) ? { allow: methods.join(', ') } : {}
}

/** A new request id: ordered by time, so that rows of the same moment are stored together. */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7('buffer').toHex()}`
}

// Runs a route: the guard, the handler, and any failure as an error of the contract.

/** The application: finds the route of a request and runs it, without listening. Never throws. */
export function application<Parts extends ServingParts>(parts: Parts, all: readonly Route<Parts>[]) {
  // By default Elysia looks for the path after the eleventh character of the URL, which assumes long hosts.
  const app = new Elysia({ aot: true, handler: { standardHostname: false } })
  for (const route of all) {
    app.route(
      route.method,
      route.path,
      ({ request, params }: { request: Request; params: Record<string, string> }) =>
        answerRoute(parts, route, request, params),
      { parse: 'none' },
    )
  }
  return app.onError(({ error }) => errorResponse(error, newRequestId(), parts.publicUrl()))
}

/** Runs a route. Never rejects: whatever the handler throws becomes an error in the shape of the route's clients. */
export async function answerRoute<Parts extends ServingParts>(
  parts: Parts,
  route: Route<Parts>,
  request: Request,
  params: RouteCall['params'],
  requestId = newRequestId(),
): Promise<Response> {
  const arrivedAt = performance.now()
  const { identify } = route
  let known: RefusedCredential | undefined
  const askedBy = (who: RefusedCredential) => {
    known = who
  }
  const caller = async () => {
    const identified = await callerOf(parts, request, identify)
    askedBy(credentialOf(identified))
    return identified
  }
  const call: RouteCall = { request, requestId, params, caller, askedBy }
  try {
    if (route.takesNoHost === undefined || request.headers.has('host')) {
      checkHeaders(request.headers, parts.body.maxHeaderBytes)
      checkTarget(request)
    }
    const handle = () => route.handle(parts, call)
    const response = await (route.skipsScheduler ? handle() : parts.scheduler.run(handle, 'new'))
    if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', requestId)
    return response
  } catch (thrown) {
    logOwnFault(parts, thrown, requestId)
    // A process that is not ready refuses nobody.
    if (thrown instanceof GatewayError && route.skipsScheduler !== true)
      noteRefusal(parts, { request, requestId, arrivedAt, known, identify: caller }, thrown)
    const refuse = route.errors?.(request) ?? errorResponse
    return refuse(thrown, requestId, parts.publicUrl())
  } finally {
    parts.largeBodies.leave(requestId)
  }
}

/** Logs a fault of the gateway itself, of which the client sees nothing but `internal_error`. */
export function logOwnFault({ log }: Pick<ServingParts, 'log'>, thrown: unknown, requestId: string): void {
  if (thrown instanceof GatewayError && thrown.code !== 'internal_error') return
  log.error('a request failed inside the gateway', { request_id: requestId, error: thrown })
}

/** Rejects with `network_not_allowed` for a key used outside of its networks, and whatever `identify` throws. */
async function callerOf(
  parts: ServingParts,
  request: Request,
  identify: Identify = (_, { headers }) => authenticate(headers, parts),
): Promise<Caller> {
  const caller = await identify(parts, request)
  const { key } = caller
  if (key && key.networks !== null)
    requireWithin(parts.site.addressOf(request), key.networks, credentialOf(caller))
  if (key && parts.keyUse !== undefined) parts.keyUse.note(key, parts.site.addressOf(request))
  return caller
}

/** A handler that answers its caller with JSON. */
export function asCaller<Parts>(
  describe: (parts: Parts, caller: Caller, call: RouteCall) => object | Promise<object>,
): Route<Parts>['handle'] {
  return async (parts, call) => Response.json(await describe(parts, await call.caller(), call))
}

// Routes for the app of a signed-in account: the wire contract of /v1 under /app/v1, paid from all of its pools.

/** The route under /app/v1: the same handler and contract, identified by a session. */
export function inApp<Parts>(route: Route<Parts>): Route<Parts> {
  const { operation } = route
  return {
    ...route,
    path: `/app${route.path}`,
    identify: identifyInApp,
    ...(operation === undefined ? {} : { operation: async () => ofApp(await operation(), route.path) }),
  }
}

/** The same for a route that is public under /v1: in the app it requires a session. */
export function inAppOnly<Parts>(route: Route<Parts>): Route<Parts> {
  return inApp({
    ...route,
    handle: async (parts, call) => {
      await call.caller()
      return route.handle(parts, call)
    },
  })
}

async function ofApp(operation: Operation, path: string): Promise<Operation> {
  const { ofCaller, ofKeyedCall } = await import('./docs/operation.ts')
  const ofKeys: ReadonlySet<string> = new Set(ofKeyedCall)
  const shown = operation.path ?? path
  return {
    ...operation,
    id: `${operation.id}InApp`,
    ...(operation.path === undefined ? {} : { path: `/app${operation.path}` }),
    tag: 'App',
    summary: `${operation.summary}, from the app`,
    description: `As \`${shown}\`, for the account of the session.`,
    security: 'session',
    errors: [...operation.errors.filter((code) => !ofKeys.has(code)), ...ofCaller],
  }
}

/**
 * The caller of an app request. Grants today's allowance, so that it is there from the day's first request on, unless
 * the account is suspended. The session token comes as a bearer token, or as the console's cookie with a request of
 * its own pages; the bearer token takes precedence.
 */
export async function identifyInApp(parts: ServingParts, request: Request): Promise<Caller> {
  const cookie = request.headers.has('authorization') ? undefined : sessionCookie(request, parts.site)
  if (cookie !== undefined) requireOwnOrigin(request, parts.site)
  const { caller, session } = await authenticateSession(request.headers, parts, cookie)
  await stillUsed(parts, session)
  await parts.freeCredit.ensure(caller.account)
  return caller
}

/** The last use of a session is stored with this precision, milliseconds, because each update is a write. */
const seenEveryMs = 3_600_000

/** Extends a session that ends when idle, at most once an hour. */
export async function stillUsed(
  { identityStore, now }: Pick<ServingParts, 'identityStore' | 'now'>,
  { id, idleMs, seenAt }: Session,
): Promise<void> {
  const at = now()
  if (idleMs === null || at - (seenAt ?? 0) < seenEveryMs) return
  await identityStore.touchSession(id, at, at + idleMs)
}

// Checks headers before anything reads them: a malformed Host breaks URL parsing and misleads path-based guards.

const plainHost = /^(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(:\d{1,5})?$/i

/**
 * Throws `invalid_request` for a target that is not an address of this gateway, so that handlers can parse
 * `request.url`. CONNECT asks for a tunnel, which only a proxy provides.
 */
function checkTarget({ method, url }: Pick<Request, 'method' | 'url'>): void {
  if (method === 'CONNECT' || !URL.canParse(url)) {
    throw new GatewayError('invalid_request', { message: 'The target of the request is malformed.' })
  }
}

/** A name, a colon, a space and a line end. */
const bytesPerHeader = 4

/**
 * Throws `invalid_request` unless there is exactly one Host header, a plain host with or without port, and at most one
 * Content-Length (the runtime accepts equal ones, but a proxy in front may have read another), and `headers_too_large`
 * if all headers together exceed `maxBytes`.
 */
export function checkHeaders(headers: Headers, maxBytes: number): void {
  const host = headers.get('host')
  // The pattern rejects paths and users. A name such as 1.2.3.999 looks plain, but no parser accepts it as a host.
  if (host === null || !plainHost.test(host) || !URL.canParse(`http://${host}/`)) {
    throw new GatewayError('invalid_request', { message: 'The Host header is missing or malformed.' })
  }
  const length = headers.get('content-length')
  if (length !== null && !/^\d{1,15}$/.test(length)) {
    throw new GatewayError('invalid_request', { message: 'The Content-Length header is malformed.' })
  }
  let size = 0
  const all: Readonly<Record<string, string>> = headers.toJSON()
  for (const name in all) size += name.length + all[name]!.length + bytesPerHeader
  if (size > maxBytes) throw new GatewayError('headers_too_large', { metadata: { limit_bytes: maxBytes } })
}

// Every refusal can be found by its id: a request that never became a call leaves a row in the request log too, under
// its account and key where they are known. Where not, operators see the key's public id and the client's address.

interface RefusedRequest {
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

/** Notes a refusal that is not in the log yet. Never throws; the caller may be found only after the answer is sent. */
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
      tags: null,
    }
  })
}

function targetOf(request: Request): { readonly method: string; readonly path: string | undefined } {
  return { method: request.method, path: URL.parse(request.url)?.pathname.slice(0, 200) }
}

// Finds a request's route in a table, and names the right address where a path or method has none.

/** A route as it is registered: `/v1/responses/:id`, `/v1/models/*`. */
export interface RouteName {
  readonly method: string
  readonly path: string
}

const longestPath = 200

/**
 * The route of a request in a table whose paths are below `prefix`, and its path parameters. Throws `wrongTarget` if
 * there is none.
 */
export function findRoute<Route extends RouteName>(
  table: readonly Route[],
  request: Request,
  publicUrl: string,
  prefix: string,
): { readonly route: Route; readonly params: Readonly<Record<string, string>> } {
  const { pathname } = new URL(request.url)
  const method = request.method === 'HEAD' ? 'GET' : request.method
  for (const route of table) {
    const params = route.method === method ? paramsIn(prefix + route.path, pathname) : undefined
    if (params) return { route, params }
  }
  const names = table.map((route) => ({ method: route.method, path: prefix + route.path }))
  throw wrongTarget(request, names, publicUrl)
}

/**
 * The error for a request without a route: `method_not_allowed` with the methods of its path, otherwise `not_found`,
 * with the intended address if a common mistake in the base URL explains it. `publicUrl` is the gateway's address
 * without a trailing slash.
 */
export function wrongTarget(
  request: Pick<Request, 'method' | 'url'>,
  routes: readonly RouteName[],
  publicUrl: string,
): GatewayError {
  const { method } = request
  const { pathname } = new URL(request.url)
  const allowed = methodsAt(pathname, routes)
  // To its route `/v1/responses/responses` is the id of a response; for a POST it is a wrong base URL.
  const isRoute = routes.some(({ path }) => path === pathname)
  const meant = isRoute
    ? undefined
    : meantBy(pathname).find((path) => methodsAt(path, routes).includes(method))
  if (meant === undefined && allowed.length > 0) {
    return new GatewayError('method_not_allowed', {
      message: `${pathname.slice(0, longestPath)} takes ${allowed.join(', ')}, not ${method.slice(0, 20)}.`,
      metadata: { allow: allowed },
    })
  }
  const below = sitePath(publicUrl)
  if (below !== '' && pathname.startsWith(`${below}/`)) {
    return new GatewayError('not_found', {
      message: `The gateway has its routes at the root: the proxy in front of it has to take ${below} off the path.`,
    })
  }
  const message = `There is no ${method.slice(0, 20)} ${pathname.slice(0, longestPath)} here.`
  if (meant === undefined) return new GatewayError('not_found', { message })
  const url = `${publicUrl}${meant}`
  return new GatewayError('not_found', {
    message: `${message} It is ${url}: the base URL of clients is ${baseUrlFor(meant, publicUrl)}.`,
    metadata: { url },
  })
}

function methodsAt(path: string, routes: readonly RouteName[]): readonly string[] {
  const methods = routes
    .filter((route) => route.path !== '/*' && paramsIn(route.path, path) !== undefined)
    // Everything that answers GET answers HEAD.
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return [...new Set(methods)].toSorted()
}

/** The parameters of a path that fits the pattern: `:id` stands for one segment, `*` for the rest. */
function paramsIn(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/')
  const given = path.split('/')
  const params: Record<string, string> = {}
  for (const [at, segment] of wanted.entries()) {
    const there = given[at]
    if (segment === '*') return there ? params : undefined
    if (there === undefined) return undefined
    if (!segment.startsWith(':')) {
      if (segment !== there) return undefined
    } else if (there === '') return undefined
    else params[segment.slice(1)] = there
  }
  return given.length === wanted.length ? params : undefined
}

/**
 * What a path may have meant, most likely first: an extra slash, a missing or doubled version, a base URL that ends in
 * an operation, or the prefix of another gateway.
 */
function meantBy(pathname: string): readonly string[] {
  const plain = pathname
    .slice(0, longestPath)
    .replace(/\/{2,}/g, '/')
    .replace(/(?!^)\/$/, '')
  const once = plain.replace(/^(\/(?:app\/)?v1)(?:\/v1)+(?=\/|$)/, '$1')
  const fromVersion = plain.slice(Math.max(plain.lastIndexOf('/v1/'), 0))
  // `/v1/chat/completions/chat/completions`, `/v1/chat/completions/models`
  const afterOperation = once.replace(
    /^\/v1\/(?:chat\/completions|completions|responses|messages|embeddings)(?=\/)/,
    '/v1',
  )
  const guesses = [
    plain,
    once,
    `/v1${plain}`,
    fromVersion,
    afterOperation,
    afterOperation.replace(/^\/v1\/v1/, '/v1'),
  ]
  return guesses.filter((path) => path !== pathname)
}

/** Anthropic's clients append the version themselves, as Google's do. */
function baseUrlFor(path: string, publicUrl: string): string {
  if (path.startsWith('/v1/messages') || path.startsWith('/v1beta/')) return publicUrl
  const version = /^\/(?:app\/)?v1(?=\/)/.exec(path)?.[0]
  return `${publicUrl}${version ?? ''}`
}
