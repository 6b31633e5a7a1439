// /v1beta/models/…: Gemini's protocol, for any model of the catalog.

import type { Catalog } from '../../catalog/catalog.ts'
import type { Model } from '../../catalog/row.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  embeddingAnswer,
  type EmbeddingMethod,
  inbound,
  modelId,
  openaiEmbedding,
  withModel,
} from '../../protocols/gemini/inbound/inbound.ts'
import { isObject } from '../../protocols/lenient.ts'
import { type FreeAnswer, freely, type FreeReading } from '../intake/paid/limits.ts'
import { type Refuse, refuseGemini, type RouteCall } from '../route.ts'
import { type Caller, mayUse } from '../../accounts/account.ts'
import { answerCount, serveBody } from '../intake/paid/serve-paid.ts'
import { decodePath, readCall } from '../intake/read-body.ts'
import type { HttpParts, ServingParts } from '../parts.ts'
import { serveEmbedding } from './chat.ts'
import { encodeFrame } from '../../protocols/framing/sse.ts'
import {
  asInteraction,
  framesOf,
  interactionOf,
  responseIdOf,
  responsesBody,
} from '../../protocols/interactions/inbound.ts'
import { unsupportedParam } from '../../protocols/request/fields.ts'
import { createResponse, deleteResponse, storedOf, type StoredResponses } from './responses.ts'

type Act = (parts: ServingParts, call: RouteCall, model: string) => Promise<Response>

const methods: Readonly<Record<string, Act>> = {
  generateContent: (...given) => generate(...given, 'whole'),
  streamGenerateContent: (...given) => generate(...given, 'stream'),
  countTokens: count,
  embedContent: (...given) => embed(...given, 'embedContent'),
  batchEmbedContents: (...given) => embed(...given, 'batchEmbedContents'),
}

/** Serves `POST /v1beta/models/{model}:{method}`, also under `/v1`. Rejects with GatewayError before any byte. */
export async function callGemini(parts: ServingParts, call: RouteCall): Promise<Response> {
  const path = decodePath(call.params['*']!)
  const colon = path.lastIndexOf(':')
  const method = path.slice(colon + 1)
  if (colon < 0 || !Object.hasOwn(methods, method)) {
    const known = Object.keys(methods).join(', ')
    throw new GatewayError('not_found', {
      message: `There is no such method of a model here; these are served: ${known}.`,
    })
  }
  return methods[method]!(parts, call, path.slice(0, colon))
}

async function generate(
  parts: ServingParts,
  call: RouteCall,
  model: string,
  kind: 'whole' | 'stream',
): Promise<Response> {
  const amend = (json: JsonObject) => withModel(json, model, kind === 'stream')
  const response = await serveBody(parts, call, inbound, amend, refuseGemini)
  const asEvents = new URL(call.request.url).searchParams.get('alt') === 'sse'
  return kind === 'stream' && !asEvents && isEventStream(response) ? asArray(response) : response
}

function isEventStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true
}

/** Vectors, as POST /v1/embeddings makes them. */
function embed(
  parts: ServingParts,
  call: RouteCall,
  model: string,
  method: EmbeddingMethod,
): Promise<Response> {
  return serveEmbedding(parts, call, {
    asked: (body) => openaiEmbedding(method, body, model),
    answer: (vectors, _, usage, bill, context) => embeddingAnswer(method, vectors, usage, bill, context),
    refuse: refuseGemini,
  })
}

/** Counts the tokens of a request that is not sent anywhere. Counts as a request of its caller, and costs nothing. */
async function count(parts: ServingParts, call: RouteCall, model: string): Promise<Response> {
  const { caller, json } = await readCall(parts, call)
  const inner = json['generateContentRequest'] ?? json['generate_content_request']
  const asked = withModel(isObject(inner) ? inner : json, model, false)
  const { promptParts } = await parts.scheduler.run(() => inbound.parse(asked))
  const prompt = { model: modelId(model), parts: promptParts }
  return answerCount(parts, call, caller, prompt, (totalTokens) => ({ totalTokens }), refuseGemini)
}

/**
 * The same stream as one JSON array, which is Google's default without `alt=sse`. Our encoder writes each event as one
 * line.
 */
function asArray(response: Response): Response {
  const decoder = new TextDecoder()
  const encoder = new TextEncoder()
  let opening = '['
  let rest = ''
  const lines = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, controller) {
      const text = rest + decoder.decode(bytes, { stream: true })
      const end = text.lastIndexOf('\n') + 1
      rest = text.slice(end)
      let out = ''
      for (const line of text.slice(0, end).split('\n')) {
        if (!line.startsWith('data: ')) continue
        out += `${opening}${line.slice(6)}`
        opening = ',\n'
      }
      if (out !== '') controller.enqueue(encoder.encode(out))
    },
    flush(controller) {
      controller.enqueue(encoder.encode(opening === '[' ? '[]' : ']'))
    },
  })
  const headers = new Headers(response.headers)
  headers.set('content-type', 'application/json; charset=utf-8')
  return new Response(response.body?.pipeThrough(lines), { status: response.status, headers })
}

