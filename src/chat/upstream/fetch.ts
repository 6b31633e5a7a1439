// Opens a streamed answer of one candidate, up to where failing over is no longer possible.

import { Delivered } from '../../conversation/delivered.ts'
import { type ChatEvent, type ChatResult, collect } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import { GatewayError } from '../../errors/errors.ts'
import { noNames } from '../../json/json.ts'
import type { Memory } from '../../observe/memory.ts'
import { defaultEmbeddingQuirks, type EmbeddingAnswer, type Target } from '../../protocols/protocol.ts'
import { frameDecoder } from '../../protocols/framing/decoder.ts'
import { isObject, parseJson } from '../../protocols/lenient.ts'
import { type LoweredRequest, refuseDropped, type Warning } from '../../protocols/lowering.ts'
import { isDecision } from '../../protocols/decisions/decisions.ts'
import type { Hold } from '../billing/hold.ts'
import {
  type ChatLimits,
  type DecisionCall,
  type EmbeddingCall,
  type FinalFigures,
  type IncomingCall,
  type Outcome,
  outcomeOf,
  type Round,
  stopNote,
} from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import type { Waiting } from '../routing/dispatch.ts'
import { AttemptFailed, transportFault } from '../routing/fault-error.ts'
import {
  phaseBoundary,
  isSmall,
  unscheduledCharacters,
  stepsOf,
  type Scheduler,
} from '../../scheduler/scheduler.ts'
import { type ByteReader, disconnectPolicy, type OpenStream } from '../streaming/relay.ts'
import {
  EventChannel,
  PassthroughChannel,
  type StreamChannel,
  TranslateChannel,
} from '../streaming/translate.ts'
import { quirksFor } from './lower.ts'
import { losesThoughts, ownerOf, remembering, thoughtsOf } from './thoughts.ts'
import {
  boundedText,
  contextOf,
  contentMsFor,
  deadlinesOf,
  patienceFor,
  parsedAnswer,
  prepare,
  type Prepared,
  readWhole,
  refuseChat,
  refuseFailure,
  type UpstreamParts,
  UpstreamRequest,
} from './upstream-request.ts'

export interface OpenedStream extends OpenStream {
  readonly kind: 'stream'
  /** For the client: what neither the gateway nor this provider supports. */
  readonly warnings: readonly Warning[]
  /** Whoever answered, where it was not the candidate: an answer that was kept. */
  readonly servedBy?: Candidate
}

/**
 * Opens a stream and reads it up to its first content. Rejects with AttemptFailed or UnreachableError while another
 * offer can take over, with GatewayError if the request itself is at fault. Where another candidate is `waiting`, it
 * rejects with AttemptTooSlow if a model that does not think has no content soon.
 */
export async function openStream(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  asked: Candidate,
  round: Round,
  waiting: Waiting = 'none',
): Promise<OpenedStream> {
  const { call } = round
  const prepared = await prepare(parts, hold, asked, round)
  const candidate = call.cache?.servedBy(asked, prepared.lowered) ?? asked
  // Functions below live as long as the stream: they must not keep the request's text with them.
  const { outbound, target } = prepared
  const limits = patienceFor(parts.limits, call, candidate)
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const request = new UpstreamRequest(
    parts,
    call,
    candidate,
    {
      firstMs: limits.firstByteMs,
      totalMs: limits.totalMs,
      ...(waiting === 'another' && contentMsFor(limits, call, candidate)),
    },
    policy,
  )
  let begun: StreamChannel | undefined
  try {
    await phaseBoundary
    const response = await request.send(candidate, prepared.lowered, limits.connectMs)
    request.onResponse(response)
    await request.withOthers()
    if (!response.ok) await refuseChat(parts, response, prepared, request, candidate)
    const channel = (begun = channelFor(parts, candidate, round, prepared))
    const opened = isJson(response)
      ? await wholeAsStream(response, channel, prepared, limits, request, parts.scheduler)
      : await readHead(request.reader(response), channel, (body) => outbound.whole(body, target), parts)
    if (opened.ended) request.read()
    const { fault, started } = channel.progress
    if (fault !== undefined && !started) throw new AttemptFailed(fault, channel.progress)
    request.settle()
    pass('answer-begun', call.requestId)
    const end = { read: () => request.read(), pausing: () => request.pausing(), abort: () => request.end() }
    return { kind: 'stream', channel, ...opened, warnings: prepared.warnings, ...end, servedBy: candidate }
  } catch (error) {
    const verdict = request.verdict(error, begun?.progress.usage)
    request.end()
    throw verdict
  }
}

