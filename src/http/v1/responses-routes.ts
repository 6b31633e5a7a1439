// The Responses protocol. Its handlers and schemas are loaded with their first caller.

import { asCaller, type Route } from '../route.ts'
import type { ServingParts } from '../parts.ts'
import type { StoredResponses } from './responses.ts'

// To import it again for each call would cost more than reading the call.
let create: typeof import('./responses.ts') | undefined

export const createResponse: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/responses',
  handle: async (parts, call) => (create ??= await import('./responses.ts')).createResponse(parts, call),
  operation: async () => (await import('./responses-documentation.ts')).createResponse,
}

export const openResponseSocket: Route<ServingParts> = {
  method: 'GET',
  path: '/v1/responses',
  handle: async (parts, call) => (await import('./responses-socket.ts')).openResponseSocket(parts, call),
  operation: async () => (await import('./responses-documentation.ts')).openResponseSocket,
}

export const compactConversation: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/responses/compact',
  handle: async (parts, call) => (await import('./responses.ts')).compactConversation(parts, call),
  operation: async () => (await import('./responses-documentation.ts')).compactConversation,
}

export const countInputTokens: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/responses/input_tokens',
  handle: async (parts, call) => (await import('./responses.ts')).countInputTokens(parts, call),
  operation: async () => (await import('./responses-documentation.ts')).countInputTokens,
}

export const getResponse: Route = {
  method: 'GET',
  path: '/v1/responses/:id',
  handle: async (parts, call) =>
    (await import('./responses.ts')).showResponse(parts, await call.caller(), call),
  operation: async () => (await import('./responses-documentation.ts')).getResponse,
}

export const cancelResponse: Route = {
  method: 'POST',
  path: '/v1/responses/:id/cancel',
  handle: asCaller(async (parts, caller, call) =>
    (await import('./responses.ts')).cancelResponse(parts, caller, call),
  ),
  operation: async () => (await import('./responses-documentation.ts')).cancelResponse,
}

export const deleteResponse: Route = {
  method: 'DELETE',
  path: '/v1/responses/:id',
  handle: asCaller(async (parts, caller, { params }) =>
    (await import('./responses.ts')).deleteResponse(parts, caller, params['id']!),
  ),
  operation: async () => (await import('./responses-documentation.ts')).deleteResponse,
}

export const listInputItems: Route<StoredResponses> = {
  method: 'GET',
  path: '/v1/responses/:id/input_items',
  handle: asCaller(async (parts, caller, call) =>
    (await import('./responses.ts')).listInputItems(parts, caller, call),
  ),
  operation: async () => (await import('./responses-documentation.ts')).listInputItems,
}

// Conversations of this protocol.

const ofConversations = (name: ConversationRoute, method: Route['method'], path: string): Route => ({
  method,
  path: `/v1/conversations${path}`,
  handle: asCaller(async (parts, caller, call) =>
    (await import('./conversations.ts'))[name](parts, caller, call),
  ),
  operation: async () => (await import('./responses-documentation.ts')).conversations[name],
})

/** Named as their handlers. */
type ConversationRoute = keyof typeof import('./responses-documentation.ts').conversations

export const conversationRoutes: readonly Route[] = [
  ofConversations('createConversation', 'POST', ''),
  ofConversations('showConversation', 'GET', '/:id'),
  ofConversations('changeConversation', 'POST', '/:id'),
  ofConversations('deleteConversation', 'DELETE', '/:id'),
  ofConversations('listItems', 'GET', '/:id/items'),
  ofConversations('addItems', 'POST', '/:id/items'),
  ofConversations('showItem', 'GET', '/:id/items/:item'),
  ofConversations('deleteItem', 'DELETE', '/:id/items/:item'),
]
