// The `sim` provider: a deterministic stand-in for a model, inside the executable, speaking real chat completions.
// It lets Weir be tried without a key or the internet, and it misbehaves on request.

import type { JsonObject } from '../../conversation/request.ts'
import {
  answer,
  type AnswerChoice,
  type AnswerUsage,
  callTools,
  echo,
  embed,
  long,
  type Plan,
  reason,
  slow,
  structuredPlan,
  usageBody,
} from './answer.ts'
import { readRequest, Refusal, type SimRequest } from './request.ts'

/** How an answer is delivered. */
type Delivery =
  | { readonly kind: 'prompt' }
  /** With a pause before each frame of the answer (not streamed: before the answer). */
  | { readonly kind: 'paced' }
  /** Breaks off after this many frames, without an error. */
  | { readonly kind: 'cut'; readonly afterFrames: number }
  /** Never answers. */
  | { readonly kind: 'hang' }
  | { readonly kind: 'error'; readonly fault: SimFault }

interface SimFault {
  readonly status: number
  readonly type: string
  readonly code: string | null
  readonly message: string
  readonly headers: Readonly<Record<string, string>>
}

interface Behaviour {
  readonly compose: (request: SimRequest) => Plan
  readonly delivery: Delivery
}

const prompt: Delivery = { kind: 'prompt' }

/** Models with a fixed behaviour. All others, such as `echo` and `premium`, adapt to the request. */
const behaviours: Readonly<Record<string, Behaviour>> = {
  tools: { compose: callTools, delivery: prompt },
  'search:free': { compose: callTools, delivery: prompt },
  json: { compose: structuredPlan, delivery: prompt },
  reason: { compose: reason, delivery: prompt },
  long: { compose: long, delivery: prompt },
  slow: { compose: slow, delivery: { kind: 'paced' } },
  cut: { compose: echo, delivery: { kind: 'cut', afterFrames: 3 } },
  hang: { compose: echo, delivery: { kind: 'hang' } },
  'error-429': {
    compose: echo,
    delivery: {
      kind: 'error',
      fault: {
        status: 429,
        type: 'requests',
        code: 'rate_limit_exceeded',
        message: 'Rate limit reached for requests: try again in 1 s.',
        headers: {
          'retry-after': '1',
          'x-ratelimit-limit-requests': '60',
          'x-ratelimit-remaining-requests': '0',
        },
      },
    },
  },
  'error-500': {
    compose: echo,
    delivery: {
      kind: 'error',
      fault: {
        status: 500,
        type: 'server_error',
        code: null,
        message: 'The model failed, as it was asked to.',
        headers: {},
      },
    },
  },
}

/** The behaviours of other models: the first row that applies. */
const adaptations: readonly { fits: (request: SimRequest) => boolean; behaviour: Behaviour }[] = [
  { fits: (request) => request.toolsForced, behaviour: { compose: callTools, delivery: prompt } },
  { fits: (request) => request.format === 'json', behaviour: { compose: structuredPlan, delivery: prompt } },
  { fits: () => true, behaviour: { compose: echo, delivery: prompt } },
]

/**
 * The behaviour for this request. With a test key every model of the catalog is simulated, so unknown names are models,
 * too: they call tools if required, write JSON if requested, and otherwise repeat the prompt.
 */
function behaviourOf(request: SimRequest): Behaviour {
  if (Object.hasOwn(behaviours, request.model)) return behaviours[request.model]!
  return adaptations.find(({ fits }) => fits(request))!.behaviour
}

/**
 * Answers `POST …/chat/completions` and `POST …/embeddings` as a provider would: JSON or server-sent events, errors
 * with their statuses. The same request gets the same answer with the same ids, unless its `X-Client-Request-Id`
 * differs. Rejects only if the request is aborted before there is an answer.
 */
export async function simulate(request: Request): Promise<Response> {
  // A reference to the signal is kept: during pauses nothing refers to the request, which may be collected.
  const signal = request.signal
  const path = pathOf(request.url)
  const reply = endpoints.find(({ end }) => path.endsWith(end))?.reply
  if (!reply) {
    return errorResponse(
      404,
      'invalid_request_error',
      'The simulator has no such endpoint.',
      null,
      'not_found',
    )
  }
  if (request.method !== 'POST') {
    return errorResponse(405, 'invalid_request_error', 'Use POST.', null, 'method_not_allowed')
  }
  const text = await request.text()
  try {
    const seed = Bun.hash(text + (request.headers.get('x-client-request-id') ?? '')).toString(36)
    return await reply(text, seed, signal)
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown
    return errorResponse(400, 'invalid_request_error', thrown.message, thrown.param, thrown.code)
  }
}