// ---- the catalog ------------------------------------------------------------------------------------------

const methodsOfChat = ['generateContent', 'streamGenerateContent', 'countTokens']
const methodsOfEmbeddings: readonly EmbeddingMethod[] = ['embedContent', 'batchEmbedContents']
const defaultPageSize = 50
const largestPage = 1_000

/** `GET /v1beta/models`: the models of the catalog that chat or embed, page by page. */
export function listGeminiModels(
  parts: FreeReading & { readonly catalog: Catalog },
  request: Request,
): Promise<Response> {
  return freely(parts, request, (caller) => geminiModels(parts.catalog, request, caller), 'x-goog-api-key')
}

function geminiModels(catalog: Catalog, request: Request, caller: Caller | undefined): FreeAnswer {
  const { searchParams } = new URL(request.url)
  const size = wholeNumber(searchParams.get('pageSize'), 'pageSize') ?? defaultPageSize
  const from = wholeNumber(searchParams.get('pageToken'), 'pageToken') ?? 0
  const permits = (id: string) => caller === undefined || mayUse(caller, id)
  const models = catalog.list({ permits }).filter((model) => methodsOf(model).length > 0)
  const page = models.slice(from, from + Math.min(Math.max(size, 1), largestPage))
  const next = from + page.length
  const body = JSON.stringify({
    models: page.map(modelObject),
    ...(next < models.length ? { nextPageToken: String(next) } : {}),
  })
  const response = new Response(body, { headers: { 'content-type': 'application/json' } })
  return { response, bytes: 2 * body.length }
}

/** `GET /v1beta/models/{model}`. Throws `model_not_found`. */
export function showGeminiModel(
  parts: FreeReading & { readonly catalog: Catalog },
  request: Request,
  rest: string,
): Promise<Response> {
  const show = () => Response.json(modelObject(parts.catalog.resolve(modelId(decodePath(rest)))))
  return freely(parts, request, () => ({ response: show(), bytes: 0 }), 'x-goog-api-key')
}

function modelObject({ id, name, contextLength, maxOutputTokens, outputModalities }: Model): JsonObject {
  return {
    name: `models/${id}`,
    displayName: name,
    ...(contextLength === undefined ? {} : { inputTokenLimit: contextLength }),
    ...(maxOutputTokens === undefined ? {} : { outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: [...methodsOf({ outputModalities })],
  }
}

function methodsOf({ outputModalities }: Pick<Model, 'outputModalities'>): readonly string[] {
  if (outputModalities.includes('embeddings')) return methodsOfEmbeddings
  return outputModalities.includes('text') ? methodsOfChat : []
}

function wholeNumber(text: string | null, param: string): number | undefined {
  if (text === null || text === '') return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new GatewayError('invalid_request', { message: `'${param}' must be a whole number.`, param })
}

// /v1beta/interactions: Gemini's Interactions, over what is stored of responses.

/** Serves one interaction. Rejects with GatewayError before the first byte. */
export function createInteraction(parts: ServingParts, asked: RouteCall, refuse: Refuse): Promise<Response> {
  return createResponse(parts, asked, {
    body: (json, bytes) => ({ json: responsesBody(json), bytes }),
    inbound: asInteraction,
    refuse,
  })
}

/**
 * A stored interaction, whole or with `stream=true` as its events. Throws `not_found`, and `unsupported_parameter` for
 * `last_event_id`: a stored text is given in one piece.
 */
export async function showInteraction(
  parts: StoredResponses,
  caller: Caller,
  asked: RouteCall,
): Promise<Response> {
  const { searchParams } = new URL(asked.request.url)
  if (searchParams.get('last_event_id') !== null)
    throw unsupportedParam('last_event_id', 'a stored interaction is given from its beginning.')
  const { answer } = await storedOf(parts, caller, withResponseId(asked))
  const headers = { 'x-request-id': asked.requestId }
  if (searchParams.get('stream') !== 'true') return Response.json(interactionOf(answer), { headers })
  return new Response(framesOf(answer).map(encodeFrame).join(''), {
    headers: { ...headers, 'content-type': 'text/event-stream; charset=utf-8' },
  })
}

/** Resolves with Google's empty answer when it is gone from the disk. Rejects with `not_found`. */
export async function deleteInteraction(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  await deleteResponse(parts, caller, responseIdOf(asked.params['id']!))
  return {}
}

function withResponseId(asked: RouteCall): RouteCall {
  return { ...asked, params: { ...asked.params, id: responseIdOf(asked.params['id']!) } }
}
