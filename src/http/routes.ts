// Every route, in one place. Elysia routes; what an answer is, the handlers say.

import { Elysia } from 'elysia'
import type { Caller } from '../accounts/caller.ts'
import type { Awaitable } from '../awaitable.ts'
import { errorReference, GatewayError } from '../errors.ts'
import { describeCredits, describeGeneration, describeKey } from './v1/account.ts'
import { signedIn } from './app/signed-in.ts'
import { authenticate } from './intake/authenticate.ts'
import { byKey, chatCompletions, createCompletion, type Identify } from './v1/chat-completions.ts'
import { createEmbeddings } from './v1/embeddings.ts'
import { errorResponse, newRequestId, type Refuse } from './intake/error-response.ts'
import { estimateCall } from './v1/estimate.ts'
import { refuseGemini } from './v1/gemini-errors.ts'
import { checkHeaders, checkTarget } from './intake/header-guard.ts'
import { countMessageTokens, createMessage, refuseMessages } from './v1/messages.ts'
import { listModels, showModel, speaksMessages } from './v1/models.ts'
import { describeProviders } from './v1/providers.ts'
import { listRequests, showRequest } from './v1/requests.ts'
import type { Service } from './service.ts'
import { accountUsage, csvResponse, usageCsv } from './v1/usage.ts'
import { type RouteName, wrongTarget } from './intake/wrong-target.ts'

type Handler = (request: Request, requestId: string) => Response | Promise<Response>

/** The application: takes requests, gives responses, listens nowhere. No failure leaves it as an exception. */
export function createRoutes(service: Service) {
  const { ledger, now } = service
  const answer =
    (handler: Handler, refuse?: Refuse) =>
    ({ request }: { request: Request }) =>
      answered(service, request, handler, refuse)
  type Describe = (caller: Caller, request: Request) => Awaitable<object>
  const asCaller = (describe: Describe) =>
    answer(async (request, requestId) =>
      Response.json(await describe(await authenticate(request.headers, service), request), {
        headers: { 'x-request-id': requestId },
      }),
    )
  const asSignedIn = (describe: Describe) =>
    answer(async (request, requestId) =>
      Response.json(await describe(await signedIn(service, request), request), {
        headers: { 'x-request-id': requestId },
      }),
    )
  const credits: Describe = (caller) => describeCredits(caller, ledger, now())
  const generation: Describe = (caller, request) =>
    describeGeneration(caller, ledger, new URL(request.url).searchParams.get('id'))

  // Loaded with their first caller, as the documentation is with its first reader: a second protocol's schemas, the plugin
  // and the documents would only make the start slower.
  const createResponse = (identify: Identify) =>
    answer(async (request, id) =>
      (await import('./v1/responses.ts')).createResponse(service, request, id, identify),
    )
  type Act = 'showResponse' | 'deleteResponse' | 'listInputItems'
  const ofResponse =
    (identify: Identify, act: Act) =>
    ({ request, params }: { request: Request; params: { id: string } }) =>
      answered(service, request, async () => {
        const caller = await identify(service, request)
        const acts = await import('./v1/stored-responses.ts')
        return Response.json(await acts[act](service, caller, params.id, request))
      })
  const gemini = ({ request, params }: { request: Request; params: { '*': string } }) =>
    answered(
      service,
      request,
      async (_request, id) => (await import('./v1/gemini.ts')).callGemini(service, request, id, params['*']),
      refuseGemini,
    )
  const listGemini = async (request: Request) =>
    (await import('./v1/gemini.ts')).listGeminiModels(service.catalog, request)
  const showGemini = async (id: string) =>
    (await import('./v1/gemini.ts')).showGeminiModel(service.catalog, id)
  const console = answer(async (request) =>
    (await import('./console/pages.ts')).consolePage(request, service.publicUrl()),
  )
  const documentation = answer(async (request) => (await import('./docs/docs.ts')).docs(request))

  let served: () => readonly RouteName[] = () => []

  // Elysia looks for the path behind the eleventh character of the URL unless told that hosts may be short.
  const routes = new Elysia({ aot: true, handler: { standardHostname: false } })
    .post(
      '/v1/chat/completions',
      answer((request, id) => chatCompletions(service, request, id)),
      { parse: 'none' },
    )
    .post(
      '/v1/completions',
      answer((request, id) => createCompletion(service, request, id)),
      { parse: 'none' },
    )
    .post('/v1/responses', createResponse(byKey), { parse: 'none' })
    .get('/v1/responses/:id', ofResponse(byKey, 'showResponse'))
    .delete('/v1/responses/:id', ofResponse(byKey, 'deleteResponse'), { parse: 'none' })
    .get('/v1/responses/:id/input_items', ofResponse(byKey, 'listInputItems'))
    .post(
      '/v1/messages',
      answer((request, id) => createMessage(service, request, id), refuseMessages),
      { parse: 'none' },
    )
    .post(
      '/v1/messages/count_tokens',
      answer((request, id) => countMessageTokens(service, request, id), refuseMessages),
      { parse: 'none' },
    )
    .post(
      '/v1/embeddings',
      answer((request, id) => createEmbeddings(service, request, id)),
      { parse: 'none' },
    )
    .post(
      '/v1/estimate',
      answer((request, id) => estimateCall(service, request, id)),
      { parse: 'none' },
    )
    // Google's client libraries call v1beta, or v1 from their third version on.
    .post('/v1beta/models/*', gemini, { parse: 'none' })
    .post('/v1/models/*', gemini, { parse: 'none' })
    .get('/v1beta/models', answer(listGemini, refuseGemini))
    .get('/v1beta/models/*', ({ request, params }) =>
      answered(service, request, () => showGemini(params['*']), refuseGemini),
    )
    .get('/v1/models', ({ request }) =>
      answered(
        service,
        request,
        () => (isOfGoogle(request) ? listGemini(request) : listModels(service, request)),
        refusalFor(request),
      ),
    )
    .get('/v1/models/*', ({ request, params }) =>
      answered(
        service,
        request,
        () => (isOfGoogle(request) ? showGemini(params['*']) : showModel(service, request, params['*'])),
        refusalFor(request),
      ),
    )
    .get(
      '/v1/key',
      asCaller((caller) => describeKey(caller, ledger, now())),
    )
    .get('/v1/credits', asCaller(credits))
    .get('/v1/generation', asCaller(generation))
    .get(
      '/v1/requests',
      asCaller((caller, request) => listRequests(caller, service.requests, request)),
    )
    .get('/v1/requests/:id', ({ request, params }) =>
      answered(service, request, async () => {
        const caller = await authenticate(request.headers, service)
        return Response.json(await showRequest(caller, service.requests, ledger, params.id))
      }),
    )
    .get(
      '/v1/usage',
      answer(async (request) => {
        const { account } = await authenticate(request.headers, service)
        return Response.json(await accountUsage(service, account, request))
      }),
    )
    .get(
      '/v1/usage.csv',
      answer(async (request) => {
        const { account } = await authenticate(request.headers, service)
        const view = await accountUsage(service, account, request)
        return csvResponse(usageCsv(view), `usage-${view.from}-${view.to}.csv`)
      }),
    )
    .post(
      '/app/v1/chat/completions',
      answer((request, id) => chatCompletions(service, request, id, signedIn)),
      { parse: 'none' },
    )
    .post('/app/v1/responses', createResponse(signedIn), { parse: 'none' })
    .get('/app/v1/responses/:id', ofResponse(signedIn, 'showResponse'))
    .delete('/app/v1/responses/:id', ofResponse(signedIn, 'deleteResponse'), { parse: 'none' })
    .get('/app/v1/responses/:id/input_items', ofResponse(signedIn, 'listInputItems'))
    .post(
      '/app/v1/estimate',
      answer((request, id) => estimateCall(service, request, id, signedIn)),
      { parse: 'none' },
    )
    .get(
      '/app/v1/models',
      answer(async (request) => {
        await signedIn(service, request)
        return listModels(service, request)
      }),
    )
    .get('/app/v1/models/*', ({ request, params }) =>
      answered(service, request, async () => {
        await signedIn(service, request)
        return showModel(service, request, params['*'])
      }),
    )
    .get('/app/v1/credits', asSignedIn(credits))
    .get('/app/v1/generation', asSignedIn(generation))
    .get(
      '/v1/providers',
      asCaller((caller) => describeProviders(service.gateway, caller)),
    )
    .get(
      '/v1/errors',
      answer(() => Response.json({ object: 'list', data: errorReference() })),
    )
    .get('/', () => new Response(null, { status: 302, headers: { location: '/console' } }))
    .get('/console', console)
    .get('/console/*', console)
    .get('/docs', documentation)
    .get('/docs/*', documentation)
    .get('/healthz', () => Response.json({ status: 'ok' }))
    .get('/readyz', () => readiness(service))
    .all('/*', ({ request }) => {
      const nowhere = () => {
        throw wrongTarget(request, served(), service.publicUrl())
      }
      return answered(service, request, nowhere, refusalFor(request))
    })
    .onError(({ error }) => errorResponse(error, newRequestId()))
  served = () => routes.routes
  return routes
}