const endpoints: readonly {
  readonly end: string
  readonly reply: (body: string, seed: string, signal: AbortSignal) => Response | Promise<Response>
}[] = [
  { end: '/chat/completions', reply: (body, seed, signal) => deliver(readRequest(body), seed, signal) },
  { end: '/embeddings', reply: (body) => inPieces(embed(body)) },
  {
    end: '/decisions',
    reply: async (body) => jsonResponse(200, JSON.stringify((await import('./decide.ts')).decide(body))),
  },
]

async function deliver(request: SimRequest, seed: string, signal: AbortSignal): Promise<Response> {
  const { compose, delivery } = behaviourOf(request)
  if (delivery.kind === 'hang') return untilAborted(signal)
  if (delivery.kind === 'error') {
    const { status, type, message, code, headers } = delivery.fault
    return errorResponse(status, type, message, null, code, headers)
  }
  const envelope: Envelope = {
    id: `chatcmpl-${seed}`,
    model: request.model,
    logprobs: request.logprobs,
    alternatives: request.alternatives,
    includeUsage: request.includeUsage,
  }
  const { choices, usage } = answer(compose(request), request, seed)
  if (request.stream)
    return streamScript(transcript(envelope, choices, usage), delivery, request.pace.delayMs, signal)
  const body = wholeBody(envelope, choices, usage)
  if (delivery.kind === 'cut') return jsonResponse(200, body.slice(0, Math.floor(body.length / 2)))
  if (delivery.kind === 'paced') await pause(request.pace.delayMs * request.pace.frames, signal)
  return jsonResponse(200, body)
}

/** The number of frames made at a time: short answers are one string, long ones are made as they are read. */
const framesAtATime = 64

function streamScript(
  script: Transcript,
  delivery: Delivery,
  delayMs: number,
  signal: AbortSignal,
): Response {
  const { opening, middle, closing } = script
  if (delivery.kind === 'cut') return eventResponse(opening + batch(middle, delivery.afterFrames).text)
  if (delivery.kind === 'paced') return eventResponse(paceFrames(script, delayMs, signal))
  const first = batch(middle, framesAtATime)
  const start = opening + first.text
  if (first.done) return eventResponse(start + closing)
  const next = () => {
    const { text, done } = batch(middle, framesAtATime)
    return { text: done ? text + closing : text, done }
  }
  return eventResponse(streamOf(start, next))
}

interface Part {
  readonly text: string
  readonly done: boolean
}

/** At most `size` next pieces, and whether they are the last. */
function batch(pieces: Iterator<string, undefined>, size: number): Part {
  let text = ''
  for (let made = 0; made < size; made++) {
    const next = pieces.next()
    if (next.done) return { text, done: true }
    text += next.value
  }
  return { text, done: false }
}

/** A body whose parts are made as they are read. */
function streamOf(
  start: string,
  next: () => Part | Promise<Part>,
  cancel?: (reason: unknown) => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(start)),
      async pull(controller) {
        const { text, done } = await next()
        controller.enqueue(encoder.encode(text))
        if (done) controller.close()
      },
      ...(cancel && { cancel }),
    },
    { highWaterMark: 1 },
  )
}

/** One frame after each pause. A disconnect or the signal ends the pause. */
function paceFrames(
  { opening, middle, closing }: Transcript,
  delayMs: number,
  signal: AbortSignal,
): ReadableStream<Uint8Array> {
  const left = new AbortController()
  const either = AbortSignal.any([signal, left.signal])
  const next = async () => {
    const { text, done } = batch(middle, 1)
    if (done) return { text: closing, done }
    await pause(delayMs, either)
    return { text, done }
  }
  return streamOf(opening, next, (reason) => left.abort(reason))
}

/** Resolves after a time; rejects with the signal's reason as soon as it is aborted. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const stop = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function eventResponse(body: string | ReadableStream<Uint8Array>): Response {
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
    },
  })
}

/** Characters of a whole answer that are made at a time; others have their turn in between. */
const charactersAtATime = 65_536

function inPieces(pieces: Iterator<string, undefined>): Response {
  const next = (): Part => {
    let text = ''
    while (text.length < charactersAtATime) {
      const piece = pieces.next()
      if (piece.done) return { text, done: true }
      text += piece.value
    }
    return { text, done: false }
  }
  const first = next()
  if (first.done) return jsonResponse(200, first.text)
  const later = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return next()
  }
  return jsonResponse(200, streamOf(first.text, later))
}

function jsonResponse(
  status: number,
  body: string | ReadableStream<Uint8Array>,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(body, { status, headers: { 'content-type': 'application/json', ...headers } })
}

function errorResponse(
  status: number,
  type: string,
  message: string,
  param: string | null,
  code: string | null,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return jsonResponse(status, JSON.stringify({ error: { message, type, param, code } }), headers)
}

