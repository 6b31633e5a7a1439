// What must be held for a call, and what a held amount pays for.

import { describe, expect, test, afterAll, beforeAll } from 'bun:test'
import {
  amountsOf,
  growsWithAnswer,
  type Need,
  needOf,
  outputBound,
  outputWithin,
  quickNeed,
  withinLimits,
  withReserve,
  refuseUnpricedMedia,
} from '../../../src/chat/billing/need.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import { ceilingOf, affordableOutput } from '../../../src/credits/price.ts'
import { candidateOf, envelope, modelOf, priceOf, providerOf } from '../support.ts'
import fc from 'fast-check'
import type { ChatRequest, ContentPart, JsonObject, MediaSource } from '../../../src/conversation/request.ts'
import { type Lab, startLab } from '../lab.ts'
import { asks, customRoutes, everyRoute, lowered, valuesOf } from '../routes.ts'
import { buildPrice } from '../../../src/catalog/row.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { chat, textPart } from '../../support/conversation.ts'

const offerOf = (provider: string, input: bigint, output: bigint) => ({
  provider,
  upstream: 'm',
  price: priceOf(input, output),
})

describe('the need', () => {
  const dear = { ...candidateOf('a'), offer: offerOf('a', 3_000_000n, 9_000_000n) }
  const cheap = { ...candidateOf('b'), offer: offerOf('b', 1_000_000n, 2_000_000n) }

  test('is that of the dearest offer that may serve', () => {
    const need = needOf({ ...envelope, maxOutputTokens: 10 }, [cheap, dear], 100, 4_096)
    expect(need.want).toBe(100n * 3_000_000n + 10n * 9_000_000n)
    expect(need.least).toBe(100n * 3_000_000n + 9_000_000n)
    expect(need.bounded).toBe(true)
  })

  test.each<[string, object, number, boolean]>([
    // what, of the envelope, output tokens held for, bounded
    ['a typical figure when nothing is said', {}, 1_000, false],
    ['what was asked for', { maxOutputTokens: 7 }, 7, true],
    ['the model can make no more', { maxOutputTokens: 1_000_000 }, 4_096, false],
    ['each of n answers', { maxOutputTokens: 7, n: 3 }, 21, true],
  ])('holds for %s', (_, more, tokens, bounded) => {
    const need = needOf({ ...envelope, ...more }, [cheap], 0, 1_000)
    expect([need.bound.outputTokens, need.bounded]).toEqual([tokens, bounded])
  })

  test('without output is that of the prompt, and no more is needed to begin', () => {
    const need = needOf({ ...envelope, maxOutputTokens: 0 }, [cheap], 100, 4_096)
    expect([need.want, need.least, need.bounded]).toEqual([100_000_000n, 100_000_000n, true])
  })

  test('max_cost caps it; one that is too low or no amount is refused by name', () => {
    const asked = (maxCost: string) => needOf({ ...envelope, maxCost }, [cheap], 100, 4_096)
    expect(asked('0.001').want).toBe(1_000_000_000n)
    for (const wrong of ['0.0000001', '0', '-1', 'much'])
      expect(() => asked(wrong)).toThrow(
        expect.objectContaining({ details: expect.objectContaining({ param: 'max_cost' }) }),
      )
  })

  test('a max_cost that is too low is told the least in dollars', () => {
    expect(() => needOf({ ...envelope, maxCost: '0.0000001' }, [cheap], 100, 4_096)).toThrow(
      expect.objectContaining({
        details: expect.objectContaining({ metadata: { least_usd: '0.000102' } }),
      }),
    )
  })

  test('what the held amount affords never costs more than it', () => {
    fc.assert(
      fc.property(fc.bigInt(300_000_000n, 10n ** 12n), fc.integer({ min: 1, max: 4 }), (held, n) => {
        const need = needOf({ ...envelope, n }, [dear], 100, 4_096)
        const output = outputWithin(held, need, dear.offer.price, n)
        const cost = ceilingOf(
          { promptTokens: 100, outputTokens: output * n, toolCalls: {} },
          dear.offer.price,
        )
        return output === 1 || cost <= held
      }),
    )
  })
})

