// The console's API: finds the route, lets in who may enter, checks the body, and answers. Loaded with its first request.

import { matches } from '../../accounts/api-key.ts'
import { isElevated } from '../../accounts/identity/identities.ts'
import { networkOf } from '../../accounts/identity/network.ts'
import { sessionIdOf } from '../../accounts/session.ts'
import { GatewayError } from '../../errors.ts'
import { safeParsed } from '../../protocols/request/safe-parse.ts'
import { stillUsed } from '../app/signed-in.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import { requireOwnOrigin, sessionCookie } from '../intake/site.ts'
import { wrongTarget } from '../intake/wrong-target.ts'
import type { Service } from '../service.ts'
import type { ConsoleRoute, SignedInAccount } from './route.ts'
import { routes } from './routes.ts'
import { emptyBody } from './wire.ts'

const prefix = '/console/api/'
/** No body of the console is long. */
const maxBodyBytes = 65_536

/** Answers a request below `/console/api/`. Throws every refusal as a GatewayError. */
export async function consoleApi(service: Service, request: Request, requestId: string): Promise<Response> {
  const { route, params } = routeOf(service, request)
  requireOwnOrigin(request, service.site)
  const signedIn = await signedInOf(service, request)
  admit(route, signedIn, service.now())
  const visitor = {
    network: networkOf(service.site.addressOf(request)),
    userAgent: request.headers.get('user-agent'),
  }
  const body = await bodyOf(service, request, route)
  const answer = await route.handle({ service, request, requestId, params, body, visitor, signedIn })
  const response =
    answer instanceof Response ? answer : Response.json(answer, { status: route.status ?? 200 })
  // Whatever is answered here is about one account, and some of it is shown once.
  if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store')
  return response
}

function routeOf(
  service: Service,
  request: Request,
): { route: ConsoleRoute; params: Record<string, string> } {
  const path = new URL(request.url).pathname.slice(prefix.length)
  const method = request.method === 'HEAD' ? 'GET' : request.method
  for (const route of routes) {
    const params = route.method === method ? paramsIn(route.path, path) : undefined
    if (params) return { route, params }
  }
  const names = routes.map((route) => ({ method: route.method, path: prefix + route.path }))
  throw wrongTarget(request, names, service.publicUrl())
}

function paramsIn(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/')
  const given = path.split('/')
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [at, segment] of wanted.entries()) {
    const there = given[at]!
    if (!segment.startsWith(':')) {
      if (segment !== there) return undefined
    } else if (there === '') return undefined
    else params[segment.slice(1)] = there
  }
  return params
}

/** Whose cookie came along; undefined for none, and for one of a session that is over. */
async function signedInOf(service: Service, request: Request): Promise<SignedInAccount | undefined> {
  const { accounts, now, site } = service
  const text = sessionCookie(request, site)
  const id = text === undefined ? undefined : sessionIdOf(text)
  const session = id === undefined ? undefined : await accounts.findSession(id)
  if (!session || !matches(session, text!)) return undefined
  const over = session.revokedAt !== null || session.expiresAt <= now()
  const account = over ? undefined : await accounts.findAccount(session.account)
  if (!account || account.suspended) return undefined
  await stillUsed(service, session)
  return { account, session }
}

function admit(route: ConsoleRoute, signedIn: SignedInAccount | undefined, now: number): void {
  if (route.access === 'anyone') return
  if (!signedIn) throw new GatewayError('not_signed_in')
  if (route.access === 'operator' && signedIn.account.role !== 'operator')
    throw new GatewayError('operator_required')
  if (route.elevated && !isElevated(signedIn.session, now)) throw new GatewayError('elevation_required')
}

async function bodyOf(service: Service, request: Request, route: ConsoleRoute): Promise<unknown> {
  const { headers, method } = request
  const { body: limits, turns } = service
  if (method === 'GET' || method === 'HEAD') return undefined
  const isEmpty = Number(headers.get('content-length') ?? 0) === 0 && !headers.has('transfer-encoding')
  if (!route.body && isEmpty) return undefined
  const small = { ...limits, maxBodyBytes: Math.min(limits.maxBodyBytes, maxBodyBytes) }
  refuseByHeaders(headers, small)
  // A form of another page can send text/plain without asking; JSON it cannot.
  if (!/^application\/json\s*(;|$)/i.test(headers.get('content-type') ?? ''))
    throw new GatewayError('unsupported_media_type')
  const { json } = await readJson(request, { body: small, turns })
  const { success, data, error } = safeParsed(route.body ?? emptyBody, json)
  if (success) return data
  const [issue] = error.issues
  const keys = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : []
  const param = [...(issue?.path ?? []), ...keys].map(String).join('.').slice(0, 256)
  const message =
    keys.length > 0
      ? `There is no field ${param} here.`
      : `${param || 'The body'}: ${issue?.message ?? 'is invalid'}`
  throw new GatewayError('invalid_request', { message, ...(param === '' ? {} : { param }) })
}
