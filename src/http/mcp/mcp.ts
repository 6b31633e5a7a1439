// /mcp: the gateway as an MCP server, by Streamable HTTP. Without sessions: each request brings its key, and nothing is
// kept between two of them.

import { GatewayError } from '../../errors.ts'
import { errorResponse } from '../intake/error-response.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { Call, Route } from '../route.ts'

/** Every version of the protocol is served; other methods are for sessions, and for what a server says unasked. */
export const callMcp: Route = {
  method: 'POST',
  path: '/mcp',
  handle: serve,
  errors: () => (thrown, requestId, publicUrl) => {
    const response = errorResponse(thrown, requestId, publicUrl)
    // Clients look here for what is asked of them. There is nothing to log in at: a key is made in the console.
    if (response.status === 401) response.headers.set('www-authenticate', 'Bearer realm="weir"')
    return response
  },
  operation: async () => (await import('./documentation.ts')).mcp,
}

async function serve(parts: HttpParts, { request, caller: identify }: Call): Promise<Response> {
  refuseForeignPage(parts, request)
  refuseByHeaders(request.headers, parts.body)
  const caller = await identify()
  const { json } = await readJson(request, parts)
  parts.keepOpen(request)
  // Most gateways are never asked here.
  const { createMcpHandler } = await import('@modelcontextprotocol/server')
  const { gatewayServer } = await import('./server.ts')
  const { ownApi } = await import('./api.ts')
  const handler = createMcpHandler(() => gatewayServer(ownApi(parts, request, caller)), {
    // Nothing here ever changes while somebody listens.
    maxSubscriptions: 0,
    onerror: (error) => parts.log.debug('a request to the MCP server failed', { error }),
  })
  return handler.fetch(request, { parsedBody: json })
}

/** The specification wants it, against pages whose host name leads here only since they were loaded. */
function refuseForeignPage({ site }: HttpParts, { headers }: Request): void {
  const origin = headers.get('origin')
  if (origin === null || site.origins().has(origin) || isLocal(origin)) return
  throw new GatewayError('origin_not_allowed')
}

/** Programs on the caller's own machine have pages too. */
function isLocal(origin: string): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(URL.parse(origin)?.hostname ?? '')
}
