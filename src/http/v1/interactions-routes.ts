// Gemini's Interactions. Its handlers and schemas are loaded with their first caller.

import { authenticateEither } from '../intake/caller.ts'
import type { ServingParts } from '../parts.ts'
import { asCaller, type Identify, refusalIn, type Refuse, type Route } from '../route.ts'
import type { StoredResponses } from './responses.ts'

/** Google's clients send the key as `x-goog-api-key`, or as a bearer. */
const byGoogleKey: Identify = (parts, request) => authenticateEither(request.headers, parts, 'x-goog-api-key')

/** An error as the clients of interactions read it. */
export const refuseInteraction: Refuse = refusalIn(({ error: { code, message, param, metadata } }) => ({
  error: { code, message, ...(param === null ? {} : { param }), metadata },
}))
const errors = () => refuseInteraction

export const createInteraction: Route<ServingParts> = {
  method: 'POST',
  path: '/v1beta/interactions',
  handle: async (parts, call) =>
    (await import('./interactions.ts')).createInteraction(parts, call, refuseInteraction),
  identify: byGoogleKey,
  errors,
  operation: async () => (await import('./interactions-documentation.ts')).createInteraction,
}

export const getInteraction: Route<StoredResponses> = {
  method: 'GET',
  path: '/v1beta/interactions/:id',
  handle: async (parts, call) =>
    (await import('./interactions.ts')).showInteraction(parts, await call.caller(), call),
  identify: byGoogleKey,
  errors,
  operation: async () => (await import('./interactions-documentation.ts')).getInteraction,
}

export const deleteInteraction: Route = {
  method: 'DELETE',
  path: '/v1beta/interactions/:id',
  handle: asCaller(async (parts, caller, call) =>
    (await import('./interactions.ts')).deleteInteraction(parts, caller, call),
  ),
  identify: byGoogleKey,
  errors,
  operation: async () => (await import('./interactions-documentation.ts')).deleteInteraction,
}

// Where Google's client libraries call from their third version on.

export const createInteractionV1: Route<ServingParts> = {
  ...createInteraction,
  path: '/v1/interactions',
  operation: async () => (await import('./interactions-documentation.ts')).createInteractionV1,
}

export const getInteractionV1: Route<StoredResponses> = {
  ...getInteraction,
  path: '/v1/interactions/:id',
  operation: async () => (await import('./interactions-documentation.ts')).getInteractionV1,
}

export const deleteInteractionV1: Route = {
  ...deleteInteraction,
  path: '/v1/interactions/:id',
  operation: async () => (await import('./interactions-documentation.ts')).deleteInteractionV1,
}
