// Answers that the model itself spoiled, such as a call that Gemini cannot read: the client learns why at once and may
// try again, no provider is asked again behind its back, and what was counted is charged, streamed or not.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI } from '@google/genai'
import OpenAI, { APIError } from 'openai'
import { codeIn, type Lab, startLab, wordsIn } from '../../chat/lab.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import {
  type Arrival,
  type ScriptedProvider,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

const head = (type: string) => `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n\r\n`
const usageMetadata = { promptTokenCount: 110, totalTokenCount: 110 }
const spoilt = (finishReason: string) => ({
  candidates: [{ index: 0, finishReason, finishMessage: `${finishReason}: print(default_` }],
  modelVersion: 'm',
  usageMetadata,
})
const words = {
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text: 'Let me see.' }] } }],
  usageMetadata: { promptTokenCount: 110, candidatesTokenCount: 4, totalTokenCount: 114 },
}
const compatible = {
  id: 'c1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: '' },
      finish_reason: 'function_call_filter: MALFORMED_FUNCTION_CALL',
    },
  ],
  usage: { prompt_tokens: 110, completion_tokens: 0, total_tokens: 110 },
}

const reasons = [
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
  'NO_IMAGE',
]

/** The body for a request to this path: the model names the reason; `late-` has said something before. */
function bodyFor(path: string): string {
  const [, model = '', method] = /models\/([^:]+):(\w+)/.exec(path) ?? []
  const reason = model.replace(/^late-/, '')
  const chunks: object[] = model.startsWith('late-') ? [words, spoilt(reason)] : [spoilt(reason)]
  if (reason === 'OTHER')
    chunks[0] = { ...spoilt(reason), candidates: [{ ...words.candidates[0], finishReason: reason }] }
  if (method === 'generateContent') return head('application/json') + JSON.stringify(chunks.at(-1))
  return head('text/event-stream') + chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')
}

let google: ScriptedProvider
let hosted: ScriptedProvider
let lab: Lab