describe('the quick need', () => {
  const candidates = [candidateOf('a')]
  // 1 a token of input, 2 a token of output, in millionths of a dollar: a prompt of 100 and 10 tokens of output are 120.
  const asked = { ...envelope, maxOutputTokens: 10 }
  const enough = 120_000_000n

  test.each<[string, object, bigint, boolean]>([
    ['the credit covers it', {}, enough, true],
    ['the credit falls short by the smallest unit', {}, enough - 1n, false],
    ['max_cost is above it', { maxCost: '0.000121' }, enough, true],
    ['max_cost may be below it', { maxCost: '0.000119' }, enough, false],
    ['max_cost is no amount', { maxCost: 'much' }, enough, false],
  ])('will do without a count of the prompt where %s', (_, more, free, will) => {
    expect(quickNeed({ ...asked, ...more }, candidates, 100, 1_000, free) !== undefined).toBe(will)
  })
})

describe('the output to ask of a candidate', () => {
  const price = priceOf(1_000_000n, 2_000_000n)
  const candidate = (limits: object): Candidate => ({
    ...candidateOf('a'),
    model: modelOf('a/m', { ...limits, offers: [offerOf('a', 1_000_000n, 2_000_000n)] }),
    offer: { provider: 'a', upstream: 'm', price },
  })
  const known = candidate({ maxOutputTokens: 500 })
  const unknown = candidate({ maxOutputTokens: undefined })
  const inContext = candidate({ maxOutputTokens: undefined, contextLength: 8_192 })
  /** Picodollars that pay for the prompt of 100 tokens and so many of output. */
  const paying = (tokens: number) => 100_000_000n + 2_000_000n * BigInt(tokens)

  const thinking = { ...known, model: modelOf('a/m', { maxOutputTokens: 500, reasoning: true }) }
  const billsOn = { ...known, provider: providerOf('a', { onDisconnect: 'drain' }) }

  test.each<[string, Candidate, object, bigint, number | undefined]>([
    // which, of whom, of the envelope, held, the bound
    ["the client's own where credit covers it", known, { maxOutputTokens: 50 }, paying(50), 50],
    ["less than the client's own where credit is short", known, { maxOutputTokens: 50 }, paying(20), 20],
    ['none of a stream, which can be stopped', known, { stream: true }, paying(200), undefined],
    ['what is held of a stream that is short of credit', known, { stream: true }, paying(30), 30],
    ['none of a whole answer that is held for to its end', known, {}, paying(500), undefined],
    ['what is held for a whole answer', known, {}, paying(240), 240],
    ['what is held for a stream of a model that reasons', thinking, { stream: true }, paying(240), 240],
    ['what is held for a stream that is billed to its end', billsOn, { stream: true }, paying(240), 240],
    ['shared by n answers', known, { n: 2 }, paying(240), 120],
    ['what max_cost pays for, even in a stream', known, { stream: true, maxCost: '0.0002' }, paying(50), 50],
    [
      'what max_cost pays for of a stream that grows',
      known,
      { stream: true, maxCost: '0.0007' },
      paying(200),
      300,
    ],
    ['none beyond a context that no answer can fill', inContext, {}, paying(8_192), undefined],
    ['no more than fits into the context', inContext, {}, paying(8_150), 8_092],
    ['none of a model without limits and a rich account', unknown, {}, paying(1_000_000), undefined],
    ['one that servers take of a model without limits', unknown, {}, paying(900_000), 16_384],
  ])('is %s', (_, of, more, amount, expected) => {
    const asked = { ...envelope, ...more }
    const need = needOf(asked, [of], 100, 200)
    expect(outputBound(need, amount, asked, of)).toBe(expected as number)
  })

  test('never costs more than is held, and neither does an answer that is sent none', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(known, unknown, inContext, thinking, billsOn),
        fc.record({
          stream: fc.boolean(),
          n: fc.integer({ min: 1, max: 4 }),
          maxOutputTokens: fc.option(fc.integer({ min: 1, max: 2_000 }), { nil: undefined }),
          maxCost: fc.option(fc.constantFrom('0.0002', '0.001', '1'), { nil: undefined }),
        }),
        fc.bigInt(0n, 2n * paying(2_000_000)),
        (of, more, share) => {
          const asked = { ...envelope, ...more }
          const need = needOf(asked, [of], 100, 200)
          const { least, want, most } = amountsOf(need)
          const amount = share < least ? least : share > most ? most : share
          if (growsWithAnswer(need, amount, asked, of)) return
          const bound =
            outputBound(need, amount, asked, of) ?? of.model.maxOutputTokens ?? of.model.contextLength
          const outputTokens = (bound ?? 1_000_000) * more.n
          expect(ceilingOf({ ...need.bound, outputTokens }, price) <= amount).toBe(true)
          expect(want >= least && most >= want).toBe(true)
        },
      ),
    )
  })

  test.each<[string, Candidate[], object, number]>([
    // which, of whom, of the envelope, output tokens held for at most
    ['all that the model writes, of a whole answer', [known], {}, 500],
    ['what is typical, of a stream that can be stopped', [known], { stream: true }, 200],
    ['all of it where one that may serve cannot be stopped', [known, billsOn], { stream: true }, 500],
    ['what was asked for', [known], { maxOutputTokens: 50 }, 50],
    ['the context where that is the only limit', [inContext], {}, 8_192],
    ['more than any answer has, where no limit is known', [unknown], {}, 1_000_000],
    ['all of each of n', [known], { n: 3 }, 1_500],
  ])('is held for: %s', (_, of, more, tokens) => {
    expect(needOf({ ...envelope, ...more }, of, 100, 200).most).toBe(paying(tokens))
  })
})