function pathOf(url: string): string {
  const end = url.search(/[?#]/)
  return end < 0 ? url : url.slice(0, end)
}

// Writes an answer of the simulated provider in the chat-completions protocol: one JSON body, or frame by frame.

interface Envelope {
  readonly id: string
  readonly model: string
  readonly logprobs: boolean
  readonly alternatives: boolean
  readonly includeUsage: boolean
}

/** All answers have the same time, 2026-01-01 00:00 UTC. */
const created = 1_767_225_600
const fingerprint = 'fp_sim'

function wholeBody(envelope: Envelope, choices: readonly AnswerChoice[], usage: AnswerUsage): string {
  return JSON.stringify({
    id: envelope.id,
    object: 'chat.completion',
    created,
    model: envelope.model,
    choices: choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice),
      logprobs: envelope.logprobs
        ? { content: Array.from(choice.content ?? [], (token) => logprobOf(token, envelope)), refusal: null }
        : null,
      finish_reason: choice.finish,
    })),
    usage: usageBody(usage),
    service_tier: 'default',
    system_fingerprint: fingerprint,
  })
}

function messageOf(choice: AnswerChoice): JsonObject {
  const reasoning = choice.reasoning.text
  return {
    role: 'assistant',
    content: choice.content === null ? null : choice.content.text,
    refusal: null,
    annotations: [],
    ...(reasoning === '' ? {} : reasoningFields(reasoning)),
    ...(choice.calls.length === 0
      ? {}
      : {
          tool_calls: choice.calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: call.pieces.text },
          })),
        }),
  }
}

function reasoningFields(text: string): JsonObject {
  return {
    reasoning_content: text,
    reasoning_details: [{ type: 'reasoning.text', format: null, index: 0, text }],
  }
}

/** The same for every token: the simulated model is certain and has no alternatives. */
function logprobOf(token: string, { alternatives }: Pick<Envelope, 'alternatives'>): JsonObject {
  const certain = { token, logprob: 0, bytes: [...Buffer.from(token, 'utf8')] }
  return { ...certain, top_logprobs: alternatives ? [{ ...certain }] : [] }
}

/** A streamed answer in three parts: delivery may be slowed down or broken off in the middle. */
interface Transcript {
  readonly opening: string
  readonly middle: Iterator<string, undefined>
  readonly closing: string
}

/** The frames of an answer. The middle is made while it is read, so that long answers are never in memory whole. */
function transcript(envelope: Envelope, choices: readonly AnswerChoice[], usage: AnswerUsage): Transcript {
  const head =
    `data: {"id":${JSON.stringify(envelope.id)},"object":"chat.completion.chunk","created":${created},` +
    `"model":${JSON.stringify(envelope.model)},"service_tier":"default","system_fingerprint":"${fingerprint}",`
  const tail = envelope.includeUsage ? ',"usage":null}\n\n' : '}\n\n'
  const frame = (index: number, delta: string, logprobs: string, finish: string) =>
    `${head}"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}]${tail}`

  const opening = choices.map(({ index }) =>
    frame(index, '{"role":"assistant","content":""}', 'null', 'null'),
  )
  const closing = choices.map(({ index, finish }) => frame(index, '{}', 'null', `"${finish}"`))
  if (envelope.includeUsage)
    closing.push(`${head}"choices":[],"usage":${JSON.stringify(usageBody(usage))}}\n\n`)
  closing.push('data: [DONE]\n\n')

  const deltas = choices.map((choice) => deltasOf(choice, envelope))
  return { opening: opening.join(''), middle: interleaveFrames(deltas, frame), closing: closing.join('') }
}

interface Delta {
  readonly delta: string
  readonly logprobs: string
}

/** One delta of each choice in turn, until all are done. */
function* interleaveFrames(
  choices: readonly Iterator<Delta>[],
  frame: (index: number, delta: string, logprobs: string, finish: string) => string,
): Generator<string, undefined> {
  const running = new Map(choices.entries())
  while (running.size > 0) {
    for (const [index, deltas] of running) {
      const next = deltas.next()
      if (next.done) running.delete(index)
      else yield frame(index, next.value.delta, next.value.logprobs, 'null')
    }
  }
}

function* deltasOf(choice: AnswerChoice, envelope: Envelope): Generator<Delta> {
  for (const piece of choice.reasoning)
    yield { delta: JSON.stringify(reasoningFields(piece)), logprobs: 'null' }
  for (const piece of choice.content ?? []) {
    const probability = envelope.logprobs
      ? JSON.stringify({ content: [logprobOf(piece, envelope)], refusal: null })
      : 'null'
    yield { delta: `{"content":${JSON.stringify(piece)}}`, logprobs: probability }
  }
  for (const [index, call] of choice.calls.entries()) {
    yield callDelta({ index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } })
    for (const piece of call.pieces) yield callDelta({ index, function: { arguments: piece } })
  }
}

function callDelta(call: JsonObject): Delta {
  return { delta: JSON.stringify({ tool_calls: [call] }), logprobs: 'null' }
}
