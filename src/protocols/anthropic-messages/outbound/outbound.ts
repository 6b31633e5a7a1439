// Anthropic's Messages protocol, spoken to a provider.

import { EventProgress, type Progress } from '../../../conversation/delivered.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { completionTokens, type Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors/errors.ts'
import { atOnce, type Steps } from '../../../json/json.ts'
import { isCarried, type Turn } from '../../claude/content-blocks.ts'
import { ignoredByClaude, prefillOfClaude } from '../../claude/models.ts'
import { ownSearch, withBoundedSearch } from '../../claude/tools.ts'
import { unreadable } from '../../faults.ts'
import { bytesOf, type Frame, SseDecoder } from '../../framing/sse.ts'
import { isObject, nonEmpty, parseJson } from '../../lenient.ts'
import { type LoweredRequest, type Warning, wireWarnings } from '../../lowering.ts'
import { withinLimits } from '../../names.ts'
import type {
  AnswerContext,
  Bill,
  Outbound,
  Passthrough,
  PassthroughStream,
  StreamParser,
  Target,
} from '../../protocol.ts'
import { costFields, EventEncoder, frameOf } from '../inbound/inbound.ts'
import { gatewayFields } from '../inbound/schema.ts'
import { betaHeader, kindOfField, lostItsThinking, lower } from './lower.ts'
import {
  faultOf,
  keptCounters,
  mergeUsage,
  MessagesParser,
  type MessagesUsage,
  parseWhole,
  readUsage,
} from './parse.ts'
import { type AnthropicQuirks, defaultQuirks } from './quirks.ts'

// Passes requests and answers through untranslated between a client of Anthropic's protocol and Anthropic.

export const passthrough: Passthrough<AnthropicQuirks> = {
  request: (body, target, ignored, searches) => {
    const bounded = withBoundedSearch(body, searches)
    return bounded !== undefined && mayForward(bounded) && !ignored.some((field) => bounded[field] != null)
      ? forwardedRequest(bounded, target)
      : undefined
  },
  stream: (context, { maxEventBytes }, { document }) => new MessagesStream(context, maxEventBytes, document),
  whole: (message, _usage, bill, context) => forwardedMessage(message, bill, context),
}

// Passes a client's request in Anthropic's protocol on to Anthropic unchanged.

/**
 * Whether the client's own body can be sent: it contains no address that the provider cannot read and no turn of
 * another provider, and does not ask Claude to continue thinking in a turn whose thoughts are missing.
 */
export function mayForward(body: JsonObject): boolean {
  if (!Array.isArray(body.messages)) return false
  // The API refuses it; translated, the request is sent without thinking and with a warning.
  if (isObject(body.thinking) && body.thinking.type === 'enabled' && lostItsThinking(turnsIn(body.messages)))
    return false
  return body.messages.every(
    (message) => !isObject(message) || !Array.isArray(message.content) || message.content.every(mayGoOn),
  )
}

/** The turns as the API sees them: consecutive messages of one role are merged. */
function turnsIn(messages: readonly Json[]): Turn[] {
  const turns: Turn[] = []
  for (const message of messages.filter(isObject)) {
    const { role, content } = message
    const blocks = Array.isArray(content) ? content.filter(isObject) : [{ type: 'text' }]
    const last = turns.at(-1)
    if (last && last.role === role) last.content.push(...blocks)
    else turns.push({ role: role === 'assistant' ? 'assistant' : 'user', content: blocks })
  }
  return turns
}

/** Tool call ids that Anthropic accepts; it refuses some of other providers. */
const wireId = /^[a-zA-Z0-9_-]+$/

function mayGoOn(block: Json): boolean {
  if (!isObject(block)) return true
  const { source, content, signature, citations } = block
  if (typeof signature === 'string' && isCarried(signature)) return false
  // What another provider, or the gateway, has found: Anthropic's own citations have an index.
  if (Array.isArray(citations) && citations.some((one) => isObject(one) && one.encrypted_index === ''))
    return false
  if (block.type === 'tool_use' && !wireId.test(nonEmpty(block.id) ?? '')) return false
  if (isObject(source)) {
    if (source.type === 'url' && !/^https:/i.test(nonEmpty(source.url) ?? '')) return false
    if (Array.isArray(source.content) && !source.content.every(mayGoOn)) return false
  }
  return !Array.isArray(content) || content.every(mayGoOn)
}

