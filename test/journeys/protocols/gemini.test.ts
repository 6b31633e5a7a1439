// Google's official client at the gateway: any model of the catalog, in Gemini's protocol.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  ApiError,
  type EmbedContentResponse,
  FunctionCallingConfigMode,
  type GenerateContentResponse,
  GoogleGenAI,
  Type,
  type Content,
} from '@google/genai'
import { failure, receiptOf } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: GoogleGenAI

beforeAll(async () => {
  weir = await serveWeir()
  client = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: weir.origin } })
}, 30_000)
afterAll(() => weir?.stop())

const headers = () => ({ 'x-goog-api-key': weir.key, 'content-type': 'application/json' })

/** A raw request, for what the client would not send. */
async function post(path: string, body: unknown, more: Record<string, string> = {}) {
  return fetch(`${weir.origin}/v1beta/models/${path}`, {
    method: 'POST',
    headers: { ...headers(), ...more },
    body: JSON.stringify(body),
  })
}

const charged = async (id: string) => (await receiptOf(weir, id))!.total

const level = {
  name: 'water_level',
  description: 'The level of a river at a town, in metres.',
  parameters: {
    type: Type.OBJECT,
    properties: { town: { type: Type.STRING }, unit: { type: Type.STRING, nullable: true } },
    required: ['town'],
  },
}

describe('a path without models/, as the AI SDK writes it', () => {
  const ask = (path: string) =>
    fetch(`${weir.origin}/v1beta/${path}`, {
      method: 'POST',
      headers: headers(),
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'Hello, river.' }] }] }),
    })

  test('calls the model, whole and streamed', async () => {
    const whole = (await (await ask('sim/echo:generateContent')).json()) as GenerateContentResponse
    expect(whole.candidates![0]!.content!.parts![0]!.text).toBe('Hello, river.')
    const streamed = await ask('sim/echo:streamGenerateContent?alt=sse')
    expect(streamed.headers.get('content-type')).toStartWith('text/event-stream')
    expect(await streamed.text()).toContain('river.')
  })

  test.each([
    ['sim/nothing:generateContent', 'There is no model "sim/nothing".'],
    ['sim/echo:ponder', 'There is no such method of a model here'],
    ['files', 'There is no POST /v1beta/files here.'],
  ])('%s is refused: %s', async (path, message) => {
    const refused = await ask(path)
    expect(refused.status).toBe(404)
    expect(await refused.json()).toMatchObject({
      error: { status: 'NOT_FOUND', message: expect.stringContaining(message) },
    })
  })
})

describe('embedContent', () => {
  const vectorsOf = (answer: EmbedContentResponse) => answer.embeddings!.map(({ values }) => values!)

  test('gives the vectors of POST /v1/embeddings, and its usage is what was charged', async () => {
    const answer = await client.models.embedContent({
      model: 'sim/embed',
      contents: [
        { parts: [{ text: 'The river.' }] },
        { parts: [{ text: 'A weir' }, { text: 'is built across it.' }] },
      ],
      config: { outputDimensionality: 4 },
    })
    const asked = await fetch(`${weir.baseUrl}/embeddings`, {
      method: 'POST',
      headers: { ...headers(), authorization: `Bearer ${weir.key}` },
      body: JSON.stringify({
        model: 'sim/embed',
        input: ['The river.', 'A weir\nis built across it.'],
        dimensions: 4,
      }),
    })
    const { data } = (await asked.json()) as { data: { embedding: number[] }[] }
    expect(vectorsOf(answer)).toEqual(data.map(({ embedding }) => embedding))
    const { headers: answered } = answer.sdkHttpResponse as { headers: Record<string, string> }
    const { usageMetadata } = answer as { usageMetadata?: { cost: number; promptTokenCount: number } }
    expect(usageMetadata!.promptTokenCount).toBeGreaterThan(2)
    expect(usageMetadata!.cost).toBe(Number(await charged(answered['x-request-id']!)))
  })

  test('takes one content, in snake case', async () => {
    const content = { parts: { text: 'The river.' } }
    const response = await post('sim/embed:embedContent', { content, output_dimensionality: 3 })
    const { embedding } = (await response.json()) as { embedding: { values: number[] } }
    expect(embedding.values).toHaveLength(3)
  })

  const text = (words: string, more: object = {}) => ({ content: { parts: [{ text: words }] }, ...more })
  test.each([
    ['content', {}, 'embedContent', 'invalid_request'],
    ['content', text(''), 'embedContent', 'invalid_request'],
    ['model', text('a', { model: 'models/sim/other' }), 'embedContent', 'invalid_request'],
    ['max_cost', text('a', { max_cost: 'much' }), 'embedContent', 'invalid_request'],
    [
      'content.parts[1]',
      { content: { parts: [{ text: 'a' }, { inlineData: { mimeType: 'image/png', data: 'AA==' } }] } },
      'embedContent',
      'unsupported_parameter',
    ],
    ['requests', { requests: [] }, 'batchEmbedContents', 'invalid_request'],
    [
      'requests[1].taskType',
      { requests: [text('a'), text('b', { taskType: 'CLUSTERING' })] },
      'batchEmbedContents',
      'invalid_request',
    ],
  ] as const)('names %s in its refusal', async (param, body, method, reason) => {
    const response = await post(`sim/embed:${method}`, body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { details: [{ reason, metadata: { param } }] } })
  })

  test('is refused for a model that chats, in Google’s shape', async () => {
    const response = await post('sim/echo:embedContent', text('a'))
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { status: 'INVALID_ARGUMENT', details: [{ reason: 'wrong_endpoint' }] },
    })
  })

  test('models that embed are listed with what they can do', async () => {
    const model = await client.models.get({ model: 'sim/embed' })
    expect(
      (model as { supportedGenerationMethods?: string[] }).supportedGenerationMethods ??
        model.supportedActions,
    ).toEqual(['embedContent', 'batchEmbedContents'])
  })
})

