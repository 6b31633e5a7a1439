// A request for a provider of the client's own protocol keeps every field that the gateway did not have to change: all
// recorded requests are read and written again, and compared member by member. Each difference has its reason here.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as gemini, withModel } from '../../src/protocols/gemini/inbound/inbound.ts'
import { camelCased } from '../../src/protocols/gemini/inbound/read.ts'
import { inbound as chat } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { responsesCall } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../src/protocols/openai-responses/inbound/read.ts'
import type { InboundRequest } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { parseJson } from '../../src/http/intake/read-body.ts'
import { Prefixes, textAsItCame } from '../../src/json/scan.ts'
import { isObject } from '../../src/protocols/lenient.ts'
import { targetsLike } from '../support/conversation.ts'
import { withoutGoogleFields } from '../../src/protocols/request/fields.ts'
import { type Case, cases } from '../support/recordings.ts'
import { type RecordedHost, recordedHosts } from './recorded-hosts.ts'

const hooks = { now: () => 0, keep: () => false, kept: () => undefined }
const parsers = {
  'openai-chat': (body: JsonObject) => chat.parse(body),
  'anthropic-messages': (body: JsonObject) => messages.parse(body),
  'openai-responses': (body: JsonObject) =>
    responsesCall(checkedRequest(body), { history: [], items: new Map() }, hooks).request,
  gemini: (body: JsonObject) => gemini.parse(withModel(body, 'x/m', false)),
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
  gemini: {
    'one answer is what is given without being asked': /^generationConfig\.candidateCount$/,
    'no turn says an instruction': /^systemInstruction\.role$/,
    'thoughts are sent where they are asked for': /^generationConfig\.thinkingConfig\.includeThoughts$/,
    "a result under the other of Google's two names for it":
      /^contents\[\]\.parts\[\]\.functionResponse\.response\.output$/,
    'nothing is asked for': /^(generationConfig|systemInstruction|toolConfig)$/,
    'the level in small letters': /^generationConfig\.thinkingConfig\.thinkingLevel is$/,
    'as the JSON Schema that it is': /^tools\[\]\.functionDeclarations\[\]\.parameters$/,
    "searches, which the gateway's route decides about": /^tools( length)?$/,
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
    reasoning: protocol === 'gemini' || recorded.features.has('reasoning'),
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
      const { model: _, ...written } = recorded.request
      const sent = protocol === 'gemini' ? camelCased(written) : written
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

// What a client sends again is neither read nor written again where nobody changes it: that must not show.

/** So much that its beginning is looked for, and its items are sent on as they came. */
const blanks = ' '.repeat(16_384)

function readFrom(text: string, sent?: { readonly prefixes: Prefixes; readonly name: string }): JsonObject {
  const json = parseJson(text, 128, 1_000_000, sent)
  sent?.prefixes.keep(json)
  return json
}

test.each(Object.keys(parsers) as Own[])(
  'what is sent on of what clients of %s sent before is what lowering would have written',
  (protocol) => {
    let asItCame = 0
    for (const { folder } of recordedHosts.filter((each) => each.protocol === protocol)) {
      const sent = { prefixes: new Prefixes(), name: folder }
      for (const recorded of cases(folder)) {
        if (recorded.request === undefined || recorded.status !== 200) continue
        const text = `{${blanks}${JSON.stringify({ ...recorded.request, model: 'x/m' }).slice(1)}`
        readFrom(text, sent)
        const again = readFrom(`${text.slice(0, -1)} }`, sent)
        expect(again).toEqual(readFrom(text))
        for (const made of [protocol, ...others(protocol)]) {
          const lowered = loweredFrom(protocol, again, made)
          const written = loweredFrom(protocol, readFrom(text), made)
          const onward = lowered && textAsItCame(lowered, again)
          if (onward !== undefined) asItCame++
          expect(JSON.parse(onward ?? JSON.stringify(lowered ?? null))).toEqual(
            JSON.parse(JSON.stringify(written ?? null)),
          )
        }
      }
    }
    expect(asItCame).toBeGreaterThan(40)
  },
)

/** Protocols whose lists have the same names, and other items in them. */
function others(protocol: Own): readonly Own[] {
  const alike: Readonly<Record<Own, readonly Own[]>> = {
    'openai-chat': ['anthropic-messages'],
    'anthropic-messages': ['openai-chat'],
    'openai-responses': ['openai-chat'],
    gemini: [],
  }
  return alike[protocol]
}

/** The body for a provider; undefined for what cannot be honoured there. */
function loweredFrom(protocol: Own, body: JsonObject, made: Own): JsonObject | undefined {
  const outbound = outbounds[made]
  const target = targetsLike({ model: 'm', provider: 'p', quirks: outbound.defaultQuirks as object })()
  try {
    const request = parsers[protocol](body)
    const own =
      made === protocol ? outbound.passthrough?.request?.(request.body, target, [], undefined) : undefined
    return (own ?? outbound.lower(request.toChatRequest(), target)).body
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

// What no recording has.

function madeBy(protocol: Own, body: JsonObject, made: keyof typeof outbounds = protocol) {
  const outbound = outbounds[made]
  const target = targetsLike({
    model: 'm',
    provider: 'p',
    quirks: outbound.defaultQuirks as object,
    reasoning: true,
  })()
  const request = parsers[protocol]({ ...body, model: 'x/m' })
  const asked = request.toChatRequest()
  const own = outbound.readsGoogleFields ? { request: asked, warnings: [] } : withoutGoogleFields(asked)
  const lowered = outbound.lower(own.request, target)
  const warnings = [...(request.warnings ?? []), ...own.warnings, ...lowered.warnings]
  return { body: lowered.body, warnings: warnings.map(({ param }) => param).toSorted() }
}

const googles: JsonObject = {
  contents: [
    {
      role: 'user',
      parts: [
        {
          fileData: { fileUri: 'gs://bucket/film', mimeType: 'video/quicktime', displayName: 'film' },
          videoMetadata: { startOffset: '10s', fps: 2 },
          mediaResolution: { level: 'MEDIA_RESOLUTION_LOW' },
        },
        { text: 'What happens?' },
      ],
    },
  ],
  tools: [
    {
      functionDeclarations: [
        { name: 'look', behavior: 'NON_BLOCKING', responseJsonSchema: { type: 'object' } },
        { name: 'ask' },
      ],
    },
  ],
  toolConfig: { retrievalConfig: { languageCode: 'hi' } },
  generationConfig: {
    audioTimestamp: true,
    speechConfig: { languageCode: 'hi-IN', voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
    candidateCount: 1,
    modelSelectionConfig: { featureSelectionPreference: 'PRIORITIZE_COST' },
  },
  modelArmorConfig: { promptTemplateName: 'projects/p/templates/t' },
}

test('Google gets what only Google knows, but nothing that might have a price', () => {
  const { body, warnings } = madeBy('gemini', googles)
  const { generationConfig, tools, contents, ...rest } = body
  expect(rest).toMatchObject({ modelArmorConfig: googles.modelArmorConfig!, toolConfig: googles.toolConfig! })
  expect(generationConfig).toEqual({
    audioTimestamp: true,
    speechConfig: (googles.generationConfig as JsonObject)['speechConfig']!,
  })
  expect(tools).toEqual(googles.tools!)
  expect((contents as JsonObject[])[0]!['parts']).toEqual((googles.contents as JsonObject[])[0]!['parts']!)
  expect(warnings).toEqual(['generationConfig.modelSelectionConfig'])
})

test('of other providers a filter of Google is refused, and all else is named', () => {
  expect(() => madeBy('gemini', googles, 'openai-chat')).toThrow('Only Google filters')
  const { modelArmorConfig: _, contents: _film, ...others } = googles
  const said = { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] }
  expect(madeBy('gemini', { ...others, ...said }, 'openai-chat').warnings).toEqual([
    'generationConfig.audioTimestamp',
    'generationConfig.modelSelectionConfig',
    'generationConfig.speechConfig',
    'toolConfig.retrievalConfig',
    'tools.functionDeclarations.behavior',
    'tools.functionDeclarations.responseJsonSchema',
  ])
})

test('which reasoning of earlier turns is shown is told to providers of Responses, and named elsewhere', () => {
  const asked = { input: 'Hi', reasoning: { effort: 'low', context: 'all_turns' } }
  expect(madeBy('openai-responses', asked).body.reasoning).toMatchObject({ context: 'all_turns' })
  expect(madeBy('openai-responses', asked).warnings).toEqual([])
  for (const other of ['openai-chat', 'anthropic-messages', 'gemini'] as const)
    expect(madeBy('openai-responses', asked, other).warnings).toContain('reasoning.context')
})
