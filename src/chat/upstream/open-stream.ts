// Opens a streamed answer of one candidate, up to where failing over is no longer possible.

import { pass } from '../../credits/ledger/failpoint.ts'
import { frameDecoder } from '../../protocols/framing/decoder.ts'
import type { Warning } from '../../protocols/protocol.ts'
import type { Hold } from '../billing/hold.ts'
import type { ChatLimits } from '../limits.ts'
import type { Round } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { AttemptFailed } from '../routing/fault-error.ts'
import { pushFrames, type StreamChannel } from '../streaming/channel.ts'
import { disconnectPolicy } from '../streaming/disconnect.ts'
import { type Head, looksLikeStream, readHead } from '../streaming/head.ts'
import { PassthroughChannel } from '../streaming/passthrough.ts'
import type { OpenStream } from '../streaming/relay.ts'
import { EventChannel, TranslateChannel } from '../streaming/translate.ts'
import { inStep, stepsOf, type Turns } from '../streaming/turns.ts'
import { boundedText, parsedAnswer, readWhole } from './answer-body.ts'
import { deadlinesOf } from './deadlines.ts'
import { contextOf, type Prepared, prepare, type UpstreamParts } from './prepare.ts'
import { remembering } from './signatures.ts'
import { ownerOf, thoughtsOf } from './thoughts.ts'
import { refuseFailure, UpstreamRequest } from './upstream-request.ts'

export interface OpenedStream extends OpenStream {
  readonly kind: 'stream'
  /** For the client: what neither the gateway nor this provider supports. */
  readonly warnings: readonly Warning[]
}

/**
 * Opens a stream and reads it up to its first content. Rejects with AttemptFailed or UnreachableError while another
 * offer can take over, with GatewayError if the request itself is at fault.
 */
export async function openStream(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  candidate: Candidate,
  round: Round,
): Promise<OpenedStream> {
  const { call } = round
  const made = prepare(parts, hold, candidate, round)
  const prepared = made instanceof Promise ? await made : made
  // Functions below live as long as the stream: they must not keep the request's text with them.
  const { outbound, target } = prepared
  const limits = deadlinesOf(parts.limits, candidate.provider)
  const patience = target.reasoning ? limits.firstByteReasoningMs : limits.firstByteMs
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const request = new UpstreamRequest(
    parts,
    call,
    candidate,
    { firstMs: patience, totalMs: limits.totalMs },
    policy,
  )
  let begun: StreamChannel | undefined
  try {
    await inStep
    const response = await request.send(candidate, prepared.lowered, limits.connectMs)
    request.onResponse(response)
    await request.withOthers()
    if (!response.ok) await refuseFailure(response, prepared, request)
    const channel = (begun = channelFor(parts, candidate, round, prepared))
    const opened = isJson(response)
      ? await wholeAsStream(response, channel, prepared, limits, request, parts.turns)
      : await readHead(request.reader(response), channel, (body) => outbound.whole(body, target), parts)
    if (opened.ended) request.read()
    const { fault, started } = channel.progress
    if (fault !== undefined && !started) throw new AttemptFailed(fault)
    request.settle()
    pass('answer-begun', call.requestId)
    const end = {
      read: () => request.read(),
      pausing: () => request.pausing(),
      abort: () => request.end(),
    }
    return { kind: 'stream', channel, ...opened, warnings: prepared.warnings, ...end }
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
  turns: Turns,
): Promise<Head> {
  const text = await boundedText(response, answerBytes, request, gapMs, turns)
  const reader = {
    readMany: () => ({ done: true }),
    onRead: () => undefined,
    cancel: () => Promise.resolve(),
  }
  if (looksLikeStream(text)) {
    const head: Uint8Array[] = []
    for (const piece of stepsOf(Buffer.from(text))) {
      const made = pushFrames(turns, channel, piece, 'later')
      head.push(...(made instanceof Promise ? await made : made))
    }
    return { reader, head: [...head, ...channel.end()], ended: true }
  }
  const parsed = await parsedAnswer(response, text, turns)
  const events = await turns.run(() => readWhole(() => outbound.whole(parsed, target)))
  return { reader, head: [...(await turns.whole(() => channel.take(events)))], ended: true }
}