/**
 * The client's body for Anthropic, with the model's name there. The gateway's own fields are removed, and so are those
 * with a price of their own and unknown ones, each with a warning.
 */
export function forwardedRequest(
  { betas, ...sent }: JsonObject,
  { model, quirks }: Target<AnthropicQuirks>,
): LoweredRequest {
  const body: JsonObject = {}
  const warnings: Warning[] = []
  for (const [field, value] of Object.entries(sent)) {
    if (gatewayFields.includes(field)) continue
    const kind = kindOfField(field, value)
    if (kind === 'known') body[field] = value
    else if (value !== null) warnings.push({ param: field, message: unsent[kind] })
  }
  return {
    path: quirks.path,
    headers: { 'anthropic-version': quirks.version, ...betaHeader([...quirks.betas], betas) },
    body: { ...body, model },
    warnings,
  }
}

const unsent = {
  priced: 'The prices here are those without it; dropped.',
  unknown: 'It is not known to be free of charge; dropped.',
} as const

// Passes a streamed answer of Anthropic through to a client of its protocol, while the parser reads its usage.

const ignore = () => undefined

export class MessagesStream implements PassthroughStream {
  readonly #context: AnswerContext
  readonly #decoder: SseDecoder
  readonly #frames: MessageFrames
  readonly #parser: StreamParser
  readonly #progress = new EventProgress()

  constructor(context: AnswerContext, maxEventBytes: number, document?: true) {
    this.#context = context
    this.#parser = new MessagesParser('sse', document)
    this.#decoder = new SseDecoder(maxEventBytes)
    this.#frames = new MessageFrames(context)
  }

  get progress(): Progress {
    if (this.#frames.begun) {
      this.#progress.started = true
      this.#progress.delivered.addOpaque()
    }
    return this.#progress
  }

  push(bytes: Uint8Array): Steps<readonly Uint8Array[]> {
    return this.#forward(() => this.#decoder.push(bytes))
  }