beforeAll(async () => {
  google = await startScriptedProvider({}, (_, path) => async (wire) => {
    await wire.write(bodyFor(path))
    wire.end()
  })
  hosted = await startScriptedProvider({}, (body) => async (wire) => {
    const { message, ...choice } = compatible.choices[0]!
    const chunk = { ...compatible, object: 'chat.completion.chunk', choices: [{ ...choice, delta: message }] }
    await wire.write(
      body['stream'] === true
        ? `${head('text/event-stream')}data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`
        : head('application/json') + JSON.stringify(compatible),
    )
    wire.end()
  })
  const gemini = { protocol: 'gemini', base_url: google.url }
  lab = await startLab({
    providers: { g: gemini, again: gemini, hosted: hosted.url },
    models: {
      ...Object.fromEntries(reasons.map((name) => [`g/${name}`, [`g/${name}`, `again/${name}`]])),
      'g/late': ['g/late-MALFORMED_FUNCTION_CALL', 'again/late-MALFORMED_FUNCTION_CALL'],
      'g/OTHER': ['g/OTHER'],
      'hosted/m': ['hosted/m'],
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([google, hosted].map((provider) => provider?.stop()))
})

const toModel = (arrivals: readonly Arrival[], model: string) =>
  arrivals.filter(({ path }) => path.includes(`/${model}:`))

describe('an answer that the model spoiled', () => {
  test.each(reasons)(
    'by %s is an error that says so, asked for once and charged as counted',
    async (reason) => {
      for (const stream of [false, true]) {
        const before = toModel(google.arrivals, reason).length
        const { status, headers, text, requestId } = await lab.ask(`g/${reason}`, { stream, max_tokens: 50 })
        expect(status).toBe(502)
        expect(headers.get('x-should-retry')).toBe('true')
        expect(JSON.parse(text)).toMatchObject({
          error: {
            code: 'unusable_answer',
            message: `${reason}: print(default_`,
            metadata: { source: 'provider', provider: 'g', provider_code: reason, retryable: true },
          },
        })
        expect(toModel(google.arrivals, reason).length - before).toBe(1)
        expect(await receiptOf(lab.weir, requestId)).toMatchObject({
          state: 'settled',
          usage: { prompt_tokens: 110, completion_tokens: 0, estimated: false },
          lines: [{ item: 'input', quantity: 110 }],
        })
      }
    },
  )

  test('is an error that the official client would try again', async () => {
    const client = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
    const before = google.arrivals.length
    const thrown: unknown = await client.chat.completions
      .create({ model: 'g/MALFORMED_FUNCTION_CALL', messages: [{ role: 'user', content: 'hi' }] })
      .catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(APIError)
    expect((thrown as APIError).status).toBe(502)
    expect(google.arrivals.length - before).toBe(1)
  })

  test('leaves the model open to others', async () => {
    for (let call = 0; call < 8; call++) await lab.ask('g/NO_IMAGE')
    expect((await lab.ask('g/NO_IMAGE')).status).toBe(502)
  })

  test('after its first words ends with the error, and is charged as counted', async () => {
    const { text, requestId } = await lab.ask('g/late', { stream: true, max_tokens: 50 })
    expect(wordsIn(text)).toBe('Let me see.')
    expect(codeIn(text)).toBe('unusable_answer')
    expect(await receiptOf(lab.weir, requestId)).toMatchObject({
      usage: { prompt_tokens: 110, completion_tokens: 4, estimated: false },
    })
  })

  test('reaches a client of Google’s own library as Google’s own answer, charged alike', async () => {
    const client = new GoogleGenAI({
      apiKey: lab.weir.key,
      httpOptions: { baseUrl: lab.weir.baseUrl.replace(/\/v1$/, '') },
    })
    const ask = { model: 'g/MALFORMED_FUNCTION_CALL', contents: 'hi' }
    const whole = await client.models.generateContent(ask)
    const chunks = await Array.fromAsync(await client.models.generateContentStream(ask))
    for (const answer of [whole, chunks.at(-1)!]) {
      expect(answer.candidates?.[0]).toMatchObject({
        finishReason: 'MALFORMED_FUNCTION_CALL',
      } as object)
      expect(await receiptOf(lab.weir, answer.responseId!)).toMatchObject({
        state: 'settled',
        usage: { prompt_tokens: 110, completion_tokens: 0 },
      })
    }
  })

  test.each([false, true])('is the same through the compatible endpoint (stream: %p)', async (stream) => {
    const before = hosted.arrivals.length
    const { status, text } = await lab.ask('hosted/m', { stream, max_tokens: 50 })
    expect(status).toBe(502)
    expect(text).toContain('MALFORMED_FUNCTION_CALL')
    expect(hosted.arrivals.length - before).toBe(1)
  })
})

const message = { role: 'user', content: 'hi' }
/** How each protocol says that an answer ended as none of its own does. */
const endings: readonly (readonly [string, object, readonly RegExp[]])[] = [
  [
    '/v1/chat/completions',
    { messages: [message] },
    [/"finish_reason":"other"/, /"native_finish_reason":"OTHER"/],
  ],
  ['/v1/completions', { prompt: 'hi' }, [/"finish_reason":"other"/, /"native_finish_reason":"OTHER"/]],
  [
    '/v1/messages',
    { max_tokens: 50, messages: [message] },
    [/"stop_reason":"other"/, /"native_finish_reason":"OTHER"/],
  ],
  [
    '/v1/responses',
    { input: 'hi' },
    [/"status":"incomplete"/, /"incomplete_details":\{"reason":"other","native_finish_reason":"OTHER"\}/],
  ],
  ['/v1beta/models/g/OTHER', { contents: 'hi' }, [/"finishReason":"OTHER"/]],
]

describe('an answer that ends in a way of its own', () => {
  test.each(endings)('has not finished well, says %s', async (path, body, says) => {
    const root = lab.weir.baseUrl.replace(/\/v1$/, '')
    for (const stream of [false, true]) {
      const isGemini = path.startsWith('/v1beta')
      const method = isGemini ? (stream ? ':streamGenerateContent?alt=sse' : ':generateContent') : ''
      const response = await fetch(root + path + method, {
        method: 'POST',
        headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(
          isGemini ? { contents: [{ parts: [{ text: 'hi' }] }] } : { model: 'g/OTHER', stream, ...body },
        ),
      })
      const text = await response.text()
      expect(response.status).toBe(200)
      expect(text).toContain('Let me see.')
      for (const said of says) expect(text).toMatch(said)
    }
  })
})