describe('generateContent', () => {
  test('answers, and its usage is what was charged', async () => {
    const answer = await client.models.generateContent({ model: 'sim/echo', contents: 'Hello, river.' })
    expect(answer.text).toBe('Hello, river.')
    expect(answer).toMatchObject({
      modelVersion: 'sim/echo',
      candidates: [{ index: 0, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 2, totalTokenCount: 9 },
    })
    const { cost } = answer.usageMetadata as unknown as { cost: number }
    expect(cost).toBe(Number(await charged(answer.responseId!)))
  })

  test('takes snake case, instructions, bounds and stop sequences', async () => {
    const response = await post('sim%2Flong:generateContent', {
      system_instruction: { parts: [{ text: 'Be long.' }] },
      contents: [{ parts: [{ text: 'Tell all.' }] }],
      generation_config: { max_output_tokens: 5 },
    })
    expect(await response.json()).toMatchObject({
      candidates: [{ finishReason: 'MAX_TOKENS' }],
      usageMetadata: { candidatesTokenCount: 5 },
    })
  })

  // https://ai.google.dev/gemini-api/docs/text-generation, system instructions.
  test('takes one object where the protocol has a list, as Google’s example writes it', async () => {
    const response = await post('sim%2Fecho:generateContent', {
      system_instruction: { parts: { text: 'You are a cat. Your name is Neko.' } },
      contents: { parts: { text: 'Hello there' } },
      tools: { function_declarations: { name: 'purr' } },
    })
    expect(await response.json()).toMatchObject({
      candidates: [{ content: { parts: [{ text: 'Hello there' }] }, finishReason: 'STOP' }],
    })
  })

  test('answers in the JSON that a schema of Google’s asks for', async () => {
    const answer = await client.models.generateContent({
      model: 'sim/json',
      contents: 'A river, please.',
      config: {
        responseMimeType: 'application/json',
        responseSchema: {
          type: Type.OBJECT,
          properties: { name: { type: Type.STRING }, length: { type: Type.INTEGER, nullable: true } },
          required: ['name', 'length'],
        },
      },
    })
    const made = JSON.parse(answer.text!) as { name: unknown; length: unknown }
    expect(typeof made.name).toBe('string')
    expect(Object.keys(made).toSorted()).toEqual(['length', 'name'])
  })

  test('shows thoughts apart from the text, and takes them back with the next turn', async () => {
    const asked = { model: 'sim/reason', contents: 'Think.' as string | Content[] }
    const shown = await client.models.generateContent({
      ...asked,
      config: { thinkingConfig: { includeThoughts: true } },
    })
    const { content } = shown.candidates![0]!
    expect(content!.parts![0]).toMatchObject({ thought: true })
    // Many clients take the first part for the answer: thoughts that nobody asked for are not there.
    const hidden = await client.models.generateContent(asked)
    expect(hidden.candidates![0]!.content!.parts!.filter(({ thought }) => thought)).toEqual([])
    expect(hidden.candidates![0]!.content!.parts![0]!.text).toBe(hidden.text!)
    expect(hidden.usageMetadata!.thoughtsTokenCount).toBeGreaterThan(0)
    expect(shown.usageMetadata!.thoughtsTokenCount).toBeGreaterThan(0)
    const next = await client.models.generateContent({
      ...asked,
      contents: [
        { role: 'user', parts: [{ text: 'Think.' }] },
        content!,
        { role: 'user', parts: [{ text: 'On.' }] },
      ],
    })
    expect(next.text).not.toBe('')
  })

  test('an image goes along as it was sent', async () => {
    const pixel =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII='
    const answer = await client.models.generateContent({
      model: 'sim/echo',
      contents: [
        {
          role: 'user',
          parts: [{ inlineData: { mimeType: 'image/png', data: pixel } }, { text: 'What is it?' }],
        },
      ],
    })
    expect(answer.text).toContain('What is it?')
  })
})

describe('functions', () => {
  test('are called whole, and their results are taken back by id and by name', async () => {
    const config = { tools: [{ functionDeclarations: [level] }] }
    const question: Content = { role: 'user', parts: [{ text: 'How high is the river at Basel?' }] }
    const asked = await client.models.generateContent({ model: 'sim/tools', contents: [question], config })
    const [call] = asked.functionCalls!
    expect(call).toMatchObject({ name: 'water_level' })
    expect(typeof call!.args!['town']).toBe('string')
    const said = asked.candidates![0]!.content!
    for (const id of [call!.id!, undefined]) {
      // Without ids on both sides, as older clients write the history, the name tells which call is answered.
      const model: Content =
        id === undefined
          ? { role: 'model', parts: [{ functionCall: { name: 'water_level', args: {} } }] }
          : said
      const result = {
        functionResponse: { ...(id && { id }), name: 'water_level', response: { output: '2.31' } },
      }
      const told = await client.models.generateContent({
        model: 'sim/tools',
        contents: [question, model, { role: 'user', parts: [result] }],
        config,
      })
      expect(told.text).toContain('2.31')
    }
  })

  test('one function may be demanded, and all may be forbidden', async () => {
    const other = { name: 'other', description: 'Nothing.' }
    const config = { tools: [{ functionDeclarations: [other, level] }] }
    const demanded = await client.models.generateContent({
      model: 'sim/tools',
      contents: 'How high?',
      config: {
        ...config,
        toolConfig: {
          functionCallingConfig: {
            mode: FunctionCallingConfigMode.ANY,
            allowedFunctionNames: ['water_level'],
          },
        },
      },
    })
    expect(demanded.functionCalls?.map(({ name }) => name)).toEqual(['water_level'])
    const forbidden = await client.models.generateContent({
      model: 'sim/tools',
      contents: 'How high?',
      config: { ...config, toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.NONE } } },
    })
    expect(forbidden.functionCalls).toBeUndefined()
  })
})