function isJson(response: Response): boolean {
  return /^application\/json\b/i.test(response.headers.get('content-type') ?? '')
}

function channelFor(
  parts: UpstreamParts,
  candidate: Candidate,
  { call, emit }: Round,
  { outbound, target, lowered, warnings }: Prepared,
): StreamChannel {
  const { eventBytes: maxEventBytes } = parts.limits
  const context = contextOf(parts, call, candidate, warnings)
  if (lowered.passthrough && outbound.passthrough) {
    const bounds = { choices: call.request.envelope.n, maxEventBytes }
    const stream = outbound.passthrough.stream(context, bounds, target)
    return new PassthroughChannel(stream, context, (of) => call.inbound.encoder(of))
  }
  const source = {
    decoder: frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, maxEventBytes),
    parser: outbound.parser(target, call.request.envelope.n),
    onSignature: remembering(parts.signatures, ownerOf(call, candidate)),
    thoughts: thoughtsOf(parts, call, candidate),
  }
  if (emit) return new EventChannel(source, emit)
  return new TranslateChannel({ ...source, encoder: call.inbound.encoder(context), extra: context.extra })
}

/** For a provider that answers a streamed request with plain JSON: the answer becomes a stream in one piece. */
async function wholeAsStream(
  response: Response,
  channel: StreamChannel,
  { outbound, target }: Prepared,
  { answerBytes, gapMs }: ChatLimits,
  request: UpstreamRequest,
  scheduler: Scheduler,
): Promise<Head> {
  const text = await boundedText(response, answerBytes, request, gapMs, scheduler)
  const reader = {
    readMany: () => ({ done: true }),
    onRead: () => undefined,
    cancel: () => Promise.resolve(),
  }
  if (looksLikeStream(text)) {
    const head: Uint8Array[] = []
    for (const piece of stepsOf(Buffer.from(text))) {
      head.push(...(await scheduler.runDivisible(() => channel.push(piece))))
    }
    return { reader, head: [...head, ...channel.end()], ended: true }
  }
  const parsed = await parsedAnswer(response, text, scheduler)
  const events = await scheduler.run(() => readWhole(() => outbound.whole(parsed, target)))
  return { reader, head: [...(await scheduler.runDivisible(() => channel.take(events)))], ended: true }
}

// Reads the beginning of a streamed answer, up to where failing over is no longer possible.

interface Head {
  readonly reader: ByteReader
  /** The client's bytes so far. */
  readonly head: Uint8Array[]
  /** The provider's body ended within the head. */
  readonly ended: boolean
}

interface HeadParts {
  readonly scheduler: Scheduler
  readonly memory: Pick<Memory, 'makeRoom'>
  readonly limits: Pick<ChatLimits, 'answerBytes'>
}

/**
 * Reads a stream up to its first content or its end. A whole document labelled as a stream, as many errors and some
 * answers are, is read by `whole`. Rejects with AttemptFailed if there is no content in as many bytes as a whole answer
 * may have.
 */
export async function readHead(
  reader: ByteReader,
  channel: StreamChannel,
  whole: (body: unknown) => readonly ChatEvent[],
  { scheduler, memory, limits }: HeadParts,
): Promise<Head> {
  const received: Uint8Array[] = []
  let size = 0
  const head: Uint8Array[] = []
  const hasBegun = () => {
    const { started, finished, fault } = channel.progress
    return started || finished || fault !== undefined
  }
  for (;;) {
    const read = await reader.readMany()
    reader.onRead(read)
    const { done, value } = read
    const steps = (value ?? []).flatMap((bytes) => [...stepsOf(bytes)])
    for (const [at, piece] of steps.entries()) {
      received.push(piece)
      size += piece.length
      if (size > limits.answerBytes) {
        const message = `the stream has no content in ${limits.answerBytes} bytes`
        throw new AttemptFailed(transportFault('too-large', message))
      }
      if (!isSmall(piece)) memory.makeRoom(size)
      const priority = isSmall(piece) ? 'urgent' : 'normal'
      head.push(...(await scheduler.runDivisible(() => channel.push(piece), priority)))
      // Anything after the first content is buffered for the client like the rest of the stream.
      if (hasBegun() && at + 1 < steps.length)
        return { reader: readerAfter(steps.slice(at + 1), done, reader), head, ended: false }
    }
    if (hasBegun()) {
      if (done) head.push(...channel.end())
      return { reader, head, ended: done }
    }
    if (!done) continue
    const document = parseJson(Buffer.concat(received).toString('utf8'))
    head.push(
      ...(isObject(document)
        ? await scheduler.runDivisible(() => channel.take(whole(document)))
        : channel.end()),
    )
    return { reader, head, ended: true }
  }
}

