// Parses Bedrock's answers: events of a stream, or a whole answer as the same events.

import type { Annotation, ChatEvent, FinishReason } from '../../conversation/event.ts'
import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../conversation/usage.ts'
import { BlockParser } from '../claude/content-blocks.ts'
import { ignoredByClaude, prefillOfClaude, reasoningFormat } from '../claude/models.ts'
import { errorEvent, fault, faultOf, faultOfException } from '../faults.ts'
import { exceptionIn } from '../framing/decoder.ts'
import type { Frame } from '../framing/sse.ts'
import {
  anyObject,
  anything,
  entryOf,
  isObject,
  list,
  number,
  object,
  parseJson,
  text,
  type ValueRead,
} from '../lenient.ts'
import { withinLimits } from '../names.ts'
import type { Outbound } from '../protocol.ts'
import { type BedrockQuirks, defaultQuirks, familyOf, isClaude, lower } from './lower.ts'

// ---- the answer on the wire ------------------------------------------------------------------------------

const usage = object({
  inputTokens: number,
  outputTokens: number,
  totalTokens: number,
  cacheReadInputTokens: number,
  cacheWriteInputTokens: number,
  cacheDetails: list(object({ inputTokens: number, ttl: text })),
})
type ConverseUsage = ValueRead<typeof usage>

/** `type` is `server_tool_use` for what Amazon runs itself. */
const toolUse = object({ toolUseId: text, name: text, type: text, input: anything })
const image = object({ format: text, source: object({ bytes: text }) })

/** The tier that the call was served at, and what of the model's own answer was asked for. */
const endFields = {
  stopReason: text,
  additionalModelResponseFields: object({ stop_sequence: text }),
  usage,
  serviceTier: object({ type: text }),
}

/** A block of a whole answer, with one of these fields. */
const block = object({
  text,
  toolUse,
  image,
  reasoningContent: object({
    reasoningText: object({ text, signature: text }),
    redactedContent: text,
  }),
  citationsContent: object({ content: list(object({ text })), citations: list(anything) }),
})

const readAnswer = object({
  output: object({ message: object({ content: list(block) }) }),
  ...endFields,
})

/** Which of these fields an event has, its name says. */
const readEvent = object({
  contentBlockIndex: number,
  start: object({ toolUse }),
  delta: object({
    text,
    toolUse: object({ input: text }),
    reasoningContent: object({ text, signature: text, redactedContent: text }),
    citation: anything,
    image,
  }),
  ...endFields,
})
type WireDelta = NonNullable<ValueRead<typeof readEvent>['delta']>

const readCitation = object({ title: text, source: text, location: object({ web: anyObject }) })

// ---- parsing the answer ----------------------------------------------------------------------------------

/** The name of an event and what it says. */
type NamedEvent = readonly [string, unknown]

/** A whole answer as the events of an equivalent stream. */
function parseWhole(body: unknown, model: string): readonly ChatEvent[] {
  const answer = readAnswer(body)
  const blocks = answer?.output?.message?.content
  if (blocks === undefined) return [errorEvent(fault('broken', 'the answer is not one of this protocol'))]
  const stop: NamedEvent[] = answer?.stopReason === undefined ? [] : [['messageStop', answer]]
  return new ConverseParser(model).readAll([
    ['messageStart', {}],
    ...blocks.flatMap(eventsOfBlock),
    ...stop,
    ['metadata', answer],
  ])
}

/** The equivalent stream events for one block of a whole answer. */
function eventsOfBlock(sent: ValueRead<typeof block>, contentBlockIndex: number): NamedEvent[] {
  const { text, toolUse, image, reasoningContent, citationsContent } = sent
  const deltas: unknown[] = []
  if (text !== undefined) deltas.push({ text })
  if (reasoningContent) {
    const { reasoningText, redactedContent } = reasoningContent
    deltas.push({ reasoningContent: { ...reasoningText, redactedContent } })
  }
  for (const citation of citationsContent?.citations ?? []) deltas.push({ citation })
  for (const piece of citationsContent?.content ?? []) deltas.push({ text: piece.text })
  if (image) deltas.push({ image })
  if (toolUse?.input != null) deltas.push({ toolUse: { input: JSON.stringify(toolUse.input) } })
  const start: NamedEvent[] = toolUse
    ? [['contentBlockStart', { contentBlockIndex, start: { toolUse } }]]
    : []
  return [
    ...start,
    ...deltas.map((delta): NamedEvent => ['contentBlockDelta', { contentBlockIndex, delta }]),
    ['contentBlockStop', { contentBlockIndex }],
  ]
}

