// /mcp: the gateway as an MCP server over Streamable HTTP. Each request carries its key; a session is a name alone.

import { type Caller, lineOf } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  credentialOf,
  errorResponse,
  logOwnFault,
  newRequestId,
  noteRefusal,
  type Route,
  type RouteCall,
} from '../route.ts'
import { closedWhenIdle, readCall, tagsHeader } from '../intake/read-body.ts'
import type { Site } from '../intake/caller.ts'
import type { HttpParts } from '../parts.ts'
import { getCredits } from '../v1/account.ts'
import { createChatCompletion, estimateCall } from '../v1/chat.ts'
import { listModels } from '../v1/models.ts'
import { createResponse } from '../v1/responses-routes.ts'
import { sessionHeader, withSession } from './running-calls.ts'
import type { GatewayApi } from './server.ts'

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
  operation: async () => (await import('../service/documentation.ts')).mcp,
}

async function serve(parts: HttpParts, call: RouteCall): Promise<Response> {
  const { request, requestId } = call
  refuseForeignPage(parts, request)
  const { caller, json } = await readCall(parts, call)
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
  const ask = ownApi(parts, request, caller, running.signal)
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

// The gateway's own API for the tools of its MCP server: called in process through the public routes, so that a call
// is admitted, limited, charged and logged like any other.

const routes: readonly Route[] = [createChatCompletion, createResponse, estimateCall, listModels, getCredits]

/**
 * The API as `caller`, for a request to the gateway whose tags are those of its calls; `gone` aborts when nobody waits
 * any more.
 */
export function ownApi(
  parts: HttpParts,
  outer: Pick<Request, 'url' | 'headers'>,
  caller: Caller,
  gone: AbortSignal,
): GatewayApi {
  const tags = outer.headers.get(tagsHeader)
  // The outer request has its idle timeout lifted already.
  const within: HttpParts = { ...parts, keepOpen: () => undefined, closeWhenIdle: () => undefined }
  return async (path, body, signal) => {
    const url = new URL(path, outer.url)
    const route = routes.find((each) => each.path === url.pathname)!
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = { 'content-type': 'application/json', ...(tags === null ? {} : { [tagsHeader]: tags }) }
    const request = new Request(url, {
      method: route.method,
      headers,
      // The library may report a disconnected client late, or never.
      signal: AbortSignal.any([signal, gone]),
      ...(text === undefined ? {} : { body: text }),
    })
    const requestId = newRequestId()
    const arrivedAt = performance.now()
    try {
      const call = { request, requestId, params: {}, caller: () => caller, askedBy: () => undefined }
      return await route.handle(within, call)
    } catch (thrown) {
      logOwnFault(parts, thrown, requestId)
      if (thrown instanceof GatewayError) {
        const known = credentialOf(caller)
        noteRefusal(parts, { request, requestId, arrivedAt, known, identify: () => caller }, thrown)
      }
      return errorResponse(thrown, requestId, parts.publicUrl())
    } finally {
      parts.largeBodies.leave(requestId)
    }
  }
}

// Describes the gateway as an OAuth client, for authorisation servers that read this instead of registering it
// (draft-ietf-oauth-client-id-metadata-document).

const path = '/client-metadata.json'

/** Below the console's API: where authorisation servers redirect browsers to. */
export const mcpCallback = 'mcp-servers/callback'

/** The client id of this gateway; undefined if authorisation servers could not read its document. */
export function clientMetadataUrl(site: Pick<Site, 'url'>): string | undefined {
  const url = site.url()
  return url.startsWith('https://') ? `${url}${path}` : undefined
}

export const clientMetadataDocument: Route = {
  method: 'GET',
  path,
  handle: ({ site, mcpAuthorization }) => {
    const url = site.url()
    const described = mcpAuthorization.clientMetadata(`${url}/console/api/${mcpCallback}`)
    return Response.json({ client_id: `${url}${path}`, ...described })
  },
}