/** A reader that returns the bytes already read, then the rest of the body. */
function readerAfter(read: readonly Uint8Array[], done: boolean, reader: ByteReader): ByteReader {
  const begun = [...read]
  let again: Uint8Array[] | undefined = begun
  return {
    readMany: () => {
      if (again === undefined) return done ? { done: true } : reader.readMany()
      const value = again
      again = undefined
      return { done: false, value }
    },
    onRead: (next) => {
      // The first of them came with the head.
      if (next.value !== begun) reader.onRead(next)
    },
    cancel: () => reader.cancel(),
  }
}

/** Whether a body labelled as JSON is a stream after all: server-sent events, or several lines of JSON. */
export function looksLikeStream(text: string): boolean {
  if (/^\s*(data|event|id|retry)?:/.test(text)) return true
  const [first, second] = text.trim().split('\n', 2)
  return second !== undefined && isObject(parseJson(first!)) && second.startsWith('{')
}

// A whole answer of one candidate.

export interface WholeAnswer {
  readonly kind: 'whole'
  readonly warnings: readonly Warning[]
  readonly servedBy?: Candidate
  /** What the provider answered. */
  readonly result: ChatResult
  readonly outcome: Outcome
  /** Builds the client's body once the charge is known. */
  readonly body: (figures: FinalFigures) => JsonObject
}

/** Requests a whole answer and reads it. Rejects like `openStream`. */
export async function fetchWhole(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  asked: Candidate,
  round: Round,
): Promise<WholeAnswer> {
  const { call } = round
  const prepared = await prepare(parts, hold, asked, round)
  const candidate = call.cache?.servedBy(asked, prepared.lowered) ?? asked
  const limits = patienceFor(parts.limits, call, candidate)
  // A whole answer's first byte arrives after its last token, so it gets the deadline of a reasoning model.
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const patience = { firstMs: limits.firstByteReasoningMs, totalMs: limits.totalMs }
  const request = new UpstreamRequest(parts, call, candidate, patience, policy)
  try {
    await phaseBoundary
    const response = await request.send(candidate, prepared.lowered, limits.connectMs)
    request.onResponse(response)
    if (!response.ok) await refuseChat(parts, response, prepared, request, candidate)
    const { scheduler } = parts
    const text = await boundedText(response, limits.answerBytes, request, limits.gapMs, scheduler)
    await request.withOthers()
    request.read()
    pass('answer-read', call.requestId)
    const parsed = await parsedAnswer(response, text, scheduler)
    const read = () => wholeAnswer(parts, call, candidate, prepared, parsed)
    return text.length <= unscheduledCharacters ? read() : await scheduler.run(read)
  } catch (error) {
    throw request.verdict(error)
  } finally {
    request.end()
  }
}

function wholeAnswer(
  parts: UpstreamParts,
  call: IncomingCall,
  candidate: Candidate,
  { outbound, target, lowered, warnings }: Prepared,
  parsed: unknown,
): WholeAnswer {
  const result = readWhole(() => {
    const plain = outbound.plainWhole?.(parsed, target)
    if (plain !== undefined) return plain
    const events = outbound.whole(parsed, target)
    return { ...collect(events), events }
  })
  const delivered = new Delivered()
  for (const choice of result.choices) delivered.addChoice(choice)
  if (result.fault) throw new AttemptFailed(result.fault, { usage: result.usage, delivered })
  const owner = ownerOf(call, candidate)
  for (const choice of result.choices) {
    for (const made of choice.toolCalls)
      if (made.thoughtSignature !== undefined)
        remembering(parts.signatures, owner)(made, made.thoughtSignature)
    const [first] = choice.toolCalls
    if (first && choice.reasoning.length > 0 && losesThoughts(call))
      parts.thoughts.keep(owner, first, choice.reasoning)
  }
  const context = contextOf(parts, call, candidate, warnings)
  return {
    kind: 'whole',
    warnings,
    servedBy: candidate,
    result,
    outcome: outcomeOf({
      usage: result.usage,
      delivered,
      finishReason: result.choices[0]?.finish,
      upstreamId: result.id,
    }),
    body: ({ usage, bill, stoppedBy }) => {
      Object.assign(context.extra, stopNote(stoppedBy))
      return lowered.passthrough && outbound.passthrough
        ? outbound.passthrough.whole(parsed as JsonObject, usage, bill, context, target)
        : call.inbound.whole(result, usage, bill, context)
    },
  }
}