/** The counters come last: a stream without `metadata` is cut, because its cost is unknown. */
class ConverseParser extends BlockParser<NamedEvent> {
  readonly #model: string
  /** Where the last text block began: sources may follow in a block without text. */
  #lastText = 0
  #stopReason: string | undefined
  /** Which stop sequence ended the answer, if one did and the model says so. */
  #stopSequence: string | undefined
  #hasMetadata = false

  constructor(model: string) {
    super({ lastEvent: 'its metadata' })
    this.#model = model
  }

  protected override readFrame(frame: Frame): void {
    const type = exceptionIn(frame)
    if (type !== undefined) this.finish(errorEvent(faultOfException(type, frame.data)))
    else this.read([frame.event ?? '', parseJson(frame.data)])
  }

  protected override read([name, event]: NamedEvent): void {
    switch (name) {
      case 'messageStart':
        return this.emit({ kind: 'message-start', id: undefined, model: undefined })
      case 'contentBlockStart': {
        const { contentBlockIndex: index, start } = readEvent(event) ?? {}
        if (index === undefined) break
        const called = start?.toolUse
        if (called !== undefined && called.type !== 'server_tool_use')
          return this.openCall(index, called.toolUseId ?? '', called.name ?? '', undefined)
        this.open.set(index, { kind: 'foreign' })
        return
      }
      case 'contentBlockDelta': {
        const plain = plainText(event)
        if (plain !== undefined) return this.#addTextAt(plain.index, plain.text)
        const { contentBlockIndex: index, delta } = readEvent(event) ?? {}
        if (index === undefined || delta === undefined) break
        return this.#addDelta(index, delta)
      }
      case 'contentBlockStop': {
        const index = readEvent(event)?.contentBlockIndex
        if (index === undefined) break
        return this.#stop(index)
      }
      case 'messageStop': {
        const { stopReason, additionalModelResponseFields: own } = readEvent(event) ?? {}
        if (stopReason === undefined) break
        this.#stopReason = stopReason
        this.#stopSequence = own?.stop_sequence
        return this.#endIfComplete()
      }
      case 'metadata': {
        const data = readEvent(event)
        if (data === undefined) break
        this.#hasMetadata = true
        if (data.usage) this.emit({ kind: 'usage', usage: usageOf(data.usage, data.serviceTier?.type) })
        return this.#endIfComplete()
      }
      default:
        return
    }
    this.fail(`${name} cannot be read`)
  }

