// Gemini's protocol. Its handlers and schemas are loaded with their first caller.

import { authenticateEither } from '../intake/caller.ts'
import type { ServingParts } from '../parts.ts'
import { asCaller, type Identify, refusalIn, type Refuse, refuseGemini, type Route } from '../route.ts'
import type { StoredResponses } from './responses.ts'

/** Google's clients send the key as `x-goog-api-key`, or as a bearer. */
const byGoogleKey: Identify = (parts, request) => authenticateEither(request.headers, parts, 'x-goog-api-key')

const errors = () => refuseGemini

export const callGemini: Route<ServingParts> = {
  method: 'POST',
  path: '/v1beta/models/*',
  handle: async (parts, call) => (await import('./gemini.ts')).callGemini(parts, call),
  identify: byGoogleKey,
  errors,
  operation: async () => (await import('./gemini-documentation.ts')).callGemini,
}

/** Where Google's client libraries call from their third version on. */
export const callGeminiV1: Route<ServingParts> = {
  ...callGemini,
  path: '/v1/models/*',
  operation: async () => (await import('./gemini-documentation.ts')).callGeminiV1,
}

/** The AI SDK's provider for Google puts no `models/` before a name that has a slash. */
export const callGeminiBare: Route<ServingParts> = {
  method: 'POST',
  path: '/v1beta/:provider/*',
  handle: async (parts, call) => {
    const { provider, '*': rest } = call.params
    return (await import('./gemini.ts')).callGemini(parts, {
      ...call,
      params: { '*': `${provider}/${rest}` },
    })
  },
  identify: byGoogleKey,
  errors,
  operation: async () => (await import('./gemini-documentation.ts')).callGeminiBare,
}

export const listGeminiModels: Route<ServingParts> = {
  method: 'GET',
  path: '/v1beta/models',
  handle: async (parts, { request }) => (await import('./gemini.ts')).listGeminiModels(parts, request),
  errors,
  operation: async () => (await import('./gemini-documentation.ts')).listModels,
}

export const showGeminiModel: Route<ServingParts> = {
  method: 'GET',
  path: '/v1beta/models/*',
  handle: async (parts, { request, params }) =>
    (await import('./gemini.ts')).showGeminiModel(parts, request, params['*']!),
  errors,
  operation: async () => (await import('./gemini-documentation.ts')).showModel,
}

// Gemini's Interactions. Its handlers and schemas are loaded with their first caller.

/** An error as the clients of interactions read it. */
export const refuseInteraction: Refuse = refusalIn(({ error: { code, message, param, metadata } }) => ({
  error: { code, message, ...(param === null ? {} : { param }), metadata },
}))
const ofInteractions = { identify: byGoogleKey, errors: () => refuseInteraction }

export const createInteraction: Route<ServingParts> = {
  method: 'POST',
  path: '/v1beta/interactions',
  handle: async (parts, call) =>
    (await import('./gemini.ts')).createInteraction(parts, call, refuseInteraction),
  ...ofInteractions,
  operation: async () => (await import('./gemini-documentation.ts')).createInteraction,
}

export const getInteraction: Route<StoredResponses> = {
  method: 'GET',
  path: '/v1beta/interactions/:id',
  handle: async (parts, call) =>
    (await import('./gemini.ts')).showInteraction(parts, await call.caller(), call),
  ...ofInteractions,
  operation: async () => (await import('./gemini-documentation.ts')).getInteraction,
}

export const deleteInteraction: Route = {
  method: 'DELETE',
  path: '/v1beta/interactions/:id',
  handle: asCaller(async (parts, caller, call) =>
    (await import('./gemini.ts')).deleteInteraction(parts, caller, call),
  ),
  ...ofInteractions,
  operation: async () => (await import('./gemini-documentation.ts')).deleteInteraction,
}

// Where Google's client libraries call from their third version on.

export const createInteractionV1: Route<ServingParts> = {
  ...createInteraction,
  path: '/v1/interactions',
  operation: async () => (await import('./gemini-documentation.ts')).createInteractionV1,
}

export const getInteractionV1: Route<StoredResponses> = {
  ...getInteraction,
  path: '/v1/interactions/:id',
  operation: async () => (await import('./gemini-documentation.ts')).getInteractionV1,
}

export const deleteInteractionV1: Route = {
  ...deleteInteraction,
  path: '/v1/interactions/:id',
  operation: async () => (await import('./gemini-documentation.ts')).deleteInteractionV1,
}
