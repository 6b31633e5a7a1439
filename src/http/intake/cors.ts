// Lets pages of other origins call /v1 from a browser. That is safe for any origin, because a bearer key must be sent
// explicitly. Sessions of the app and the console stay with their own origin.

type Fetch = (request: Request) => Response | Promise<Response>

/** Paths where a key is the only credential. */
const openPath = /^\/(v1|v1beta)\//

/** Headers that pages may read; without this list they see only a few standard ones. */
const exposed = [
  'x-request-id',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-weir-provider',
  'x-weir-model',
  'x-weir-warnings',
  'idempotency-replayed',
  'etag',
  ...['limit', 'remaining', 'reset'].flatMap((figure) =>
    ['requests', 'tokens'].map((unit) => `x-ratelimit-${figure}-${unit}`),
  ),
].join(', ')

const methods = 'GET, POST, DELETE'
/** How long a browser may cache a preflight, seconds; Chromium's maximum. */
const maxAge = '7200'
/** Header names as a browser lists them: nothing else may be echoed to it. */
const headerNames = /^[\w!#$%&'*+.^`|~, -]{1,4096}$/

/**
 * Wraps a handler for browsers: answers preflights and lets pages of these origins read answers under /v1. `*` allows
 * all origins, an empty list none. Never with credentials.
 */
export function crossOrigin(origins: readonly string[], handle: Fetch): Fetch {
  const all = origins.includes('*')
  const named = new Set(origins)

  function readers(request: Request): Record<string, string> | undefined {
    const origin = request.headers.get('origin')
    if (origin === null || !openPath.test(URL.parse(request.url)?.pathname ?? '')) return undefined
    if (all) return { 'access-control-allow-origin': '*' }
    return named.has(origin) ? { 'access-control-allow-origin': origin, vary: 'origin' } : undefined
  }

  return (request) => {
    const allowed = readers(request)
    if (allowed === undefined) return handle(request)
    if (request.method === 'OPTIONS' && request.headers.has('access-control-request-method'))
      return new Response(null, { status: 204, headers: { ...allowed, ...askedHeaders(request.headers) } })
    const answer = handle(request)
    return answer instanceof Promise
      ? answer.then((response) => readable(response, allowed))
      : readable(answer, allowed)
  }
}

/** The headers that the page may send: client libraries add their own, and none has any effect here. */
function askedHeaders(headers: Headers): Record<string, string> {
  const wanted = headers.get('access-control-request-headers') ?? ''
  return {
    'access-control-allow-methods': methods,
    ...(headerNames.test(wanted) ? { 'access-control-allow-headers': wanted } : {}),
    'access-control-max-age': maxAge,
  }
}

function readable(response: Response, allowed: Record<string, string>): Response {
  for (const [name, value] of Object.entries(allowed)) {
    if (name === 'vary') response.headers.append(name, value)
    else response.headers.set(name, value)
  }
  response.headers.set('access-control-expose-headers', exposed)
  return response
}
