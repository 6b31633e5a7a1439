// /mcp: the gateway as an MCP server over Streamable HTTP. Each request carries its key; a session is a name alone.

import { lineOf } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import { errorResponse } from '../intake/error-response.ts'
import { closedWhenIdle, readCall, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { Call, Route } from '../route.ts'
import { ownApi } from './api.ts'
import type { GatewayApi } from './server.ts'
import { sessionHeader, withSession } from './running-calls.ts'

/** Serves every protocol version. Other methods are for sessions and server-initiated messages. */
export const callMcp: Route = {
  method: 'POST',
  path: '/mcp',
  handle: serve,
  errors: () => (thrown, requestId, publicUrl) => {
    const response = errorResponse(thrown, requestId, publicUrl)
    // Clients look here for how to authenticate. There is no login: a key is created in the console.
    if (response.status === 401) response.headers.set('www-authenticate', 'Bearer realm="weir"')
    return response
  },
  operation: async () => (await import('./documentation.ts')).mcp,
}

async function serve(parts: HttpParts, call: Call): Promise<Response> {
  const { request, requestId } = call
  refuseForeignPage(parts, request)
  refuseByHeaders(request.headers, parts.body)
  const caller = await call.caller()
  const { json } = await readCall(parts, request, requestId, caller)
  // A tool that asks a model is a request of its own, which must not wait for this one.
  parts.largeBodies.leave(requestId)
  parts.keepOpen(request)
  // Loaded with the first request: most gateways never get one.
  const { createMcpHandler } = await import('@modelcontextprotocol/server')
  const { gatewayServer } = await import('./server.ts')
  const running = parts.mcpCalls.begin(json, {
    account: caller.account.id,
    line: caller.key === null ? '' : lineOf(caller.key),
    session: request.headers.get(sessionHeader),
    gone: request.signal,
  })
  const ask = ownApi(parts, request.url, caller, running.signal)
  // A tool is one request to the API: once that is answered nothing is left to cancel.
  const api: GatewayApi = (...asked) => ask(...asked).finally(running.end)
  const handler = createMcpHandler(() => gatewayServer(api), {
    // Nothing here changes while a client listens.
    maxSubscriptions: 0,
    onerror: (error) => parts.log.debug('a request to the MCP server failed', { error }),
  })
  const answer = withSession(json, await handler.fetch(request, { parsedBody: json }))
  return closedWhenIdle(parts, request, answer)
}

/** Required by the specification, against DNS rebinding. */
function refuseForeignPage({ site }: HttpParts, { headers }: Request): void {
  const origin = headers.get('origin')
  if (origin === null || site.origins().has(origin) || isLocal(origin)) return
  throw new GatewayError('origin_not_allowed')
}

/** Programs on the caller's own machine may serve pages too. */
function isLocal(origin: string): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(URL.parse(origin)?.hostname ?? '')
}