  end(): readonly Uint8Array[] {
    const last = atOnce(this.#forward(() => this.#decoder.end()))
    const rest = this.#progress.ended ? undefined : this.#progress.take(this.#parser.end(), ignore)
    if (rest) atOnce(rest)
    return last
  }

  finish(usage: Usage, bill: Bill, stopped: JsonObject | undefined): readonly Uint8Array[] {
    Object.assign(this.#context.extra, stopped)
    return bytesOf(this.#frames.finish(bill, stopped === undefined ? undefined : usage))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return bytesOf(new EventEncoder(this.#context).fail(error))
  }

  *#forward(decode: () => readonly Frame[]): Steps<readonly Uint8Array[]> {
    const passed: Frame[] = []
    try {
      const frames = decode()
      for (const frame of frames) passed.push(...this.#frames.pass(frame))
      for (const frame of frames) {
        if (this.#progress.ended) break
        const rest = this.#progress.take(this.#parser.push(frame), ignore)
        if (rest) yield* rest
      }
    } catch (error) {
      if (!this.#progress.ended) this.#progress.fault = unreadable(error)
    }
    return bytesOf(passed)
  }
}

// Passes Anthropic's answer through to a client of its protocol, with all frames and fields; the end waits for the
// charge.

/** A whole message of the provider with the gateway's additions. */
function forwardedMessage(message: JsonObject, bill: Bill, context: AnswerContext): JsonObject {
  const { model, warnings, extra } = context
  return {
    ...message,
    model,
    usage: { ...(isObject(message.usage) ? message.usage : {}), ...costFields(bill) },
    ...wireWarnings(warnings),
    ...extra,
  }
}

/** The frames of a streamed answer; those at the end are held back until the charge is known. */
class MessageFrames {
  readonly #context: AnswerContext
  /** The event that ends the answer and carries its usage. */
  #last: JsonObject = {}
  /** All counters so far. */
  #usage: MessagesUsage | undefined
  /** Anything after the end is not part of the answer and not counted. */
  #ended = false
  /** The index of the block that is open. */
  #block: Json | undefined
  /** Whether one of the provider's own tools has begun, which produces no visible text. */
  begun = false

  constructor(context: AnswerContext) {
    this.#context = context
  }

  /** The client's frames for a frame of the provider. Unknown events are passed on unchanged. */
  pass(frame: Frame): readonly Frame[] {
    if (this.#ended) return []
    const event = parseJson(frame.data)
    // The type becomes the event's name: a line break in it would make two events.
    if (!isObject(event) || typeof event.type !== 'string' || !/^\w+$/.test(event.type)) return []
    switch (event.type) {
      case 'message_start':
        return [this.#start(event)]
      case 'content_block_stop':
        this.#block = undefined
        break
      case 'content_block_start':
        this.#block = event.index
        this.begun ||=
          isObject(event.content_block) && nonEmpty(event.content_block.type)?.endsWith('_tool_use') === true
        break
      case 'message_delta':
        this.#last = {
          ...this.#last,
          ...event,
          delta: joinCounts(this.#last.delta, event.delta),
          usage: { ...joinCounts(this.#last.usage, event.usage), ...this.#takeCounters(event.usage) },
        }
        return []
      case 'message_stop':
      case 'error':
        this.#ended = true
        return []
    }
    // Several data lines are one text with line breaks, which would end the line it is written in.
    return [{ event: event.type, data: frame.data.replaceAll('\n', ' ') }]
  }

  /**
   * The end of the answer: the provider's own, with the cost. `cutAt`: the usage, if the gateway cut the answer off
   * before the provider reported it.
   */
  finish(bill: Bill, cutAt?: Usage): readonly Frame[] {
    const counted: JsonObject = cutAt === undefined ? {} : { output_tokens: completionTokens(cutAt) }
    const usage = { ...joinCounts(this.#last.usage, counted), ...costFields(bill) }
    const cut: JsonObject =
      cutAt === undefined ? {} : { delta: { stop_reason: 'max_tokens', stop_sequence: null } }
    return [
      ...(cutAt === undefined || this.#block === undefined
        ? []
        : [frameOf({ type: 'content_block_stop', index: this.#block })]),
      frameOf({ ...this.#last, ...cut, type: 'message_delta', usage, ...this.#context.extra }),
      frameOf({ type: 'message_stop' }),
    ]
  }

  /** What counters of the answer so far must not be replaced by smaller ones. */
  #takeCounters(counted: Json | undefined): JsonObject {
    const usage = readUsage(counted)
    if (usage === undefined) return {}
    const kept = keptCounters(this.#usage, usage)
    this.#usage = mergeUsage(this.#usage, usage)
    return kept as JsonObject
  }

  #start(event: JsonObject): Frame {
    const message = isObject(event.message) ? event.message : {}
    this.#usage = readUsage(message.usage)
    return frameOf({ ...event, message: { ...message, model: this.#context.model, ...this.#context.extra } })
  }
}

/** Merges later fields into earlier ones. */
function joinCounts(before: Json | undefined, after: Json | undefined): JsonObject {
  return { ...(isObject(before) ? before : {}), ...(isObject(after) ? after : {}) }
}

export const outbound: Outbound<AnthropicQuirks> = withinLimits<AnthropicQuirks>({
  id: 'anthropic-messages',
  framing: 'sse',
  framingFor: ({ quirks }) => quirks.framing,
  auth: { kind: 'header', header: 'x-api-key' },
  defaultQuirks,
  warmsCache: true,
  inlinesUrls: true,
  readsUrl: (url, { quirks }) => quirks.readsUrls && /^https:/i.test(url),
  lower,
  ownSearch,
  prefill: ({ model, quirks }) => prefillOfClaude(model, quirks.traits),
  whole: parseWhole,
  parser: ({ quirks, document }) => new MessagesParser(quirks.framing, document),
  fault: faultOf,
  ignores: ({ model, reasoning }) => ignoredByClaude(model, reasoning),
  embeddings: undefined,
  passthrough,
})