describe('streamGenerateContent', () => {
  test('streams chunks, the last with the finish reason and the usage', async () => {
    const stream = await client.models.generateContentStream({
      model: 'sim/echo',
      contents: 'Where to, river, so early in the day?',
    })
    const chunks = await Array.fromAsync(stream)
    expect(chunks.length).toBeGreaterThan(2)
    expect(chunks.map((chunk) => chunk.text ?? '').join('')).toBe('Where to, river, so early in the day?')
    const reasons = chunks.map((chunk) => chunk.candidates?.[0]?.finishReason)
    expect(reasons.filter((reason) => reason !== undefined)).toEqual(['STOP' as never])
    expect(chunks.at(-1)!.usageMetadata!.totalTokenCount).toBeGreaterThan(0)
  })

  test('a chat of the client remembers what was streamed', async () => {
    const chat = client.chats.create({ model: 'sim/echo' })
    for (const message of ['I am Ann.', 'Who am I?'])
      await Array.fromAsync(await chat.sendMessageStream({ message }))
    const turns = chat.getHistory(true)
    expect(turns.filter(({ role }) => role === 'user')).toHaveLength(2)
    expect(turns.flatMap(({ parts }) => parts!.map(({ text }) => text)).join('')).toBe(
      'I am Ann.I am Ann.Who am I?Who am I?',
    )
  })

  test('streams a function call whole', async () => {
    const stream = await client.models.generateContentStream({
      model: 'sim/tools',
      contents: 'How high is the river at Basel?',
      config: { tools: [{ functionDeclarations: [level] }] },
    })
    const calls = (await Array.fromAsync(stream)).flatMap((chunk) => chunk.functionCalls ?? [])
    expect(calls.map(({ name }) => name)).toEqual(['water_level'])
  })

  test('is one JSON array where no events are asked for', async () => {
    const response = await post('sim/echo:streamGenerateContent', {
      contents: [{ role: 'user', parts: [{ text: 'One, two, three.' }] }],
    })
    expect(response.headers.get('content-type')).toStartWith('application/json')
    const chunks = (await response.json()) as { candidates: { content: { parts: { text?: string }[] } }[] }[]
    const texts = chunks.flatMap(
      ({ candidates }) => candidates[0]?.content.parts.map(({ text }) => text ?? '') ?? [],
    )
    expect(texts.join('')).toBe('One, two, three.')
  })

  test('a stream that the provider cuts is an error to the client, not an end', async () => {
    const stream = await client.models.generateContentStream({ model: 'sim/cut', contents: 'Go on.' })
    const thrown = await failure(Array.fromAsync(stream))
    expect(thrown).toBeInstanceOf(ApiError)
  })
})

