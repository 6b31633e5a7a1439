// The gateway's own API for the tools of its MCP server: called in process through the public routes, so that a call
// is admitted, limited, charged and logged like any other.

import type { Caller } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import { logOwnFault } from '../intake/answer.ts'
import { errorResponse, newRequestId } from '../intake/error-response.ts'
import { credentialOf, noteRefusal } from '../intake/note-refusal.ts'
import type { HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'
import { getCredits } from '../v1/account.ts'
import { createChatCompletion, estimateCall } from '../v1/chat.ts'
import { listModels } from '../v1/models.ts'
import { createResponse } from '../v1/responses-routes.ts'
import type { GatewayApi } from './server.ts'

const routes: readonly Route[] = [createChatCompletion, createResponse, estimateCall, listModels, getCredits]

/** The API as `caller`, for a request to the gateway's address `base`; `gone` aborts when nobody waits any more. */
export function ownApi(parts: HttpParts, base: string, caller: Caller, gone: AbortSignal): GatewayApi {
  // The outer request has its idle timeout lifted already.
  const within: HttpParts = { ...parts, keepOpen: () => undefined, closeWhenIdle: () => undefined }
  return async (path, body, signal) => {
    const url = new URL(path, base)
    const route = routes.find((each) => each.path === url.pathname)!
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = { 'content-type': 'application/json' }
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