// The vectors of one candidate.

export interface Embedded {
  readonly answer: Extract<EmbeddingAnswer, { kind: 'vectors' }>
  readonly warnings: readonly Warning[]
}

/** The longest JSON of one vector, bytes: 4,096 numbers in full. */
const vectorBytes = 98_304

/** Rejects with AttemptFailed or UnreachableError while another offer can take over. */
export async function fetchVectors(
  parts: UpstreamParts,
  call: EmbeddingCall,
  candidate: Candidate,
): Promise<Embedded> {
  const { scheduler } = parts
  const { provider, offer } = candidate
  const embedder = parts.outbounds[provider.protocol].embeddings
  if (!embedder)
    throw new GatewayError('no_provider_available', {
      lasting: true,
      metadata: { protocol: provider.protocol },
    })
  const quirks = { ...defaultEmbeddingQuirks, ...provider.embeddings }
  const sent = embedder.lower(call.embedding, { model: offer.upstream, quirks })
  const { warnings } = sent
  refuseDropped(warnings, call.request.envelope.strict)
  const wanted = call.embedding.inputs.length
  // Vectors can be larger than any chat answer; as many are expected as were requested.
  return askOnce(parts, call, candidate, sent, wanted * vectorBytes, async (response, text) => {
    const parsed = await parsedAnswer(response, text, scheduler, Number.POSITIVE_INFINITY, noNames)
    const answer = await scheduler.run(() => readWhole(() => embedder.read(parsed)))
    if (answer.kind === 'fault') throw new AttemptFailed(answer.fault)
    const got = answer.vectors.length
    if (got !== wanted)
      throw new AttemptFailed(transportFault('broken', `${got} vectors came for ${wanted} inputs`))
    return { answer, warnings }
  })
}

// The decisions of one candidate.

/** Resolves with the provider's answer. Rejects with AttemptFailed or UnreachableError while another offer can take over. */
export async function fetchDecision(
  parts: UpstreamParts,
  call: DecisionCall,
  candidate: Candidate,
): Promise<JsonObject> {
  const body = { ...call.decision, model: candidate.offer.upstream }
  const sent = { path: '/decisions', headers: {}, body }
  return askOnce(parts, call, candidate, sent, 0, async (response, text) => {
    const answer = await parsedAnswer(response, text, parts.scheduler)
    if (!isDecision(answer))
      throw new AttemptFailed(transportFault('broken', 'the answer holds no decisions'))
    return answer
  })
}

/**
 * One request of a call that is not a chat, and what `read` makes of the text of its answer, which may have `leastBytes`
 * where the limit of answers is lower. Rejects with AttemptFailed or UnreachableError.
 */
async function askOnce<Answer>(
  parts: UpstreamParts,
  call: EmbeddingCall | DecisionCall,
  candidate: Candidate,
  sent: Pick<LoweredRequest, 'path' | 'headers' | 'body'>,
  leastBytes: number,
  read: (response: Response, text: string) => Promise<Answer>,
): Promise<Answer> {
  const { scheduler } = parts
  const { provider, model, offer } = candidate
  const outbound = parts.outbounds[provider.protocol]
  const limits = deadlinesOf(parts.limits, provider)
  const patience = { firstMs: limits.firstByteMs, totalMs: limits.totalMs }
  const policy = disconnectPolicy(call, provider.onDisconnect)
  const request = new UpstreamRequest(parts, call, candidate, patience, policy)
  // Used for reading errors, which have the same shape for every request.
  const target: Target = {
    model: offer.upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: model.maxOutputTokens,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  try {
    const { path, headers } = sent
    const body = await scheduler.stringify(sent.body)
    const response = await request.send(candidate, { path, headers, body }, limits.connectMs)
    request.onResponse(response)
    if (!response.ok) await refuseFailure(response, { outbound, target }, request)
    const most = Math.max(limits.answerBytes, leastBytes)
    const text = await boundedText(response, most, request, limits.gapMs, scheduler)
    request.read()
    return await read(response, text)
  } catch (error) {
    throw request.verdict(error)
  } finally {
    request.end()
  }
}
