// An answer from a provider of the client's own protocol keeps every field that the gateway did not have to change: all
// recorded answers are read and told again, whole and streamed, and compared member by member.

import { expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { noUsage, type Usage } from '../../src/conversation/usage.ts'
import { inbound as gemini } from '../../src/protocols/gemini/inbound/inbound.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { atOnce, type Steps } from '../../src/json/json.ts'
import { SseDecoder } from '../../src/protocols/framing/sse.ts'
import { isObject, parseJson } from '../../src/protocols/lenient.ts'
import { responsesCall } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../src/protocols/openai-responses/inbound/read.ts'
import type { AnswerContext, Bill, Inbound, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { targetsLike } from '../support/conversation.ts'
import { type Case, cases } from '../support/recordings.ts'
import { framesIn, type RecordedHost, recordedHosts } from './recorded-hosts.ts'

const context: AnswerContext = {
  id: 'req_1',
  model: 'x/m',
  created: 1,
  includeUsage: true,
  warnings: [],
  extra: {},
}
const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }
const bill: Bill = { cost: '0', lines: none }
const hooks = { now: () => 0, keep: () => false, kept: () => undefined }

const protocols = ['openai-chat', 'anthropic-messages', 'openai-responses', 'gemini'] as const
type Own = (typeof protocols)[number]

/** Protocols that are translated even for clients of their own. */
const translated: Readonly<Record<string, (request: JsonObject) => Inbound>> = {
  'openai-responses': (request) =>
    responsesCall(
      checkedRequest({ input: 'Hi', ...request, prompt: null, model: 'x/m' }),
      { history: [], items: new Map() },
      hooks,
    ).inbound,
  gemini: () => gemini,
}

/** All values at each place of some JSON: texts joined, so that it does not matter how they were cut. */
function placesIn(values: readonly unknown[]): Map<string, string> {
  const found = new Map<string, string[]>()
  const walk = (value: unknown, place: string) => {
    if (Array.isArray(value)) for (const each of value) walk(each, `${place}[]`)
    else if (isObject(value)) for (const [name, each] of Object.entries(value)) walk(each, `${place}.${name}`)
    else if (value != null) (found.get(place) ?? found.set(place, []).get(place)!).push(String(value))
  }
  for (const value of values) {
    const { type } = value as { type?: unknown }
    walk(value, typeof type === 'string' ? type : '')
  }
  // What every event says again is said once.
  return new Map(
    Array.from(found, ([place, all]) => [
      place.replace(/^\./, ''),
      (new Set(all).size === 1 ? all.slice(0, 1) : all).join(''),
    ]),
  )
}

function targetOf({ protocol, quirks, folder }: RecordedHost): Target {
  const outbound = outbounds[protocol]
  const usual = { model: 'm', provider: folder, quirks: { ...(outbound.defaultQuirks as object), ...quirks } }
  return { ...targetsLike({ ...usual, reasoning: true })(), clientSpeaksIt: true }
}

/** The recorded request; where there is none, what its response says of it. */
function requestOf({ request }: Case, response: unknown): JsonObject {
  if (request !== undefined) return request
  const { tools, tool_choice, max_output_tokens, reasoning } = (response ?? {}) as JsonObject
  const include = ['reasoning.encrypted_content']
  return { tools, tool_choice, max_output_tokens, reasoning, include } as JsonObject
}

interface Told {
  readonly sent: readonly unknown[]
  readonly told: readonly unknown[]
}

function toldWhole(host: RecordedHost, recorded: Case): Told | undefined {
  const { passthrough, whole } = outbounds[host.protocol]
  const target = targetOf(host)
  const sent = recorded.response() as JsonObject
  const events = whole(sent, target)
  if (events.at(-1)?.kind !== 'finish') return undefined
  const result = { ...collect(events), events }
  const told = passthrough
    ? passthrough.whole(sent, usageIn(events), bill, context, target)
    : translated[host.protocol]!(requestOf(recorded, sent)).whole(result, usageIn(events), bill, context)
  return { sent: [sent], told: [told] }
}

function usageIn(events: readonly ChatEvent[]): Usage {
  const counted = events.filter((event) => event.kind === 'usage').at(-1)
  return counted?.usage ?? noUsage
}

function toldStreamed(host: RecordedHost, recorded: Case): Told | undefined {
  const outbound = outbounds[host.protocol]
  const target = targetOf(host)
  const bytes = recorded.stream()
  const all = framesIn(host, recorded, [bytes])
  const next = all.findIndex(({ data }, at) => at > 0 && data.startsWith('{"type":"response.created"'))
  // Some recordings hold a whole conversation.
  const frames = next < 0 ? all : all.slice(0, next)
  const json = (text: string) => parseJson(text) as JsonObject | undefined
  const sent = frames.map(({ data }) => json(data)).filter(isObject)
  const parser = outbound.parser(target)
  const events = [...frames.flatMap((frame) => parser.push(frame)), ...parser.end()]
  if (events.at(-1)?.kind !== 'finish') return undefined
  if (outbound.passthrough) {
    const stream = outbound.passthrough.stream(context, { choices: 1, maxEventBytes: 1e9 }, target)
    const pushed = stream.push(bytes)
    const pieces = [
      ...(Array.isArray(pushed) ? pushed : atOnce(pushed as Steps<readonly Uint8Array[]>)),
      ...stream.end(),
      ...stream.finish(usageIn(events), bill, undefined),
    ]
    const told = new SseDecoder().push(Buffer.concat(pieces))
    return { sent, told: told.map(({ data }) => json(data)).filter(isObject) }
  }
  const encoder = translated[host.protocol]!(requestOf(recorded, sent[0]?.['response'])).encoder(context)
  const told = [...encoder.start()]
  for (const event of events)
    if (!['usage', 'finish', 'message-start'].includes(event.kind)) told.push(...encoder.event(event))
  told.push(...encoder.finish(usageIn(events), bill))
  const answer = { sent, told: told.map(({ data }) => json(data)).filter(isObject) }
  // Events have other numbers and items other ids: what they amount to is in the last one.
  return host.protocol === 'openai-responses'
    ? { sent: [answer.sent.at(-1)!['response']], told: [answer.told.at(-1)!['response']] }
    : answer
}

/** Undefined for what is an error, and for answers to requests that no provider is sent. */
function toldOf(host: RecordedHost, recorded: Case): Told | undefined {
  try {
    return recorded.streamed ? toldStreamed(host, recorded) : toldWhole(host, recorded)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_parameter') return undefined
    throw error
  }
}

/** Why the client is told something else, by the place of the member that is gone or another. */
const reasons: Readonly<Record<Own, Readonly<Record<string, RegExp>>>> = {
  'openai-chat': {
    "the gateway's own": /^(id|created|model|object) is$/,
    "the gateway's own bill":
      /^usage\.(cost|cost_details|cost_in_usd_ticks|estimated_cost|is_byok|market_cost)\b/,
    'parts of a text as one text, and thoughts among them as reasoning':
      /^choices\[\]\.(delta|message)\.content( is$|$|\[\])/,
    'the same thoughts in reasoning_details': /^choices\[\]\.(delta|message)\.reasoning$/,
    'calls that were sent twice': /^choices\[\]\.delta\.tool_calls\[\]\.(index|function\.arguments) is$/,
    'calls of whole answers have no number': /^choices\[\]\.message\.tool_calls\[\]\.index$/,
    'a call without an id gets one': /^choices\[\]\.message\.tool_calls\[\]\.id is$/,
    "the protocol's own words": /^choices\[\]\.finish_reason is$/,
    'no message beside the delta': /^choices\[\]\.message\.role$/,
    'padding of events that were joined': /^obfuscation is$/,
    'counters that leave something out, corrected by their total':
      /^usage\.(completion_tokens|prompt_tokens|total_tokens) is$/,
    'what cannot be, since no more was read than there is':
      /^usage\.prompt_tokens_details\.(cache_write_tokens|cached_tokens) is$/,
  },
  'anthropic-messages': {
    "the gateway's own name of the model": /^(message_start\.)?message\.model is$/,
    'how the cloud packs events': /^(bytes|p)$/,
  },
  'openai-responses': {
    "the gateway's own": /^(id|model|created_at|completed_at|output\[\]\.id) is$/,
    'what the request says, which the client has':
      /^(instructions|tools|prompt|prompt_cache_key|reasoning\.summary)\b/,
    'the input is not shortened, and what is stored is stored here': /^(truncation|store) is$/,
    'named where one was asked for': /^service_tier( is)?$/,
    'the texts once more': /^output_text$/,
    "the provider's mark of its software": /^metadata\.system_fingerprint$/,
    'the figures as they were streamed': /^output\[\]\.content\[\]\.logprobs\[\]\.logprob is$/,
    'marked, since only its maker can read it': /^output\[\]\.encrypted_content is$/,
    'reasoning without a word': /^output\[\]\.type is$/,
    'searches of the provider, in the words for every search':
      /^output\[\]\.(arguments|call_id|name|status is)$/,
    'tools that the request did not declare': /^output\[\]\.(namespace|action\..*)$/,
    "the gateway's own bill": /^(billing\.|usage\.(cost|cost_details|cost_in_usd_ticks|is_byok)\b)/,
  },
  gemini: {
    "the gateway's own": /^(modelVersion|responseId) is$|^createTime$/,
    'an empty text': /^candidates\[\]\.content\.parts\[\]\.text$/,
    'a place for each source': /^candidates\[\]\.groundingMetadata\.groundingSupports\[\]\.segment\./,
    'the number of a token': /^candidates\[\]\.logprobsResult\..*\.tokenId$/,
    'counters as they are at the end': /^usageMetadata\.(\w+Count|promptTokensDetails\[\]\.\w+) is$/,
  },
}

test.each(protocols)('what providers of %s answer is what its clients are told', (protocol) => {
  const used = new Set<string>()
  const unexplained = new Map<string, string>()
  let compared = 0
  for (const host of recordedHosts.filter((each) => each.protocol === protocol))
    for (const recorded of cases(host.folder)) {
      if (recorded.status !== 200) continue
      const answer = toldOf(host, recorded)
      if (answer === undefined) continue
      compared++
      // What the provider does not say is null, and not missing: strict clients refuse that.
      const [response] = answer.told as readonly [{ readonly reasoning?: object }]
      if (protocol === 'openai-responses')
        expect([recorded.id, ...Object.keys(response.reasoning!)]).toEqual(
          expect.arrayContaining(['effort', 'summary']),
        )
      const told = placesIn(answer.told)
      for (const [place, value] of placesIn(answer.sent)) {
        const kept = told.get(place)
        if (kept === value) continue
        const at = kept === undefined ? place : `${place} is`
        const reason = Object.entries(reasons[protocol]).find(([, places]) => places.test(at))?.[0]
        if (reason === undefined)
          unexplained.set(at, `${recorded.id} ${value.slice(0, 60)} → ${kept?.slice(0, 60)}`)
        else used.add(reason)
      }
    }
  expect(Object.fromEntries(unexplained)).toEqual({})
  // A reason that explains nothing is one that was forgotten.
  expect(Object.keys(reasons[protocol]).filter((reason) => !used.has(reason))).toEqual([])
  expect(compared).toBeGreaterThan(40)
})
