// Sixteen faults that a provider is known for, and what a caller with a fallback model gets: one answer, whoever has
// made it, or an error that says what it is. What failed is on the receipt, and costs nothing.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import { type Lab, startLab } from '../../chat/lab.ts'
import { type Answer, expectAudited, post, receiptOf } from '../../support/call-gateway.ts'
import {
  chunk,
  delta,
  event,
  lastChunk,
  manners,
  plain,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  streamHead,
  type Wire,
  wholeStream,
} from '../../support/scripted-provider.ts'

/** How long the first may take to its first content, and be silent, milliseconds. */
const firstTokenMs = 400
const gapMs = 600

const answers: Script = async (wire) => {
  await wire.write(streamHead)
  await wire.write(chunk(wholeStream))
  await wire.write(lastChunk)
  wire.end()
}

const refuses =
  (status: number, error: object, headers: Record<string, string> = {}): Script =>
  async (wire) => {
    const body = JSON.stringify({ error: { message: 'no', type: 'error', code: null, ...error } })
    await wire.write(plain(status, 'application/json', body, { connection: 'close', ...headers }))
    wire.end()
  }

/** Answers with this stream; what it leaves open stays open. */
const streams =
  (text: string, then: (wire: Wire) => unknown = (wire) => wire.end()): Script =>
  async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(text))
    await then(wire)
  }

/** Answers after three times as long as the first token may take. */
const slow: Script = async (wire) => {
  await Bun.sleep(3 * firstTokenMs)
  return answers(wire)
}

const ends = async (wire: Wire) => {
  await wire.write(lastChunk)
  wire.end()
}
const hangs = () => undefined
/** Resolves when the client has read some of the answer: a connection that breaks takes with it what has not been. */
let read = Promise.withResolvers<void>()
const cuts = async (wire: Wire) => {
  await read.promise
  wire.end()
}
const begun = manners.start + manners.words

interface Verdict {
  /** The providers that were asked, in order. */
  readonly asked: readonly string[]
  /** The model that the answer is of. */
  readonly model?: string
  /** The text of the answer. */
  readonly says?: string
  /** The code of the error, where it ends with one. */
  readonly error?: string
  readonly status?: number
}

interface Fault extends Verdict {
  readonly name: string
  /** What the first does, call by call; the last goes on for ever. */
  readonly script: readonly Script[]
  /** What the request says beside it. */
  readonly request?: object
}

const first = { asked: ['first', 'first'], model: 'first/m' }
const second = { asked: ['first', 'first', 'second'], model: 'second/m' }
const atOnce = { asked: ['first', 'second'], model: 'second/m' }
const alone = { asked: ['first'], model: 'first/m' }

const faults: readonly Fault[] = [
  {
    name: 'limits the rate for a moment',
    script: [refuses(429, {}, { 'retry-after-ms': '100' }), answers],
    ...first,
  },
  { name: 'limits the rate without end', script: [refuses(429, {})], ...second },
  { name: 'fails once', script: [refuses(500, {}), answers], ...first },
  { name: 'is overloaded without end', script: [refuses(503, {})], ...second },
  { name: 'resets the connection', script: [(wire) => wire.reset()], ...second },
  { name: 'does not respond', script: [hangs], ...atOnce },
  {
    name: 'is slow to its first token',
    script: [streams(manners.start + ': at work\n\n', hangs)],
    ...atOnce,
  },
  {
    name: 'says 200 and then fails',
    script: [streams(event({ error: { message: 'Overloaded', code: 503 } }), ends)],
    ...second,
  },
  {
    name: 'cuts its stream',
    script: [streams(begun, cuts)],
    ...alone,
    says: 'The river runs.',
    error: 'upstream_error',
  },
  {
    name: 'stalls within its stream',
    script: [streams(begun, hangs)],
    ...alone,
    says: 'The river runs.',
    error: 'upstream_timeout',
  },
  {
    name: 'sends a malformed chunk',
    script: [
      streams(
        wholeStream.replace(
          manners.words,
          `${delta({ content: 'It ' })}data: {"id":"c","cho\n\n${delta({ content: 'runs.' })}`,
        ),
        ends,
      ),
    ],
    ...alone,
    says: 'It runs.',
  },
  { name: 'sends no [DONE]', script: [streams(wholeStream.replace(manners.done, ''), ends)], ...alone },
  {
    name: 'finds the prompt too long',
    script: [refuses(400, { code: 'context_length_exceeded' })],
    request: { models: ['second/small', 'second/large'] },
    asked: ['first', 'second'],
    model: 'second/large',
  },
  {
    name: 'filters the prompt',
    script: [refuses(400, { code: 'content_filter', message: 'The prompt is filtered.' })],
    asked: ['first'],
    error: 'content_filtered',
    status: 400,
  },
  {
    name: 'does not go on with an answer that is begun for it',
    script: [
      refuses(400, {
        type: 'invalid_request_error',
        message: 'This model does not support assistant message prefill.',
      }),
    ],
    request: {
      messages: [
        { role: 'user', content: 'Where does it run?' },
        { role: 'assistant', content: 'The ' },
      ],
    },
    ...atOnce,
  },
]

let providers: readonly ScriptedProvider[] = []
let lab: Lab

