// A request for a provider of the client's own protocol keeps every field that the gateway did not have to change: all
// recorded requests are read and written again, and compared member by member. Each difference has its reason here.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as chat } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { responsesCall } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../src/protocols/openai-responses/inbound/read.ts'
import type { InboundRequest } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { isObject } from '../../src/protocols/lenient.ts'
import { targetsLike } from '../support/conversation.ts'
import { type Case, cases } from '../support/recordings.ts'
import { type RecordedHost, recordedHosts } from './recorded-hosts.ts'

const hooks = { now: () => 0, keep: () => false, kept: () => undefined }
const parsers = {
  'openai-chat': (body: JsonObject) => chat.parse(body),
  'anthropic-messages': (body: JsonObject) => messages.parse(body),
  'openai-responses': (body: JsonObject) =>
    responsesCall(checkedRequest(body), { history: [], items: new Map() }, hooks).request,
} as const satisfies Readonly<Record<string, (body: JsonObject) => InboundRequest>>
type Own = keyof typeof parsers

/** Why what was sent is not what the client wrote, by the place of the member that is gone or another. */
const reasons: Readonly<Record<Own, Readonly<Record<string, RegExp>>>> = {
  'openai-chat': {
    'one answer is what is given without being asked': /^n$/,
    'the same text in a part or without one': /^messages\[\]\.content( is)?$/,
    'under the name that the provider has for it': /^(max_completion_tokens|max_tokens|random_seed)$/,
    'of another model, or empty': /^messages\[\]\.reasoning(_content)?$/,
    'an empty list': /^tools$/,
    "the gateway's own": /^(provider|web_search_options)$/,
    'one of a list': /^stop is$/,
    'every stream is counted': /^stream_options\.include_usage is$/,
    'a tier without a price here': /^service_tier$/,
    "the provider's word for it": /^(tool_choice|messages\[\]\.role) is$/,
    'the usual lifetime': /\.cache_control\.ttl$/,
    'on the last part of the message instead': /^messages\[\]\.cache_control$/,
    'images of a result, which only the user may send there': /^messages length$/,
  },
  'anthropic-messages': {
    "of the cloud's own protocol": /^anthropic_version$/,
    "searches, which the gateway's route decides about": /^(tools|tool_choice)$/,
    'what is given without being asked': /^stream$/,
    'the usual lifetime': /\.cache_control\.ttl$/,
  },
  'openai-responses': {
    'nothing is stored at the provider, so no item is known there by its id': /^input\[\]\.(id|status|type)$/,
    'instructions are the first message': /^(instructions|input length|input( is)?)$/,
    'the same text in a part or without one': /^input\[\]\.content( is)?$/,
    'annotations of what was said before': /^input\[\]\.content\[\]\.annotations$/,
    'a tier that is asked for where it has a price': /^service_tier$/,
    "searches, which the gateway's route decides about":
      /^(tools|tool_choice|max_tool_calls|include( length)?)$/,
    "the gateway's own": /^provider$/,
    'in another order: functions first': /^tools\[\]\./,
    'named to the client: it changes the price, or the model does not reason here':
      /^(reasoning|reasoning\.generate_summary|temperature|truncation|context_management)$/,
  },
}

/** The places of what is in the first and not in the second; ` is` behind one that has another value. */
function* differences(sent: unknown, made: unknown, place = ''): Generator<string> {
  if (sent === null || sent === undefined) return
  const at = place.replace(/^\./, '')
  if (Array.isArray(sent)) {
    if (!Array.isArray(made)) yield made === undefined ? at : `${at} is`
    else if (sent.length !== made.length) yield `${at} length`
    else for (const [index, item] of sent.entries()) yield* differences(item, made[index], `${place}[]`)
  } else if (isObject(sent)) {
    if (!isObject(made)) yield made === undefined ? at : `${at} is`
    else for (const name of Object.keys(sent)) yield* differences(sent[name], made[name], `${place}.${name}`)
  } else if (made === undefined) yield at
  else if (sent !== made) yield `${at} is`
}

function writtenAgain({ protocol, quirks, folder }: RecordedHost, recorded: Case): JsonObject | undefined {
  const outbound = outbounds[protocol]
  const body = { model: 'm', ...recorded.request! }
  const target = targetsLike({
    model: String(body.model),
    provider: folder,
    quirks: { ...(outbound.defaultQuirks as object), ...quirks },
    reasoning: recorded.features.has('reasoning'),
  })()
  try {
    const request = parsers[protocol as Own]({ ...structuredClone(body), model: 'x/m' })
    const forwarded = outbound.passthrough?.request?.(request.body, target, [], undefined)
    return (forwarded ?? outbound.lower(request.toChatRequest(), target)).body
  } catch (error) {
    // What cannot be honoured is refused by name, which other tests look at.
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

test.each(Object.keys(parsers) as Own[])('what clients of %s send is what its providers get', (protocol) => {
  const used = new Set<string>()
  const unexplained = new Map<string, string>()
  let compared = 0
  for (const host of recordedHosts.filter((each) => each.protocol === protocol))
    for (const recorded of cases(host.folder)) {
      if (recorded.request === undefined || recorded.status !== 200) continue
      const made = writtenAgain(host, recorded)
      if (made === undefined) continue
      compared++
      const { model: _, ...sent } = recorded.request
      for (const place of differences(sent, made)) {
        const reason = Object.entries(reasons[protocol]).find(([, places]) => places.test(place))?.[0]
        if (reason === undefined) unexplained.set(place, recorded.id)
        else used.add(reason)
      }
    }
  expect(Object.fromEntries(unexplained)).toEqual({})
  // A reason that explains nothing is one that was forgotten.
  expect(Object.keys(reasons[protocol]).filter((reason) => !used.has(reason))).toEqual([])
  expect(compared).toBeGreaterThan(40)
})
