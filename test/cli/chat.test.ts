// `weir chat` against a gateway of the test's own: what is shown where, and how each failure ends.

import { afterAll, describe, expect, test } from 'bun:test'
import { type Ran, run } from './run.ts'

const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ model: 'sim/echo', choices: [{ index: 0, delta, finish_reason: null }], ...more })}\n\n`
const usage = `data: ${JSON.stringify({
  model: 'sim/echo',
  choices: [],
  usage: {
    prompt_tokens: 6,
    completion_tokens: 2,
    cost_details: { input: '0.000003', tools: '0', total: '0.000003' },
  },
})}\n\n`
const done = 'data: [DONE]\n\n'

const answers: Readonly<Record<string, () => Response>> = {
  good: () =>
    new Response(`: keepalive\n\n${chunk({ content: 'Hel' })}${chunk({ content: 'lo' })}${usage}${done}`),
  thinking: () =>
    new Response(`${chunk({ reasoning_content: 'hm' })}${chunk({ content: 'Yes' })}${usage}${done}`),
  cut: () => new Response(chunk({ content: 'Hel' })),
  broken: () =>
    new Response(
      `${chunk({ content: 'Hel' })}${chunk({}, { error: { message: 'It broke.', code: 'upstream_error' } })}${done}`,
    ),
  poor: () =>
    Response.json({ error: { message: 'No credit.', code: 'insufficient_credits' } }, { status: 402 }),
  proxy: () => new Response('<html>', { status: 502 }),
  garbage: () => new Response('data: <html>\n\n'),
}

const seen: unknown[] = []
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: async (request) => {
    const body: unknown = await request.json()
    seen.push({ authorization: request.headers.get('authorization'), body })
    const response =
      answers[String(Reflect.get(Object(body), 'model'))]?.() ?? new Response('?', { status: 404 })
    response.headers.set('x-request-id', 'req_1')
    return response
  },
})
afterAll(() => server.stop(true))

function chat(...argv: string[]): Promise<Ran> {
  return chatWith('', ...argv)
}

/** The same with a text on standard input. */
function chatWith(input: string, ...argv: string[]): Promise<Ran> {
  const env = { WEIR_API_KEY: 'key-of-env', WEIR_PORT: String(server.port) }
  return run({ cwd: '/nowhere', env, input }, 'chat', ...argv)
}

describe('weir chat', () => {
  test.each([
    [['-'], 'line one\nline two'],
    [['Summarise', '-'], 'Summarise\n\nline one\nline two'],
  ])('%p asks with standard input', async (words, content) => {
    expect(await chatWith('line one\nline two\n', 'good', ...words)).toMatchObject({
      code: 0,
      out: 'Hello\n',
    })
    expect(seen.at(-1)).toMatchObject({ body: { messages: [{ role: 'user', content }] } })
  })

  test('an empty standard input is refused before anybody is asked', async () => {
    const asked = seen.length
    expect(await chatWith('\n', 'good', '-')).toMatchObject({ code: 2, out: '' })
    expect(seen.length).toBe(asked)
  })

  test('streams the reply to standard output and the receipt to standard error', async () => {
    const ran = await chat('good', 'Hello', 'there')
    expect(ran).toMatchObject({ code: 0, out: 'Hello\n' })
    expect(ran.err).toBe(
      '\nsim/echo: 6 prompt and 2 completion tokens\n  input        0.000003 USD\n  total        0.000003 USD\n  receipt req_1\n',
    )
    expect(seen.at(-1)).toMatchObject({
      authorization: 'Bearer key-of-env',
      body: { model: 'good', messages: [{ role: 'user', content: 'Hello there' }], stream: true },
    })
  })

  test('prefers the key and the address that are given', async () => {
    await run(
      { cwd: '/nowhere' },
      'chat',
      'good',
      'x',
      '--key',
      'mine',
      '--url',
      `http://127.0.0.1:${server.port}/v1/`,
    )
    expect(seen.at(-1)).toMatchObject({ authorization: 'Bearer mine' })
  })

  test('shows what the model thinks beside what it says', async () => {
    const ran = await chat('thinking', 'x')
    expect(ran.out).toBe('Yes\n')
    expect(ran.err.startsWith('hm')).toBe(true)
  })

  test('with --json prints one object', async () => {
    const ran = await chat('good', 'x', '--json')
    expect(ran.err).toBe('')
    expect(JSON.parse(ran.out)).toMatchObject({
      id: 'req_1',
      model: 'sim/echo',
      text: 'Hello',
      usage: { prompt_tokens: 6 },
    })
  })

  test.each([
    ['cut', 'Hel\n', 'weir: the reply broke off\n'],
    ['broken', 'Hel\n', 'weir: It broke. (upstream_error)\n'],
    ['poor', '', 'weir: No credit. (insufficient_credits)\n'],
    ['proxy', '', `weir: http://127.0.0.1:${server.port}/v1 answered with status 502\n`],
    ['garbage', '', 'weir: the reply is not what a gateway sends: an event holds no JSON\n'],
  ])('a reply that is %s fails after %p', async (model, out, err) => {
    expect(await chat(model, 'x')).toEqual({ code: 1, out, err })
  })

  test.each(['127.0.0.1:8787/v1', 'localhost', 'ftp://gateway/v1', 'http://'])(
    'the address %p is a usage fault',
    async (url) => {
      const ran = await run({ cwd: '/nowhere' }, 'chat', 'good', 'x', '--key', 'k', '--url', url)
      expect(ran).toMatchObject({ code: 2, out: '', err: expect.stringContaining('--url takes an address') })
    },
  )

  test('without a key, or a gateway, it says what to do', async () => {
    expect(await run({ cwd: '/nowhere' }, 'chat', 'good', 'x')).toMatchObject({
      code: 2,
      err: expect.stringContaining('WEIR_API_KEY'),
    })
    const ran = await run(
      { cwd: '/nowhere' },
      'chat',
      'good',
      'x',
      '--key',
      'k',
      '--url',
      'http://127.0.0.1:9/v1',
    )
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('weir serve') })
  })
})