beforeAll(async () => {
  const calls = new Map<string, number>()
  const byName = new Map(faults.map((fault, at) => [`m${at}`, fault.script]))
  const flaps: readonly Script[] = [answers, refuses(503, {}), (wire) => wire.reset(), answers]
  const play = (body: object): Script | undefined => {
    const model = String(Reflect.get(body, 'model'))
    const call = calls.get(model) ?? 0
    calls.set(model, call + 1)
    if (model === 'slow') return slow
    if (model === 'flaps') return flaps[Math.floor(call / 3) % flaps.length]
    const script = byName.get(model)
    return script?.[Math.min(call, script.length - 1)]
  }
  providers = [await startScriptedProvider({}, play), await startScriptedProvider({}, () => answers)]
  const model = { price: { input: '1', output: '2' }, max_output_tokens: 4096 }
  const of = (upstream: string, context_length: number, more: object = {}) => ({
    ...model,
    context_length,
    ...more,
    offers: [{ provider: 'first', upstream, price: model.price }],
  })
  lab = await startLab({
    providers: Object.fromEntries(['first', 'second'].map((id, at) => [id, providers[at]!.url])),
    models: {
      ...Object.fromEntries(faults.map((_, at) => [`first/m${at}`, of(`m${at}`, 1_000)])),
      'first/flaps': of('flaps', 1_000),
      'first/filters': of(`m${faults.findIndex(({ name }) => name === 'filters the prompt')}`, 1_000),
      'first/slow': of('slow', 1_000),
      'first/thinks': of('slow', 1_000, { reasoning: true }),
      'second/m': { ...model, context_length: 2_000 },
      'second/small': { ...model, context_length: 500 },
      'second/large': { ...model, context_length: 2_000 },
      forgiving: { route: { to: ['first/filters', 'second/m'], fallback_on_content_filter: true } },
    },
    settings: {
      timeouts: { first_token_ms: firstTokenMs, first_byte_ms: 20_000, gap_ms: gapMs },
      log: { level: 'error' },
    },
  })
}, 30_000)

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all(providers.map((provider) => provider.stop()))
})

const messages = [{ role: 'user', content: 'Where does it run?' }]

async function ask(model: string, more: object = {}): Promise<Answer & { readonly receipt: Receipt }> {
  const body = { model, messages, models: ['second/m'], stream: true, ...more }
  read = Promise.withResolvers()
  const onText = (text: string) => void (text.includes('river') && read.resolve())
  const answer = await post(lab.weir, body, { onText })
  return { ...answer, receipt: (await receiptOf(lab.weir, answer.requestId))! }
}

/** What of an answer a verdict is about. */
const verdictOf = ({ status, content, error, receipt }: Awaited<ReturnType<typeof ask>>) => ({
  asked: receipt.attempts.map(({ provider }) => provider),
  status,
  error: error?.code,
  says: content,
  total: receipt.total,
})

/** A whole answer is 12 tokens of prompt and 4 of output. */
const whole = { says: 'The river runs.', total: '0.00002' }

/** One of them is not a single call's. */
test('there are sixteen of them', () => expect(faults.length + 1).toBe(16))

describe('a provider that', () => {
  test.each(faults.map((fault, at) => [fault.name, fault, at] as const))('%s', async (_, fault, at) => {
    const answer = await ask(`first/m${at}`, fault.request)
    const { asked, says = whole.says, error, status = 200, model } = fault
    expect(verdictOf(answer)).toEqual({
      asked: [...asked],
      status,
      error,
      says: status === 200 ? says : '',
      total: status === 200 && error === undefined ? whole.total : expect.any(String),
    })
    const { receipt } = answer
    expect(receipt.held).toBe('0')
    if (status !== 200) return expect(receipt).toMatchObject({ state: 'voided', total: '0' })
    expect(answer.headers.get('x-weir-model')).toBe(model === 'first/m' ? `first/m${at}` : model!)
    expect(answer.events.at(-1)).toBe('[DONE]')
    expect(answer.finishes).toEqual([error === undefined ? 'stop' : 'error'])
    // What was cut is charged as far as it came, and no further.
    if (error !== undefined) {
      expect(receipt).toMatchObject({ state: 'settled', usage: { estimated: true } })
      expect(Number(receipt.total)).toBeWithin(0.000001, Number(whole.total))
    }
    return undefined
  })

  test('flaps for long costs no call its answer', async () => {
    const served = new Set<string>()
    for (let at = 0; at < 60; at++) {
      const { status, error, content, headers } = await ask('first/flaps')
      expect({ status, error, content }).toEqual({ status: 200, error: undefined, content: whole.says })
      served.add(headers.get('x-weir-provider')!)
    }
    expect([...served].toSorted()).toEqual(['first', 'second'])
  })

  test.each([
    ['the request', 'first/filters', { provider: { fallback_on_content_filter: true } }],
    ['the route', 'forgiving', { models: undefined }],
  ])('filters the prompt has it go to the fallback where %s says so', async (_, model, more) => {
    const answer = await ask(model, more)
    expect(verdictOf(answer)).toMatchObject({ asked: ['first', 'second'], status: 200, ...whole })
  })

  test.each([
    ['whose request asks for reasoning', 'first/slow', { reasoning_effort: 'high' }],
    ['that the catalog says reasons', 'first/thinks', {}],
    ['that nobody waits for', 'first/slow', { models: undefined }],
  ])('is slow to its first token, %s, is waited for', async (_, model, more) => {
    const answer = await ask(model, more)
    expect(verdictOf(answer)).toMatchObject({ asked: ['first'], status: 200, ...whole })
  })
})

test('nothing is held, and the ledger proves itself', async () => {
  expect(await lab.held()).toBe('0')
  await expectAudited(lab.weir)
})
