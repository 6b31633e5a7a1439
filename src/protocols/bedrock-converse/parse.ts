// Parses Bedrock's answers: a state machine over stream events, which also parses whole answers.

import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import {
  count,
  counter,
  noUsage,
  serviceTierOf,
  type Usage,
  withUncounted,
} from '../../conversation/usage.ts'
import {
  addText,
  type BlockState,
  finishReasonOf,
  nextCallId,
  noBlocks,
  withOpen,
} from '../claude/content-blocks.ts'
import { answerTool, reasoningFormat } from '../claude/models.ts'
import { errorEvent, fault, faultOfException } from '../faults.ts'
import { exceptionPrefix } from '../framing/aws-event-stream.ts'
import { entryOf, isObject, parseJson } from '../lenient.ts'
import type { StreamParser } from '../protocol.ts'
import { stateParser } from '../state-parser.ts'
import {
  answerSchema,
  blockSchema,
  citationSchema,
  eventSchemas,
  isClaude,
  type WireDelta,
  type ConverseUsage,
} from './schema.ts'

/** What the parser must know of the request. */
export interface ParseContext {
  readonly model: string
  /** The client's tool names, by their names on the wire. */
  readonly toolNames: Readonly<Record<string, string>>
}

type Block =
  | { readonly kind: 'text'; readonly start: number; readonly citations: readonly unknown[] }
  | { readonly kind: 'reasoning'; readonly index: number }
  | { readonly kind: 'call'; readonly call: number; readonly json: string }
  /** A call of the tool that carries a structured answer: its arguments become the text. */
  | { readonly kind: 'answer'; readonly json: string }
  /** A call of Amazon's own tools, which the client must not answer. */
  | { readonly kind: 'foreign' }

interface BedrockState extends BlockState<Block> {
  readonly ended: boolean
  readonly reasonings: number
  /** Where the last text block began: sources may follow in a block without text. */
  readonly lastText: number
  readonly stopReason: string | undefined
  /** Which stop sequence ended the answer, if one did and the model says so. */
  readonly stopSequence: string | undefined
  readonly metadata: boolean
}

type Step = readonly [BedrockState, readonly ChatEvent[]]

function initial(): BedrockState {
  return {
    ...noBlocks(),
    ended: false,
    reasonings: 0,
    lastText: 0,
    stopReason: undefined,
    stopSequence: undefined,
    metadata: false,
  }
}

/** Parses a stream. The counters come last: a stream without `metadata` is cut, because its cost is unknown. */
export function parserOf(context: ParseContext): StreamParser {
  return stateParser(
    initial(),
    (state, frame) => {
      if (state.ended) return [state, []]
      const name = frame.event ?? ''
      if (!name.startsWith(exceptionPrefix)) return stepEvent(state, name, parseJson(frame.data), context)
      const error = faultOfException(name.slice(exceptionPrefix.length), frame.data)
      return [{ ...state, ended: true }, [errorEvent(error)]]
    },
    (state) => (state.ended ? [] : [errorEvent(fault('cut', 'the stream ended before its metadata'))]),
  )
}

/** A whole answer as the events of an equivalent stream. */
export function parseWhole(body: unknown, context: ParseContext): readonly ChatEvent[] {
  const answer = answerSchema.safeParse(body).data
  if (answer === undefined) {
    return [errorEvent(fault('broken', 'the answer is not one of this protocol'))]
  }
  const wire: (readonly [string, unknown])[] = [
    ['messageStart', {}],
    ...answer.output.message.content.flatMap(wireEvents),
    ...(answer.stopReason == null ? [] : [['messageStop', answer] as const]),
    ['metadata', { usage: answer.usage, serviceTier: answer.serviceTier }],
  ]
  let state = initial()
  const events = wire.flatMap(([name, event]) => {
    const [next, made] = state.ended ? ([state, []] as const) : stepEvent(state, name, event, context)
    state = next
    return made
  })
  if (state.ended) return events
  return [...events, errorEvent(fault('broken', 'the answer has no stop reason'))]
}

/** The equivalent stream events for one block of a whole answer. */
function wireEvents(raw: unknown, contentBlockIndex: number): (readonly [string, unknown])[] {
  const block = blockSchema.parse(raw)
  const deltas: unknown[] = []
  if (block.text != null) deltas.push({ text: block.text })
  if (block.reasoningContent) {
    const { reasoningText, redactedContent } = block.reasoningContent
    deltas.push({ reasoningContent: { ...reasoningText, redactedContent } })
  }
  for (const citation of block.citationsContent?.citations ?? []) deltas.push({ citation })
  for (const piece of block.citationsContent?.content ?? []) deltas.push({ text: piece.text })
  if (block.image) deltas.push({ image: block.image })
  if (block.toolUse?.input != null) deltas.push({ toolUse: { input: JSON.stringify(block.toolUse.input) } })
  return [
    ...(block.toolUse
      ? [['contentBlockStart', { contentBlockIndex, start: { toolUse: block.toolUse } }] as const]
      : []),
    ...deltas.map((delta) => ['contentBlockDelta', { contentBlockIndex, delta }] as const),
    ['contentBlockStop', { contentBlockIndex }],
  ]
}

