// Pages of other origins call /v1 from a browser. A bearer key is no ambient authority: a page that has none can ask
// for nothing, so every origin may. Sessions of the app and the console are cookies' kin and stay with their own origin.

type Fetch = (request: Request) => Response | Promise<Response>

/** Where keys are the only authority. */
const openPath = /^\/(v1|v1beta)\//

/** What answers tell in headers. Without this list a page sees none but those of caching. */
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
].join(', ')

const methods = 'GET, POST, DELETE'
/** How long a browser may remember a preflight, seconds; Chromium's own most. */
const maxAge = '7200'
/** Names of headers, as a browser lists them: what is repeated to it must hold nothing else. */
const headerNames = /^[\w!#$%&'*+.^`|~, -]{1,4096}$/

/**
 * The same handler for browsers: answers their preflights and lets pages of these origins read the answers under /v1;
 * `*` stands for all, and of an empty list there are none. Never with credentials.
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
      return new Response(null, { status: 204, headers: { ...allowed, ...asked(request.headers) } })
    const answer = handle(request)
    return answer instanceof Promise
      ? answer.then((response) => readable(response, allowed))
      : readable(answer, allowed)
  }
}

/** What the page may send: a client library adds headers of its own to ours, and none of them has power here. */
function asked(headers: Headers): Record<string, string> {
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