async function answered(
  service: Service,
  request: Request,
  handler: Handler,
  refuse: Refuse = errorResponse,
): Promise<Response> {
  const requestId = newRequestId()
  try {
    checkHeaders(request.headers, service.body.maxHeaderBytes)
    checkTarget(request)
    const response = await service.turns.run(() => handler(request, requestId), 'new')
    if (!response.headers.has('x-request-id')) response.headers.set('x-request-id', requestId)
    return response
  } catch (thrown) {
    if (!(thrown instanceof GatewayError) || thrown.code === 'internal_error') {
      service.log.error('a request failed inside the gateway', { request_id: requestId, error: thrown })
    }
    if (thrown instanceof GatewayError) noteRefusal(service, request, thrown, requestId)
    return refuse(thrown, requestId)
  }
}

/** Every error carries a request id that finds it in the log, also where no call came of the request. */
function noteRefusal({ calls }: Service, request: Request, error: GatewayError, requestId: string): void {
  const { code, status, details } = error
  const path = URL.parse(request.url)?.pathname.slice(0, 200)
  const fields = { request_id: requestId, method: request.method, path, status, code, param: details.param }
  calls.turnedAway(fields, error)
}

function readiness(service: Service): Response {
  const writable = service.ledger.writable()
  const ready = writable && service.ready()
  const body = {
    status: ready ? 'ready' : 'not ready',
    store: writable ? 'writable' : 'unavailable',
    draining: !service.ready(),
  }
  return Response.json(body, { status: ready ? 200 : 503 })
}

/** Google's clients say so by the name of the header that carries their key. */
function isOfGoogle({ headers }: Request): boolean {
  return headers.has('x-goog-api-key')
}

/** The shape of errors that the client knows, though what it asks for may not be served. */
function refusalFor(request: Request): Refuse {
  const path = URL.parse(request.url)?.pathname ?? ''
  if (/^\/v1\/messages(\/|$)/.test(path)) return refuseMessages
  if (path.startsWith('/v1beta/')) return refuseGemini
  if (!/^\/v1\/models(\/|$)/.test(path)) return errorResponse
  return isOfGoogle(request) ? refuseGemini : speaksMessages(request) ? refuseMessages : errorResponse
}