function stepEvent(state: BedrockState, name: string, event: unknown, context: ParseContext): Step {
  const unreadable = (): Step => failWith(state, `${name} cannot be read`)
  switch (name) {
    case 'messageStart':
      return [state, [{ kind: 'message-start', id: undefined, model: undefined }]]
    case 'contentBlockStart': {
      const data = eventSchemas.contentBlockStart.safeParse(event).data
      if (!data) return unreadable()
      return startBlock(state, data.contentBlockIndex, data.start.toolUse, context)
    }
    case 'contentBlockDelta': {
      const plain = plainText(event)
      if (plain !== undefined) return addTextAt(state, plain.index, plain.text)
      const data = eventSchemas.contentBlockDelta.safeParse(event).data
      return data ? addDelta(state, data.contentBlockIndex, data.delta, context) : unreadable()
    }
    case 'contentBlockStop': {
      const data = eventSchemas.contentBlockStop.safeParse(event).data
      return data ? stopBlock(state, data.contentBlockIndex) : unreadable()
    }
    case 'messageStop': {
      const data = eventSchemas.messageStop.safeParse(event).data
      if (!data) return unreadable()
      const stopSequence = data.additionalModelResponseFields?.stop_sequence ?? undefined
      return finish({ ...state, stopReason: data.stopReason, stopSequence }, [])
    }
    case 'metadata': {
      const data = eventSchemas.metadata.safeParse(event).data
      if (!data) return unreadable()
      const usage: ChatEvent[] = data.usage
        ? [{ kind: 'usage', usage: usageOf(data.usage, data.serviceTier?.type) }]
        : []
      return finish({ ...state, metadata: true }, usage)
    }
    default:
      return [state, []]
  }
}

// ---- blocks -----------------------------------------------------------------------------------------------

interface WireToolUse {
  readonly toolUseId: string
  readonly name: string
  readonly type?: string | null | undefined
}

function startBlock(
  state: BedrockState,
  index: number,
  toolUse: WireToolUse | undefined,
  { toolNames }: ParseContext,
): Step {
  if (toolUse === undefined || toolUse.type === 'server_tool_use') {
    return [withOpen(state, index, { kind: 'foreign' }), []]
  }
  if (toolUse.name === answerTool) {
    if (state.answered) return [withOpen(state, index, { kind: 'foreign' }), []]
    return [withOpen({ ...state, answered: true }, index, { kind: 'answer', json: '' }), []]
  }
  if (toolUse.name === '') return failWith(state, 'a tool call has no name')
  const call = state.calls
  const start: ChatEvent = {
    kind: 'tool-call-start',
    choice: 0,
    call,
    id: nextCallId(state, toolUse.toolUseId),
    name: entryOf(toolNames, toolUse.name) ?? toolUse.name,
    thoughtSignature: undefined,
  }
  return [{ ...withOpen(state, index, { kind: 'call', call, json: '' }), calls: call + 1 }, [start]]
}

/** Nearly every event is a text delta only, so it is read without the schema. */
function plainText(event: unknown): { readonly index: number; readonly text: string } | undefined {
  if (!isObject(event) || !isObject(event.delta)) return undefined
  const { contentBlockIndex: index, delta } = event
  if (typeof delta.text !== 'string' || Object.keys(delta).length > 1) return undefined
  // JSON can contain numbers beyond a double's range, which the schema refuses.
  return typeof index === 'number' && Number.isFinite(index) ? { index, text: delta.text } : undefined
}

function addDelta(state: BedrockState, index: number, delta: WireDelta, context: ParseContext): Step {
  const open = state.open[index]
  if (delta.reasoningContent) return addReasoning(state, index, delta.reasoningContent, context)
  if (delta.citation !== undefined) {
    const block = textBlock(state, open)
    return [withOpen(state, index, { ...block, citations: [...block.citations, delta.citation] }), []]
  }
  if (delta.toolUse?.input) {
    if (open?.kind !== 'call' && open?.kind !== 'answer') return [state, []]
    const next = withOpen(state, index, { ...open, json: open.json + delta.toolUse.input })
    if (open.kind === 'answer') return addText(next, delta.toolUse.input)
    return [next, [{ kind: 'tool-call-delta', choice: 0, call: open.call, arguments: delta.toolUse.input }]]
  }
  if (delta.image?.source?.bytes) {
    const mediaType = `image/${delta.image.format ?? 'png'}`
    return [state, [{ kind: 'image', choice: 0, mediaType, data: delta.image.source.bytes }]]
  }
  return delta.text == null ? [state, []] : addTextAt(state, index, delta.text)
}

