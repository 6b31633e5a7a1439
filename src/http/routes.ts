// All routes. The handlers build the answers.

import {
  application,
  errorResponse,
  inApp,
  inAppOnly,
  type Refuse,
  refuseGemini,
  refuseScim,
  type Route,
  wrongTarget,
} from './route.ts'
import { sitePath } from './intake/caller.ts'
import { freely } from './intake/paid/limits.ts'
import { callMcp, clientMetadataDocument } from './mcp/mcp.ts'
import {
  appleHook,
  createTopUp,
  getTopUp,
  processorHooks,
  processorCallbacks,
  redeemVoucher,
  simulatedPage,
  subscriptionHook,
} from './payments/top-ups.ts'
import { buyPlan, listPlans } from './payments/plans.ts'
import type { HttpParts } from './parts.ts'
import { getHealth, getMetrics, getReadiness, listErrors } from './service/health.ts'
import { errorsForModels, listModels, listProviders, showModel } from './v1/models.ts'
import {
  getCredits,
  getGeneration,
  getKey,
  getRequest,
  getUsage,
  getUsageCsv,
  listRequests,
  reportLeakedKey,
} from './v1/account.ts'
import {
  createChatCompletion,
  createCompletion,
  createDecision,
  createEmbeddings,
  estimateCall,
  explainModel,
} from './v1/chat.ts'
import {
  callGemini,
  callGeminiBare,
  callGeminiV1,
  createInteraction,
  createInteractionV1,
  deleteInteraction,
  deleteInteractionV1,
  getInteraction,
  getInteractionV1,
  listGeminiModels,
  refuseInteraction,
  showGeminiModel,
} from './v1/google-routes.ts'
import { countMessageTokens, createMessage, refuseMessages } from './v1/messages.ts'
import {
  cancelResponse,
  compactConversation,
  conversationRoutes,
  countInputTokens,
  createResponse,
  deleteResponse,
  getResponse,
  listInputItems,
  openResponseSocket,
} from './v1/responses-routes.ts'

/** The API: every route that the documentation describes. */
export const api: readonly Route[] = [
  createChatCompletion,
  createCompletion,
  createMessage,
  countMessageTokens,
  callGemini,
  callGeminiV1,
  callGeminiBare,
  listGeminiModels,
  showGeminiModel,
  createResponse,
  openResponseSocket,
  compactConversation,
  createInteraction,
  createInteractionV1,
  countInputTokens,
  createEmbeddings,
  createDecision,
  estimateCall,
  explainModel,
  listModels,
  showModel,
  inApp(createChatCompletion),
  inApp(createResponse),
  inApp(estimateCall),
  inApp(explainModel),
  inAppOnly(listModels),
  inAppOnly(showModel),
  getHealth,
  getResponse,
  cancelResponse,
  deleteResponse,
  listInputItems,
  ...conversationRoutes,
  getInteraction,
  deleteInteraction,
  getInteractionV1,
  deleteInteractionV1,
  getGeneration,
  getKey,
  reportLeakedKey,
  getCredits,
  getUsage,
  getUsageCsv,
  listRequests,
  getRequest,
  inApp(getResponse),
  inApp(cancelResponse),
  inApp(deleteResponse),
  inApp(listInputItems),
  inApp(getCredits),
  inApp(getGeneration),
  callMcp,
  createTopUp,
  getTopUp,
  listPlans,
  buyPlan,
  ...processorHooks,
  subscriptionHook,
  appleHook,
  redeemVoucher,
  listProviders,
  listErrors,
  getReadiness,
  getMetrics,
]

const toConsole: Route['handle'] = (parts) =>
  new Response(null, { status: 302, headers: { location: `${sitePath(parts.publicUrl())}/console` } })
const consolePage: Route['handle'] = (parts, { request }) =>
  freely(parts, request, async () =>
    (await import('./console/pages.ts')).consolePage(request, parts.publicUrl()),
  )
const consoleApi: Route['handle'] = async (parts, call) =>
  (await import('./console/api.ts')).consoleApi(parts, call)
const adminApi: Route['handle'] = async (parts, call) =>
  (await import('./console/api.ts')).adminApi(parts, call)
const scimApi: Route['handle'] = async (parts, call) => (await import('./scim/api.ts')).scimApi(parts, call)
const documentation: Route['handle'] = (parts, { request }) =>
  freely(parts, request, async () => {
    const { adminOperations, consoleOperations } = await import('./docs/openapi.ts')
    return (await import('./docs/docs.ts')).docs(request, [...api, ...consoleOperations, ...adminOperations])
  })

const pages: readonly Route[] = [
  { method: 'GET', path: '/', handle: toConsole },
  { method: 'GET', path: '/console', handle: consolePage },
  { method: 'GET', path: '/console/*', handle: consolePage },
  // Otherwise the page's GET would take precedence over the API's catch-all.
  { method: 'GET', path: '/console/api/*', handle: consoleApi },
  { method: 'ALL', path: '/console/api/*', handle: consoleApi },
  { method: 'ALL', path: '/admin/v1/*', handle: adminApi },
  { method: 'ALL', path: '/scim/v2/*', handle: scimApi, errors: () => refuseScim },
  clientMetadataDocument,
  ...processorCallbacks,
  ...simulatedPage,
  { method: 'GET', path: '/docs', handle: documentation },
  { method: 'GET', path: '/docs/*', handle: documentation },
]

export const routes: readonly Route[] = [...api, ...pages]

/** Everything without a route. */
const nowhere: Route = {
  method: 'ALL',
  path: '/*',
  handle: (parts, { request }) => {
    throw wrongTarget(request, routes, parts.publicUrl())
  },
  errors: errorsAt,
}

/** The application: turns requests into responses without listening. Never throws. */
export function createRoutes(parts: HttpParts) {
  return application(parts, [...routes, nowhere])
}

/** The error shape for clients of an address that is not served. */
function errorsAt(request: Request): Refuse {
  const path = URL.parse(request.url)?.pathname ?? ''
  if (/^\/v1\/messages(\/|$)/.test(path)) return refuseMessages
  if (/^\/v1(beta)?\/interactions(\/|$)/.test(path)) return refuseInteraction
  if (path.startsWith('/v1beta/')) return refuseGemini
  return /^\/v1\/models(\/|$)/.test(path) ? errorsForModels(request) : errorResponse
}