describe('what is set aside beside the need', () => {
  const model = modelOf('a/m', { contextLength: 100_000 })
  const candidate = { ...candidateOf('a'), model }
  const need = needOf(envelope, [candidate], 1_000, 100)
  test.each([
    // searches, parts of unknown size, tokens of the prompt
    [undefined, false, 0],
    [undefined, true, 99_000],
    [1, false, 8_000],
    [3, false, 48_000],
    // No search puts more before the model than its context holds.
    [20, false, 8_000 * 78 + 8 * 100_000],
    [1, true, 107_000],
  ])('of %p searches, unsized: %p, is the price of %p tokens', (searches, isUnsized, tokens) => {
    const asked = searches === undefined ? envelope : { ...envelope, searches }
    const reserving = withReserve(need, asked, [candidate], isUnsized)
    expect(reserving.reserve).toBe(BigInt(tokens) * 1_000_000n)
    const wantedOf = (of: Need, room?: bigint) => amountsOf(withinLimits(of, room)).want
    expect(wantedOf(reserving)).toBe(need.want + reserving.reserve)
    expect(wantedOf({ ...reserving, maxCost: need.want })).toBe(need.want)
    // A key's limit must leave room for its other calls.
    const half = reserving.reserve / 2n
    expect(wantedOf(reserving, need.want + 2n * half)).toBe(need.want + half)
    expect(wantedOf(reserving, need.want / 2n)).toBe(need.want)
    // The prompt may take it, so no output is granted of it.
    const { want, most } = amountsOf(reserving)
    expect(outputBound(reserving, want, envelope, candidate)).toBe(100)
    expect(outputBound(reserving, most, envelope, candidate)).toBe(
      outputBound(need, need.most, envelope, candidate) as number,
    )
  })
})

// What the provider is told of the length of an answer: what credit bounds, and never a bound that it must refuse.

const bodies: Record<string, unknown>[] = []
let upstream: Bun.Server<undefined>
let lab: Lab

