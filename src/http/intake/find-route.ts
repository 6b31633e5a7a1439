// Finds a request's route in a table, and names the right address where a path or method has none.

import { GatewayError } from '../../errors/errors.ts'
import { sitePath } from './caller.ts'

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
