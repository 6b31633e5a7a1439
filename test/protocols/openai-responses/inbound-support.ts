// What the tests of the client's side of the Responses protocol share: a call, its answer as a stream and as a whole, and
// what must hold for any stream.

import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { noUsage, type Usage } from '../../../src/conversation/usage.ts'
import { responsesCall, type ResponsesCall } from '../../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../../src/protocols/openai-responses/inbound/read.ts'
import type { AnswerContext, Bill } from '../../../src/protocols/protocol.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'

export const context: AnswerContext = {
  id: 'req_0123456789abcdef0123456789abcdef',
  model: 'lab/model',
  created: 1_795_240_370,
  includeUsage: true,
  warnings: [],
  extra: {},
}

export const bill: Bill = {
  cost: '0.0000075',
  lines: {
    input: '0.0000035',
    cache_read: '0',
    cache_write: '0',
    output: '0.000004',
    reasoning: '0',
    tools: '0',
  },
}

export const usage: Usage = { ...noUsage, input: 5, cacheRead: 2, output: 2, reasoning: 4 }

/** A call with this body; `kept` gets the responses it wants kept. */
export function callOf(
  body: object,
  kept: JsonObject[] = [],
  recalled: Partial<Parameters<typeof responsesCall>[1]> = {},
): ResponsesCall {
  const request = checkedRequest({ model: 'lab/model', ...body })
  const hooks = {
    now: () => 1_795_240_375_000,
    keep: (response: JsonObject) => kept.push(response) > 0,
    kept: () => undefined,
  }
  return responsesCall(request, { history: [], items: new Map(), ...recalled }, hooks)
}

/** Wants everything an answer can tell. */
export const telling = { input: 'Hello', include: ['reasoning.encrypted_content'] }

/** The frames of a stream of these events, of which the last is terminal. */
export function framesFor(events: readonly ChatEvent[], call = callOf(telling)): Frame[] {
  const encoder = call.inbound.encoder(context)
  const content = events.filter(({ kind }) => !['message-start', 'usage', 'finish', 'error'].includes(kind))
  return [
    ...encoder.start(),
    ...content.flatMap((event) => [...encoder.event(event)]),
    ...encoder.finish(usage, bill),
  ]
}

/** The whole answer that these events describe. */
export function wholeFor(events: readonly ChatEvent[], call = callOf(telling)): JsonObject {
  return call.inbound.whole(collect(events), usage, bill, context)
}

export type Event = JsonObject & { type: string }

export function eventsIn(frames: readonly Frame[]): Event[] {
  return frames.map(({ data }) => JSON.parse(data) as Event)
}

/** The order in which the events of an item may come, as a pattern over their names. */
const itemGrammar: Readonly<Record<string, RegExp>> = {
  message: /^added( part\+(( text)*( note)* text\.|( refusal)+ refusal\.) part\.)+ done$/,
  function_call: /^added( arguments)+ arguments\. done$/,
  reasoning:
    /^added( summary\+( summary)+ summary\. summary-part\.| part\+( thought)+ thought\. part\.)* done$/,
  image_generation_call: /^added making made done$/,
  compaction: /^added done$/,
  web_search_call: /^added asked searching( found)? done$/,
}

const words: Readonly<Record<string, string>> = {
  'response.output_item.added': 'added',
  'response.output_item.done': 'done',
  'response.content_part.added': 'part+',
  'response.content_part.done': 'part.',
  'response.output_text.delta': 'text',
  'response.output_text.annotation.added': 'note',
  'response.output_text.done': 'text.',
  'response.refusal.delta': 'refusal',
  'response.refusal.done': 'refusal.',
  'response.function_call_arguments.delta': 'arguments',
  'response.function_call_arguments.done': 'arguments.',
  'response.reasoning_summary_part.added': 'summary+',
  'response.reasoning_summary_text.delta': 'summary',
  'response.reasoning_summary_text.done': 'summary.',
  'response.reasoning_summary_part.done': 'summary-part.',
  'response.reasoning_text.delta': 'thought',
  'response.reasoning_text.done': 'thought.',
  'response.image_generation_call.in_progress': 'making',
  'response.image_generation_call.completed': 'made',
  'response.web_search_call.in_progress': 'asked',
  'response.web_search_call.searching': 'searching',
  'response.web_search_call.completed': 'found',
}

const terminals = ['response.completed', 'response.incomplete', 'response.failed']

/**
 * Throws with the rule that a stream which ended well breaks:
 * - frames are named as their data; numbers count from 0 without gaps
 * - `created`, `in_progress`, items, then exactly one terminal event, which alone tells usage
 * - the events of each item come in the order of its kind; items are numbered from 0 and each one ends
 * - deltas add up to what is told when they are done, and to the item; the items are the output
 */
export function assertStream(frames: readonly Frame[]): void {
  const events = eventsIn(frames)
  const broken = (rule: string, event?: Event): never => {
    throw new Error(`${rule}${event === undefined ? '' : `: ${JSON.stringify(event).slice(0, 500)}`}`)
  }
  for (const [at, event] of events.entries()) {
    if (frames[at]!.event !== event.type) broken('a frame is named as its data', event)
    if (event['sequence_number'] !== at) broken('numbers count from 0 without gaps', event)
    const told = (event['response'] as JsonObject | undefined)?.['usage']
    if (told !== undefined && (told !== null) !== (at === events.length - 1))
      broken('usage at the end alone', event)
  }
  const types = events.map(({ type }) => type)
  if (types[0] !== 'response.created' || types[1] !== 'response.in_progress') broken('it begins as it should')
  if (types.filter((type) => terminals.includes(type)).length !== 1) broken('one terminal event')
  const last = events.at(-1)!
  if (!terminals.includes(last.type)) broken('the terminal event is the last', last)
  const items = new Map<number, Event[]>()
  for (const event of events.slice(2, -1)) {
    const index = event['output_index'] as number
    if (!(event.type in words)) broken('an event of a known name', event)
    if (!items.has(index) && index !== items.size) broken('items are numbered from 0', event)
    items.set(index, [...(items.get(index) ?? []), event])
  }
  const output = (last['response'] as JsonObject)['output'] as JsonObject[]
  if (output.length !== items.size) broken('all items are the output', last)
  for (const [index, about] of items) assertItem(about, output[index]!, broken)
  if (new Set(output.map((item) => item['id'])).size !== output.length) broken('ids of items differ', last)
}

function assertItem(
  events: readonly Event[],
  final: JsonObject,
  broken: (rule: string, event?: Event) => never,
): void {
  const said = events.map(({ type }) => words[type]).join(' ')
  const kind = String(final['type'])
  if (itemGrammar[kind]?.test(said) !== true) broken(`the events of a ${kind} are in order, not: ${said}`)
  const done = events.at(-1)!
  if (!Bun.deepEquals(done['item'], final)) broken('the item is done as it is in the output', done)
  const id = final['id']
  let text = ''
  for (const event of events) {
    if ('item_id' in event && event['item_id'] !== id) broken('events name their item', event)
    if (event.type.endsWith('.delta')) text += String(event['delta'])
    else if (/(text|refusal|arguments)\.done$/.test(event.type)) {
      const whole = event['text'] ?? event['refusal'] ?? event['arguments']
      if (whole !== text) broken('deltas add up', event)
      if (kind === 'function_call' && event['name'] !== final['name']) broken('the call is named', event)
      text = ''
    }
  }
}