describe('counts, models and refusals', () => {
  test('tokens are counted for nothing', async () => {
    const { totalTokens } = await client.models.countTokens({ model: 'sim/echo', contents: 'Hello, river.' })
    expect(totalTokens).toBeGreaterThan(2)
  })

  test('the catalog is listed page by page, and one model is shown', async () => {
    const names: string[] = []
    const pager = await client.models.list({ config: { pageSize: 1_000 } })
    for await (const model of pager) names.push(model.name!)
    expect(names).toContain('models/sim/echo')
    expect(new Set(names).size).toBe(names.length)
    const model = await client.models.get({ model: 'models/gemini-2.5-flash' })
    expect(model).toMatchObject({ name: 'models/gemini/gemini-2.5-flash', inputTokenLimit: 1_048_576 })
  })

  test('a key is asked for under Google’s name, and errors are in Google’s shape', async () => {
    const bare = await fetch(`${weir.origin}/v1beta/models/sim/echo:generateContent`, { method: 'POST' })
    expect(bare.status).toBe(401)
    expect(await bare.json()).toMatchObject({
      error: { code: 401, status: 'UNAUTHENTICATED', details: [{ reason: 'missing_api_key' }] },
    })
    const wrong = new GoogleGenAI({ apiKey: 'AIza-nothing', httpOptions: { baseUrl: weir.origin } })
    const thrown = await failure(wrong.models.generateContent({ model: 'sim/echo', contents: 'Hi' }))
    expect(thrown).toMatchObject({ status: 401 })
  })

  const user = (parts: unknown[]) => ({ contents: [{ role: 'user', parts }] })
  const hi = (more: object) => ({ ...user([{ text: 'Hi' }]), ...more })
  const configured = (generationConfig: object) => hi({ generationConfig })
  const searching = [{ functionDeclarations: [] }, { google_search: {} }]
  const answered = { functionResponse: { name: 'f', response: {} } }
  const file = { fileData: { mimeType: 'image/png', fileUri: 'http://127.0.0.1:9/x.png' } }
  const thinkingLevel = 'DEEP'
  test.each([
    ['contents', {}, 'invalid_request'],
    ['contents', { contents: [] }, 'invalid_request'],
    ['tools', hi({ tools: [{ url_context: {} }] }), 'unsupported_parameter'],
    // No search is configured here: the refusal names the tool as the client wrote it.
    ['tools[1].googleSearch', hi({ tools: searching }), 'unsupported_parameter'],
    ['cachedContent', hi({ cachedContent: 'cachedContents/1' }), 'unsupported_parameter'],
    ['contents[0].parts[0].functionResponse', user([answered]), 'invalid_request'],
    ['contents[0].parts[0].fileData.fileUri', user([file]), 'url_not_allowed'],
    ['generationConfig.maxOutputTokens', configured({ maxOutputTokens: 0 }), 'invalid_request'],
    [
      'generationConfig.thinkingConfig.thinkingLevel',
      configured({ thinkingConfig: { thinkingLevel } }),
      'invalid_request',
    ],
  ])('names %s in its refusal', async (param, body, reason) => {
    const response = await post('sim/echo:generateContent', body)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({
      error: { status: 'INVALID_ARGUMENT', details: [{ reason, metadata: { param } }] },
    })
  })

  test.each(['sim/echo:predict', 'sim/echo', 'nobody/nothing:generateContent'])(
    'there is no %s',
    async (path) => {
      const response = await post(path, user([{ text: 'Hi' }]))
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ error: { code: 404, status: 'NOT_FOUND' } })
    },
  )

  test('a request that is sent twice with one Idempotency-Key is charged once', async () => {
    const body = user([{ text: 'Once.' }])
    const key = { 'idempotency-key': crypto.randomUUID() }
    const first = (await (await post('sim/echo:generateContent', body, key)).json()) as { responseId: string }
    const second = await post('sim/echo:generateContent', body, key)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(await second.json()).toMatchObject({ responseId: first.responseId })
  })
})
