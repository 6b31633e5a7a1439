// What a provider says when it refuses or fails: its status decides however much it writes, and a client inside a stream
// learns as much of it as one that was answered with a status.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { postAs } from '../../support/call-gateway.ts'
import { codeIn, type Lab, startLab } from '../../chat/lab.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

const tooLong = "This model's maximum context length is 8192 tokens"
/** Echoed from a request. */
const quoted = 'a "quoted" prompt \\ \n'.repeat(20_000)

/** The refusals of each protocol, as large as a prompt, with the words or the code at the end. */
const refusals: Record<string, (kind: 'invalid' | 'long') => object> = {
  'openai-chat': (kind) => ({
    error: { message: quoted, type: 'invalid_request_error', code: codes[kind], param: 'messages' },
  }),
  'openai-responses': (kind) => ({
    error: { message: quoted, type: 'invalid_request_error', code: codes[kind], param: 'input' },
  }),
  'anthropic-messages': (kind) => ({
    quoted,
    type: 'error',
    error: { type: 'invalid_request_error', message: kind === 'long' ? 'prompt is too long' : 'not so' },
  }),
  gemini: (kind) => ({
    quoted,
    error: {
      code: 400,
      message: kind === 'long' ? 'The input token count exceeds the maximum number of tokens' : 'not so',
      status: 'INVALID_ARGUMENT',
    },
  }),
  'bedrock-converse': (kind) => ({ quoted, message: kind === 'long' ? 'Input is too long' : 'not so' }),
  cohere: (kind) => ({ quoted, message: kind === 'long' ? 'too many tokens' : 'not so' }),
  ollama: (kind) => ({ quoted, error: kind === 'long' ? tooLong : 'not so' }),
}
const codes = { invalid: 'invalid_value', long: 'context_length_exceeded' } as const

const plain: Record<string, string> = {
  text: `not so: ${quoted}`,
  broken: `{"error":{"message":"not so","quoted":[${'[1],'.repeat(40_000)}`,
}

const protocols = Object.keys(refusals)

function refuse(request: Request): Promise<Response> {
  const protocol = new URL(request.url).pathname.split('/')[1]!
  return request.text().then((text) => {
    const kind = `${request.url} ${text}`.includes('m-long') ? 'long' : 'invalid'
    const body = plain[protocol] ?? JSON.stringify((refusals[protocol] ?? refusals['openai-chat'])!(kind))
    return new Response(body, { status: 400, headers: { 'content-type': 'application/json' } })
  })
}

let refusing: ReturnType<typeof Bun.serve>
let down: MockProvider
let cut: MockProvider
let lab: Lab

beforeAll(async () => {
  refusing = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: refuse })
  down = await startMockProvider({ fault: () => ({ kind: 'status', status: 503 }) })
  cut = await startMockProvider({ fault: () => ({ kind: 'truncate', at: 'mid-stream' }) })
  const at = (name: string) => `http://127.0.0.1:${refusing.port}/${name}/v1`
  lab = await startLab({
    providers: {
      ...Object.fromEntries(protocols.map((protocol) => [protocol, { protocol, base_url: at(protocol) }])),
      text: at('text'),
      broken: at('broken'),
      down: down.url,
      cut: cut.url,
    },
    models: {
      ...Object.fromEntries(
        protocols.flatMap((name) =>
          ['m', 'm-long'].map((model) => [`${name}/${model}`, [`${name}/${model}`]] as const),
        ),
      ),
      'text/m': ['text/m'],
      'broken/m': ['broken/m'],
      'openai-chat/vectors': {
        output_modalities: ['embeddings'],
        offers: [{ provider: 'openai-chat', upstream: 'vectors', price: { input: '1', output: '0' } }],
      },
      'both/m': ['down/m', 'cut/m'],
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([down, cut].map((mock) => mock?.stop()))
  await refusing?.stop(true)
})

function post(path: string, body: object): Promise<Response> {
  return postAs(lab.weir.origin + path, lab.weir.key, body, {
    headers: { 'x-goog-api-key': path.startsWith('/v1beta') ? lab.weir.key : '' },
  })
}

describe('a 400 of a provider that quotes the whole request is a 400', () => {
  test.each(protocols.flatMap((name) => [false, true].map((stream) => [name, stream] as const)))(
    'of %s (streamed: %p)',
    async (name, stream) => {
      const invalid = await lab.ask(`${name}/m`, { stream })
      expect([invalid.status, codeIn(invalid.text)]).toEqual([400, 'invalid_request'])
      expect(invalid.headers.get('x-should-retry')).toBe('false')
      const long = await lab.ask(`${name}/m-long`, { stream })
      expect([long.status, codeIn(long.text)]).toEqual([400, 'context_length_exceeded'])
    },
  )

  test.each(Object.keys(plain))('that is no JSON of a known shape (%s)', async (name) => {
    const answer = await lab.ask(`${name}/m`)
    expect([answer.status, codeIn(answer.text)]).toEqual([400, 'invalid_request'])
    expect(answer.text.length).toBeLessThan(4_000)
  })

  test('to embeddings', async () => {
    const response = await post('/v1/embeddings', { model: 'openai-chat/vectors', input: 'words' })
    expect([response.status, codeIn(await response.text())]).toEqual([400, 'invalid_request'])
  })
})

const user = { role: 'user', content: 'Where does it run?' }
const asked: Record<string, [path: string, body: object]> = {
  chat: ['/v1/chat/completions', { model: 'both/m', stream: true, messages: [user] }],
  completions: ['/v1/completions', { model: 'both/m', stream: true, prompt: user.content }],
  messages: ['/v1/messages', { model: 'both/m', stream: true, max_tokens: 50, messages: [user] }],
  responses: ['/v1/responses', { model: 'both/m', stream: true, input: user.content }],
  gemini: [
    '/v1beta/models/both/m:streamGenerateContent?alt=sse',
    { contents: [{ role: 'user', parts: [{ text: user.content }] }] },
  ],
}

test.each(Object.entries(asked))(
  'an error inside a stream of %s names the request and every attempt',
  async (_, [path, body]) => {
    const response = await post(path, body)
    expect(response.status).toBe(200)
    const id = response.headers.get('x-request-id')!
    const data = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'))
    const error = data.find((line) => line.includes('upstream_error'))!
    // Some protocols have room for texts only.
    const text = error.replaceAll('\\"', '"')
    expect(text).toContain(`"${id}"`)
    const attempts = JSON.parse(/"attempts":"?(\[.*?\])/.exec(text)![1]!) as object[]
    expect(attempts).toMatchObject([
      { provider: 'down', code: 'overloaded', status: 503 },
      { provider: 'cut', code: 'upstream_error' },
    ])
    expect(attempts).toHaveLength(2)
  },
)