/** Text blocks have no start event: their first delta begins them. */
function addTextAt(state: BedrockState, index: number, text: string): Step {
  const open = state.open[index]
  return addText(open?.kind === 'text' ? state : withOpen(state, index, textBlock(state, open)), text)
}

function textBlock(state: BedrockState, open: Block | undefined): Extract<Block, { kind: 'text' }> {
  return open?.kind === 'text' ? open : { kind: 'text', start: state.textLength, citations: [] }
}

function addReasoning(
  state: BedrockState,
  index: number,
  data: NonNullable<WireDelta['reasoningContent']>,
  { model }: ParseContext,
): Step {
  const open = state.open[index]
  const at = open?.kind === 'reasoning' ? open.index : state.reasonings
  const next: BedrockState = {
    ...withOpen(state, index, { kind: 'reasoning', index: at }),
    reasonings: Math.max(state.reasonings, at + 1),
  }
  const format = isClaude(model) ? reasoningFormat : null
  const detail = data.redactedContent
    ? ({
        type: 'reasoning.encrypted',
        format,
        index: at,
        data: redactedData(data.redactedContent, model),
      } as const)
    : ({
        type: 'reasoning.text',
        format,
        index: at,
        text: data.text ?? '',
        ...(data.signature ? { signature: data.signature } : {}),
      } as const)
  return [next, [{ kind: 'reasoning-delta', choice: 0, detail }]]
}

/** Bedrock encodes Claude's redacted data once more as bytes; decoded, it is valid at every host of Claude. */
function redactedData(bytes: string, model: string): string {
  return isClaude(model) ? Buffer.from(bytes, 'base64').toString('utf8') : bytes
}

function stopBlock(state: BedrockState, index: number): Step {
  const { [index]: open, ...others } = state.open
  const closed = { ...state, open: others }
  switch (open?.kind) {
    case 'text': {
      const end = state.textLength
      const start = end > open.start ? open.start : state.lastText
      return [{ ...closed, lastText: start }, annotationsOf(open.citations, start, end)]
    }
    case 'call': {
      if (open.json !== '') {
        return [{ ...closed, brokenCall: closed.brokenCall || !isObject(parseJson(open.json)) }, []]
      }
      return [closed, [{ kind: 'tool-call-delta', choice: 0, call: open.call, arguments: '{}' }]]
    }
    case 'answer':
      return open.json === '' ? addText(closed, '{}') : [closed, []]
    default:
      return [closed, []]
  }
}

/**
 * Claude's citations stand before the text they are for, in its block; Nova's behind it, in a block of their own. Only
 * those with an address have a place in the wire format.
 */
function annotationsOf(citations: readonly unknown[], start: number, end: number): ChatEvent[] {
  return citations.flatMap((raw): ChatEvent[] => {
    const data = citationSchema.safeParse(raw).data
    const location = isObject(data?.location) && isObject(data.location.web) ? data.location.web : {}
    const url = [location.url, data?.source].find((each) => typeof each === 'string' && /^https?:/.test(each))
    if (typeof url !== 'string') return []
    const annotation = { kind: 'url-citation', url, title: data?.title ?? url, start, end } as const
    return [{ kind: 'annotation', choice: 0, annotation }]
  })
}

// ---- end --------------------------------------------------------------------------------------------------

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

/** The stop reason comes first, then the counters; both are needed for a proper end. */
function finish(state: BedrockState, events: readonly ChatEvent[]): Step {
  const native = state.stopReason
  if (native === undefined || !state.metadata) return [state, events]
  if (spoilt.has(native)) {
    const error = fault('unusable-output', `The answer ended with ${native}.`, { providerCode: native })
    return [{ ...state, ended: true }, [...events, errorEvent(error)]]
  }
  const finished: ChatEvent[] = [
    {
      kind: 'choice-finish',
      choice: 0,
      reason: finishReasonOf(entryOf(reasons, native) ?? 'stop', state),
      native,
      ...(native === 'stop_sequence' && state.stopSequence !== undefined
        ? { stopSequence: state.stopSequence }
        : {}),
    },
    { kind: 'finish' },
  ]
  return [{ ...state, ended: true }, [...events, ...finished]]
}

// ---- pieces -----------------------------------------------------------------------------------------------

function failWith(state: BedrockState, message: string): Step {
  return [{ ...state, ended: true }, [errorEvent(fault('broken', message))]]
}

// Converts Bedrock's counters to disjoint buckets: cached tokens are separate from the input, reasoning is inside the
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