beforeAll(async () => {
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      bodies.push((await request.json()) as Record<string, unknown>)
      return Response.json({
        id: 'chatcmpl-1',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 12, completion_tokens: 1, total_tokens: 13 },
      })
    },
  })
  const price = { input: '1', output: '2' }
  lab = await startLab({
    providers: { lab: `http://127.0.0.1:${upstream.port}/v1` },
    models: {
      'lab/unknown': { price, max_output_tokens: undefined },
      'lab/context': { price, max_output_tokens: undefined, context_length: 8_192 },
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await upstream?.stop(true)
})

test.each<[string, string, Record<string, unknown>, number | undefined]>([
  ['nothing of a model whose limits nobody knows', 'lab/unknown', {}, undefined],
  ['nothing of a model whose context is all that is known', 'lab/context', {}, undefined],
  ['nothing where max_cost pays for more than the context', 'lab/context', { max_cost: '1' }, undefined],
  ['what was asked for', 'lab/context', { max_tokens: 7 }, 7],
])('a provider is told %s', async (_, model, more, told) => {
  bodies.length = 0
  const answer = await lab.ask(model, more)
  expect(answer.status).toBe(200)
  expect(bodies).toHaveLength(1)
  expect(bodies[0]!['max_tokens']).toBe(told as number)
})

test.each([
  ['less than the first hold', { max_cost: '0.001' }, 300, 500],
  ['more than the first hold', { max_cost: '0.1' }, 49_000, 50_000],
  ['more than the first hold, in a stream', { max_cost: '0.1', stream: true }, 49_000, 50_000],
])('max_cost bounds an answer to what it pays for: %s', async (_, more, least, most) => {
  bodies.length = 0
  await lab.ask('lab/unknown', more)
  expect(bodies[0]!['max_tokens']).toBeWithin(least, most + 1)
})

/** The names of an output limit, in all protocols. */
const limitNames = [
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'maxOutputTokens',
  'maxTokens',
  'num_predict',
]
const reasonings: readonly JsonObject[] = [
  {},
  { reasoning: { effort: 'high' } },
  { reasoning: { max_tokens: 2_000 } },
]
const routes = [...everyRoute, ...customRoutes]

test.each(
  routes.map((route) => [route.provider.id, route.provider.protocol, route.upstream, route] as const),
)('the limit that is sent is held for: %s (%s) %s', async (_id, _protocol, upstream, route) => {
  const { provider, reasoning } = route
  // As `lowered` has it.
  const model = modelOf(`${provider.id}/${upstream}`, { reasoning, maxOutputTokens: 4_096 })
  const candidate = { ...candidateOf(provider.id), model, offer: model.offers[0]!, provider }
  let sentLimits = 0
  for (const thinks of reasonings)
    for (const limit of [1, 2, 5, 15, 16, 17, 1_025, 4_096, 9_000, undefined]) {
      const asked = asks('chat', { ...thinks, ...(limit === undefined ? {} : { max_tokens: limit }) })
      const { envelope } = asked.request
      const need = needOf(envelope, [candidate], 1_000, 500)
      // The least that begins a call, the credit between, and all that is wanted.
      for (const held of [need.least, (need.least + need.want) / 2n, need.want, need.most]) {
        const bound = outputBound(need, held, envelope, candidate)
        const { body } = await lowered(asked, route, bound)
        const within = affordableOutput(held, need.bound, candidate.offer.price)
        // How much of it may be thoughts has the same name there.
        const { reasoning: _, ...limited } = body
        for (const sent of limitNames.flatMap((name) => valuesOf(name, limited))) {
          if (typeof sent !== 'number') throw new Error(`no number of tokens: ${String(sent)}`)
          sentLimits++
          expect([limit, held, sent, sent <= within]).toEqual([limit, held, sent, true])
        }
      }
    }
  expect(sentLimits).toBeGreaterThan(0)
})

// Media that a price has no rate for are refused before a provider is asked.

const flat = { input: '1', output: '2' }
const sound: ContentPart = { kind: 'audio', format: 'wav', data: 'AAAA' }
const file = (source: MediaSource, filename?: string): ContentPart => ({
  kind: 'file',
  source,
  filename,
  cache: undefined,
})
const asking = (...content: ContentPart[]) => chat({ messages: [{ role: 'user', content }] })

function refusalOf(
  request: ChatRequest,
  spec: Record<string, string> = {},
  costFrom: 'rates' | 'reported' = 'rates',
) {
  const candidate = candidateOf('lab', { costFrom })
  const offer = { ...candidate.offer, price: buildPrice({ ...flat, ...spec }) }
  try {
    refuseUnpricedMedia(request, { ...candidate, offer })
    return undefined
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.code} ${error.details.param}`
  }
}

describe('a price without a rate for sound', () => {
  test.each([
    ['text', asking(textPart('x')), undefined],
    ['sound', asking(textPart('x'), sound), 'unsupported_parameter messages[0].content[1]'],
    [
      'a file of sound',
      asking(file({ kind: 'base64', mediaType: 'audio/mpeg', data: 'A' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'one whose type is written in capitals',
      asking(file({ kind: 'base64', mediaType: 'Audio/WAV', data: 'A' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'the address of one',
      asking(file({ kind: 'url', url: 'https://x.example/a.MP3?y=1' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'one at the provider',
      asking(file({ kind: 'provider-file', id: 'f' }, 'talk.wav')),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'a document',
      asking(file({ kind: 'base64', mediaType: 'application/pdf', data: 'A' }, 'a.pdf')),
      undefined,
    ],
    ['an answer in text', chat({ rest: { modalities: ['text'] } }), undefined],
    [
      'an answer in sound',
      chat({ rest: { modalities: ['text', 'audio'] } }),
      'unsupported_parameter modalities',
    ],
    ['an answer with images', chat({ rest: { modalities: ['image'] } }), 'unsupported_parameter modalities'],
  ])('%s', (_, request, refusal) => {
    expect(refusalOf(request)).toBe(refusal)
  })

  test('is enough where the provider reports what each call costs', () => {
    expect(refusalOf(asking(sound), {}, 'reported')).toBeUndefined()
  })

  test('is completed by the one rate that is missing', () => {
    expect(refusalOf(asking(sound), { output_audio: '8' })).toBeDefined()
    expect(refusalOf(asking(sound), { input_audio: '8' })).toBeUndefined()
  })
})