  #addDelta(index: number, { text, toolUse, reasoningContent, citation, image }: WireDelta): void {
    if (reasoningContent) return this.#addReasoningAt(index, reasoningContent)
    if (citation !== undefined) {
      this.openText(index).citations.push(citation)
      return
    }
    if (toolUse?.input) return this.addInput(index, toolUse.input)
    const data = image?.source?.bytes
    if (data) {
      const mediaType = `image/${image.format ?? 'png'}`
      return this.emit({ kind: 'image', choice: 0, mediaType, data })
    }
    if (text !== undefined) this.#addTextAt(index, text)
  }

  /** Text blocks have no start event: their first delta begins them. */
  #addTextAt(index: number, text: string): void {
    this.openText(index)
    this.addText(text)
  }

  #addReasoningAt(index: number, data: NonNullable<WireDelta['reasoningContent']>): void {
    const open = this.open.get(index)
    const at = open?.kind === 'reasoning' ? open.index : this.openReasoning(index)
    const head = { format: isClaude(this.#model) ? reasoningFormat : null, index: at }
    if (data.redactedContent) {
      const redacted = redactedData(data.redactedContent, this.#model)
      return this.addReasoning({ type: 'reasoning.encrypted', ...head, data: redacted })
    }
    this.addReasoning({
      type: 'reasoning.text',
      ...head,
      text: data.text ?? '',
      ...(data.signature ? { signature: data.signature } : {}),
    })
  }

  #stop(index: number): void {
    const open = this.close(index)
    if (open?.kind !== 'text') return
    const end = this.textLength
    if (end > open.start) this.#lastText = open.start
    this.annotate(annotationsOf(open.citations, this.#lastText, end))
  }

  /** The stop reason comes first, then the counters; both are needed for a proper end. */
  #endIfComplete(): void {
    const native = this.#stopReason
    if (native === undefined || !this.#hasMetadata) return
    if (spoilt.has(native)) {
      const message = `The answer ended with ${native}.`
      return this.finish(errorEvent(fault('unusable-output', message, { providerCode: native })))
    }
    const stopSequence = native === 'stop_sequence' ? this.#stopSequence : undefined
    this.finishWith(entryOf(reasons, native) ?? 'other', native, {
      ...(stopSequence !== undefined && { stopSequence }),
    })
  }
}

const reasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  guardrail_intervened: 'content_filter',
  content_filtered: 'content_filter',
  // Not documented by Amazon, but used by Claude.
  refusal: 'content_filter',
}

/** Answers that the model spoiled: failures rather than a clean finish, not retried because they have been billed. */
const spoilt = new Set(['malformed_model_output', 'malformed_tool_use'])

/** Nearly every event is a text delta only, so it is read without the schema. */
function plainText(event: unknown): { readonly index: number; readonly text: string } | undefined {
  if (!isObject(event) || !isObject(event.delta)) return undefined
  const { contentBlockIndex: index, delta } = event
  if (typeof delta.text !== 'string' || Object.keys(delta).length > 1) return undefined
  // JSON can contain numbers beyond a double's range, which the schema refuses.
  return typeof index === 'number' && Number.isFinite(index) ? { index, text: delta.text } : undefined
}

/** Bedrock encodes Claude's redacted data once more as bytes; decoded, it is valid at every host of Claude. */
function redactedData(bytes: string, model: string): string {
  return isClaude(model) ? Buffer.from(bytes, 'base64').toString('utf8') : bytes
}

/**
 * Claude's citations stand before the text they are for, in its block; Nova's behind it, in a block of their own. Only
 * those with an address have a place in the wire format.
 */
function annotationsOf(citations: readonly unknown[], start: number, end: number): Annotation[] {
  return citations.flatMap((raw): Annotation[] => {
    const data = readCitation(raw)
    const url = [data?.location?.web?.url, data?.source].find(
      (each) => typeof each === 'string' && /^https?:/.test(each),
    )
    if (typeof url !== 'string') return []
    return [{ kind: 'url-citation', url, title: data?.title ?? url, start, end }]
  })
}

// ---- usage -----------------------------------------------------------------------------------------------
// Bedrock's counters as disjoint buckets: cached tokens are separate from the input, reasoning is inside the
// output and not counted.

/** `servedAt`: the service tier named beside the counters. */
function usageOf(wire: ConverseUsage, servedAt: unknown): Usage {
  const serviceTier = serviceTierOf(servedAt)
  const long = (wire.cacheDetails ?? [])
    .filter((detail) => detail.ttl === '1h')
    .reduce((sum, detail) => sum + count(detail.inputTokens), 0)
  const written = Math.max(count(wire.cacheWriteInputTokens), long)
  const cached = count(wire.cacheReadInputTokens) + written
  const counted = count(wire.inputTokens) + cached
  const output = counter(wire.outputTokens)
  const total = counter(wire.totalTokens)
  // What the total has beyond the other counters is output.
  const made = output === undefined || total === undefined ? output : Math.max(output, total - counted)
  const usage: Usage = {
    ...noUsage,
    input: count(wire.inputTokens),
    cacheRead: count(wire.cacheReadInputTokens),
    cacheWrite5m: written - long,
    cacheWrite1h: long,
    output: made ?? 0,
    ...(serviceTier && { serviceTier }),
  }
  return withUncounted(usage, {
    prompt: counter(wire.inputTokens) ?? (cached > 0 ? cached : undefined),
    completion: made,
  })
}

// Bedrock's Converse protocol, spoken to a provider.

export const outbound: Outbound<BedrockQuirks> = withinLimits<BedrockQuirks>({
  id: 'bedrock-converse',
  framing: 'aws-event-stream',
  auth: { kind: 'aws', service: 'bedrock' },
  defaultQuirks,
  inlinesUrls: true,
  lower,
  prefill: ({ model }) => prefillOfClaude(model),
  whole: (body, target) => parseWhole(body, target.model),
  parser: (target) => new ConverseParser(target.model),
  fault: faultOf,
  ignores: ({ model, reasoning }) => [
    ...ignoredByClaude(model, reasoning),
    ...(familyOf(model).forces === 'nothing' ? ['tool_choice'] : []),
  ],
  embeddings: undefined,
})
