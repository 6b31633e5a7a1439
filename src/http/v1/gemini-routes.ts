// Gemini's protocol. Its handlers and schemas are loaded with their first caller.

import { authenticateEither } from '../intake/caller.ts'
import type { ServingParts } from '../parts.ts'
import { type Identify, refuseGemini, type Route } from '../route.ts'

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
