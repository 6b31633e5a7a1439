// Errors for a path or method without a route, naming the right one if possible.

import { GatewayError } from '../../errors/errors.ts'

/** A route as it is registered: `/v1/responses/:id`, `/v1/models/*`. */
export interface RouteName {
  readonly method: string
  readonly path: string
}

const longestPath = 200

/** What clients of the protocols that are served may ask for in vain, and what to do instead. */
const unserved: Readonly<Record<string, string>> = {
  'POST /v1/responses/compact':
    'conversations are not compacted here. Send what is still needed of one as input, or a summary of it.',
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
  const instead = unserved[`${method} ${pathname}`]
  if (instead !== undefined)
    return new GatewayError('not_found', { message: `There is no ${method} ${pathname}: ${instead}` })
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
    .filter((route) => route.path !== '/*' && matches(route.path, path))
    // Everything that answers GET answers HEAD.
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return [...new Set(methods)].toSorted()
}

/** `:id` stands for one segment, `*` for the rest. */
function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const given = path.split('/')
  for (const [at, segment] of wanted.entries()) {
    if (segment === '*') return given.length > at && given[at] !== ''
    const there = given[at]
    if (there === undefined || (segment.startsWith(':') ? there === '' : segment !== there)) return false
  }
  return given.length === wanted.length
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
