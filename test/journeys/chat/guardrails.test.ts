// Masks and hooks in front of a provider, tools and clients: what is to be taken out is nowhere, whatever protocol is spoken
// and however a stream is cut; a hook is believed by its word, and whatever it does the money is right.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { creditsOf, expectAudited, post, receiptOf } from '../../support/call-gateway.ts'
import { mcpServer, text as toolText, type TestMcpServer } from '../../support/mcp-server.ts'
import {
  type Cuts,
  everyBytes,
  type Replay,
  type ReplayServer,
  startReplayServer,
} from '../../support/replay-server.ts'

const secret = `whsec_${Buffer.from('a secret of the operator').toString('base64')}`
const email = 'ada@example.com'
const card = '4111 1111 1111 1111'
const staff = 'EMP-123456'
const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
const charged = '0.00012'

/** Every way in which one of them could show. */
const shows = (text: string) =>
  [email, 'ada\\u0040', card, '4111111111111111', 'EMP-1234'].filter((each) => text.includes(each))

// ---- the provider ---------------------------------------------------------------------------------------------

const said = `Write to ${email}, badge ${staff}, or pay ${card}.`
const args = `{"to":"${email}","again":"ada\\u0040example.com","card":4111111111111111}`
const call = { id: 'call_1', type: 'function', function: { name: 'send', arguments: args } }

const contents: Readonly<Record<string, string>> = {
  document: `{"card":4111111111111111,"to":"\\n${email}"}`,
  plain: 'All is well.',
  long: `${said} `.repeat(60),
}

interface Asked {
  readonly model: string
  readonly input?: readonly string[]
  readonly stream?: boolean
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[]
  readonly tools?: readonly { readonly function: { readonly name: string } }[]
}

function answerOf(asked: Asked): Replay {
  const { model, stream, messages, tools, input } = asked
  if (input !== undefined) {
    const data = input.map((_, index) => ({ object: 'embedding', index, embedding: [1, 0] }))
    return reply(JSON.stringify({ object: 'list', model, data, usage }), 'application/json')
  }
  const tool = tools?.find(({ function: { name } }) => name.startsWith('crm__'))
  const ranTool = messages.some(({ role }) => role === 'tool')
  const runs = tool !== undefined && !ranTool
  const calls = runs
    ? [{ ...call, function: { name: tool.function.name, arguments: args } }]
    : model === 'calls'
      ? [call]
      : []
  if (model === 'cut' || model === 'rest') return halfOf(model)
  const content = contents[model] ?? said
  const message = {
    role: 'assistant',
    content: runs ? null : content,
    reasoning_content: model === 'thinks' ? `She is ${email}, I think.` : undefined,
    ...(calls.length > 0 && { tool_calls: calls }),
  }
  const finish_reason = calls.length > 0 ? 'tool_calls' : 'stop'
  const head = { id: 'c', created: 1, model }
  if (stream !== true)
    return reply(
      JSON.stringify({
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason }],
        usage,
      }),
      'application/json',
    )
  const chunk = (delta: object, finish: string | null = null, more = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
  const pieces = [
    ...letters(message.reasoning_content).map((reasoning_content) => chunk({ reasoning_content })),
    ...letters(message.content).map((each) => chunk({ content: each })),
    ...calls.flatMap(({ function: { name, arguments: json }, id, type }) => [
      chunk({ tool_calls: [{ index: 0, id, type, function: { name, arguments: '' } }] }),
      ...letters(json).map((each) => chunk({ tool_calls: [{ index: 0, function: { arguments: each } }] })),
    ]),
  ]
  const end = `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`
  return reply(
    chunk({ role: 'assistant' }) + pieces.join('') + chunk({}, finish_reason) + end,
    'text/event-stream',
  )
}

/** An address whose first half one provider says, before it breaks off, and the other half the next. */
function halfOf(model: 'cut' | 'rest'): Replay {
  const chunk = (content: string, finish_reason: string | null) =>
    `data: ${JSON.stringify({ id: 'c', created: 1, model, object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason }], usage })}\n\n`
  const text =
    model === 'cut' ? chunk('Mail ada@exam', null) : `${chunk('ple.com, then.', 'stop')}data: [DONE]\n\n`
  return reply(text, 'text/event-stream')
}

/** A text cut at every character. */
function letters(text: string | null | undefined): readonly string[] {
  return text == null ? [] : [...text]
}

function reply(text: string, type: string): Replay {
  return { status: 200, headers: { 'content-type': type }, body: new TextEncoder().encode(text) }
}

let cuts: Cuts = (body) => [body]
let provider: ReplayServer
let crm: TestMcpServer
let lab: Lab
let openai: OpenAI

// ---- the hook -------------------------------------------------------------------------------------------------

interface Question {
  readonly event: 'request' | 'response'
  readonly request_id: string
  readonly account: string
  readonly key: string | null
  readonly model: string
  readonly document: {
    readonly last?: boolean
    readonly parts: readonly {
      readonly id: string
      readonly role: string
      readonly kind: string
      readonly text: string
      readonly before?: string
    }[]
  }
}

/** What the hook does, by `event`; it allows by default. */
type Script = (question: Question) => object | Response | Promise<Response>
const allow = { decision: 'allow' }
let script: Script = () => allow
let questions: Question[] = []
let hooks: ReturnType<typeof Bun.serve>

async function onHook(request: Request): Promise<Response> {
  const body = await request.text()
  await openai.webhooks.verifySignature(body, request.headers, secret)
  const question = JSON.parse(body) as Question
  // The one that fails open is asked for answers alone.
  if (new URL(request.url).pathname === '/open') {
    if (!question.document.parts.some(({ text }) => text.includes('All is well'))) return Response.json(allow)
    return new Response('nobody is here', { status: 500 })
  }
  questions.push(question)
  const made = await script(question)
  return made instanceof Response ? made : Response.json(made)
}

const deny = { decision: 'deny', code: 'no_cards', message: 'Cards stay at home.' }
const on =
  (event: Question['event'], act: Script): Script =>
  (question) =>
    question.event === event ? act(question) : allow

beforeAll(async () => {
  provider = startReplayServer(
    ({ json }) => answerOf(json as Asked),
    (body) => cuts(body),
  )
  crm = mcpServer({
    tools: [{ name: 'find', description: `Ask ${email} about it.` }],
    call: () => toolText(`Found ${email} with ${card}.`),
  })
  hooks = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: onHook })
  const hook = (path: string) => ({ url: `http://127.0.0.1:${hooks.port}${path}`, secret, timeout_ms: 2_500 })
  lab = await startLab({
    providers: { p: { base_url: `${provider.url}/v1`, quirks: { prefill: 'as-it-is' } } },
    models: Object.fromEntries(
      ['speaks', 'thinks', 'calls', 'document', 'plain', 'long', 'cut', 'rest', 'embeds'].map((name) => [
        `p/${name}`,
        name === 'embeds' ? { output_modalities: ['embeddings'] } : {},
      ]),
    ),
    settings: {
      masks: [
        { find: 'email' },
        { find: 'card', with: '[no card]' },
        { find: 'staff', expression: 'EMP-\\d{6}' },
      ],
      hooks: [hook('/closed'), { ...hook('/open'), on: ['response'], fail: 'open' }],
      egress: { allow_hosts: [crm.host] },
      log: { prompts: true },
    },
  })
  openai = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})

afterAll(async () => {
  await expectAudited(lab.weir)
  await lab.weir.stop()
  await provider.stop()
  await hooks.stop(true)
  crm[Symbol.dispose]()
})

beforeEach(() => {
  script = () => allow
  questions = []
  cuts = (body) => [body]
})

// ---- the doors ------------------------------------------------------------------------------------------------

const prompt = `I am ${email}, ${staff}. My card is ${card}`

const doors: Readonly<
  Record<string, (model: string, stream: boolean) => readonly [path: string, body: object]>
> = {
  chat: (model, stream) => [
    '/v1/chat/completions',
    {
      model,
      stream,
      user: email,
      messages: [
        { role: 'system', content: prompt },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: prompt },
        { role: 'user', content: [{ type: 'text', text: prompt }] },
      ],
      tools: [
        { type: 'function', function: { name: 'send', description: prompt, parameters: { type: 'object' } } },
      ],
    },
  ],
  completions: (model, stream) => ['/v1/completions', { model, stream, prompt }],
  responses: (model, stream) => [
    '/v1/responses',
    {
      model,
      stream,
      instructions: prompt,
      input: [
        { role: 'user', content: [{ type: 'input_text', text: prompt }] },
        { type: 'function_call', call_id: 'call_1', name: 'send', arguments: args },
        { type: 'function_call_output', call_id: 'call_1', output: prompt },
      ],
      tools: [{ type: 'function', name: 'send', description: prompt, parameters: { type: 'object' } }],
    },
  ],
  messages: (model, stream) => [
    '/v1/messages',
    {
      model,
      stream,
      max_tokens: 100,
      system: prompt,
      messages: [
        { role: 'user', content: prompt },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'call_1', name: 'send', input: { to: email } }],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: prompt }] },
      ],
      tools: [{ name: 'send', description: prompt, input_schema: { type: 'object' } }],
    },
  ],
  gemini: (model, stream) => [
    `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    {
      systemInstruction: { parts: [{ text: prompt }] },
      contents: [
        { role: 'user', parts: [{ text: prompt }] },
        { role: 'model', parts: [{ functionCall: { name: 'send', args: { to: email } } }] },
        { role: 'user', parts: [{ functionResponse: { name: 'send', response: { text: prompt } } }] },
      ],
      tools: [{ functionDeclarations: [{ name: 'send', description: prompt }] }],
    },
  ],
  interactions: (model, stream) => [
    '/v1beta/interactions',
    { model, stream, system_instruction: prompt, input: [{ type: 'text', text: prompt }] },
  ],
}

interface Came {
  readonly status: number
  readonly text: string
  readonly id: string
}

async function ask(door: string, model: string, stream = false, more: object = {}): Promise<Came> {
  const [path, body] = doors[door]!(model, stream)
  const response = await fetch(lab.weir.origin + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(path.startsWith('/v1beta')
        ? { 'x-goog-api-key': lab.weir.key }
        : { authorization: `Bearer ${lab.weir.key}` }),
    },
    body: JSON.stringify({ ...body, ...more }),
  })
  return {
    status: response.status,
    text: await response.text(),
    id: response.headers.get('x-request-id') ?? '',
  }
}

/** What the client reads when all pieces of a streamed answer are put together. */
function joined(text: string): string {
  const pieces = [
    ...text.matchAll(
      /"(?:content|text|delta|reasoning_content|partial_json|arguments)":"((?:[^"\\]|\\.)*)"/g,
    ),
  ]
  return pieces.map(([, each]) => JSON.parse(`"${each!}"`) as string).join('')
}

const chat = (model: string, more: object = {}) =>
  post(lab.weir, { model, messages: [{ role: 'user', content: 'Hello' }], ...more })
const receipt = async (id: string) => (await receiptOf(lab.weir, id))!
const decisions = async (id: string) =>
  (await receipt(id)).guardrails.map(({ guardrail, on: event, decision, code, times }) =>
    [guardrail.startsWith('127') ? 'hook' : guardrail, event, decision, code, times].join(' '),
  )

// ---- masks ----------------------------------------------------------------------------------------------------

describe.each(Object.keys(doors).map((door) => [door] as const))('%s', (door) => {
  test.each([
    ['whole', false, undefined],
    ['streamed', true, undefined],
    ['streamed, cut at every byte', true, 1],
  ] as const)('%s: nothing that is masked reaches the provider or the client', async (_, stream, size) => {
    if (size !== undefined) cuts = everyBytes(size)
    for (const model of door === 'completions' ? ['p/speaks'] : ['p/speaks', 'p/thinks', 'p/calls']) {
      const before = provider.requests.length
      const came = await ask(door, model, stream)
      expect([came.status, came.text.slice(0, 300)]).toEqual([200, expect.any(String)])
      const [sent] = provider.requests.slice(before)
      expect(shows(sent!.body)).toEqual([])
      expect(sent!.body).toContain('I am [email], [staff]. My card is [no card]')
      // Clients of the Responses protocol get back what they have said of the instructions themselves.
      const told = came.text.replaceAll(prompt, '')
      expect([...shows(told), ...shows(joined(told))]).toEqual([])
      expect(joined(came.text)).toContain('Write to [email], badge [staff], or pay [no card].')
      for (const { document } of questions) expect(shows(JSON.stringify(document))).toEqual([])
    }
  })
})

test('calls of tools stay JSON, and so do documents', async () => {
  for (const stream of [false, true]) {
    const came = await chat('p/calls', { stream })
    const made = stream
      ? came.events
          .flatMap((each) =>
            [...each.matchAll(/"arguments":"((?:[^"\\]|\\.)+)"/g)].map(
              ([, json]) => JSON.parse(`"${json!}"`) as string,
            ),
          )
          .join('')
      : (JSON.parse(came.text) as OpenAI.ChatCompletion).choices[0]!.message.tool_calls!.map(
          (each) => (each as OpenAI.ChatCompletionMessageFunctionToolCall).function.arguments,
        ).join('')
    expect(JSON.parse(made)).toEqual({ to: '[email]', again: '[email]', card: '[no card]' })
    const { content } = await chat('p/document', { stream, response_format: { type: 'json_object' } })
    expect(JSON.parse(content)).toEqual({ card: '[no card]', to: '\n[email]' })
  }
})

test('the receipt counts what was taken out, and neither the log nor what is kept of the call has it', async () => {
  const { requestId } = await post(lab.weir, {
    model: 'p/speaks',
    messages: [{ role: 'user', content: prompt }],
  })
  expect((await decisions(requestId)).toSorted()).toEqual(
    [
      'email request replace  1',
      'staff request replace  1',
      'card request replace  1',
      'hook request allow  1',
      'email response replace  1',
      'staff response replace  1',
      'card response replace  1',
      'hook response allow  2',
    ].toSorted(),
  )
  const data = await until(
    () => lab.get(`/v1/requests/${requestId}`),
    (found) => found['data'] !== undefined,
  )
  expect(JSON.stringify(data)).toContain('[email]')
  expect(shows(JSON.stringify(data))).toEqual([])
  expect(
    lab.weir
      .output()
      .replace(/"tags":{[^}]*}/g, '')
      .split('\n')
      .filter((line) => shows(line).length > 0),
  ).toEqual([])
})

test('embeddings, stored and background responses, a socket and a compaction are no way around', async () => {
  const before = provider.requests.length
  await openai.embeddings.create({ model: 'p/embeds', input: [prompt, 'b'], encoding_format: 'float' })
  const stored = await openai.responses.create({ model: 'p/speaks', input: prompt })
  const next = await openai.responses.create({
    model: 'p/speaks',
    input: `again ${prompt}`,
    previous_response_id: stored.id,
  })
  const { id } = await openai.responses.create({ model: 'p/speaks', input: prompt, background: true })
  const made = await until(
    () => openai.responses.retrieve(id),
    ({ status }) => status === 'completed',
  )
  const compacted = await (
    await fetch(`${lab.weir.baseUrl}/responses/compact`, {
      method: 'POST',
      headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'p/speaks', input: [{ role: 'assistant', content: prompt }] }),
    })
  ).text()
  const socket = new WebSocket(`${lab.weir.baseUrl.replace('http', 'ws')}/responses`, {
    headers: { authorization: `Bearer ${lab.weir.key}` },
  } as unknown as string[])
  const heard: string[] = []
  await new Promise<void>((resolve) => {
    socket.addEventListener('open', () =>
      socket.send(JSON.stringify({ type: 'response.create', model: 'p/speaks', input: prompt })),
    )
    socket.addEventListener('message', ({ data }) => {
      heard.push(String(data))
      if (/"response\.(completed|failed)"/.test(String(data))) resolve()
    })
  })
  socket.close()
  for (const { body } of provider.requests.slice(before))
    expect([body.includes('[email]'), shows(body)]).toEqual([true, []])
  expect(provider.requests.length - before).toBe(6)
  const all =
    JSON.stringify([stored, next, made, await openai.responses.retrieve(stored.id)]) + heard.join('')
  expect(shows(all)).toEqual([])
  expect(all).toContain('Write to [email]')
  expect(compacted).toContain('compaction')
})

test.each([false, true])(
  'tools of the gateway neither get it nor bring it in, streamed: %p',
  async (stream) => {
    cuts = everyBytes(3)
    const before = [provider.requests.length, crm.requests.length]
    const came = await post(
      lab.weir,
      {
        model: 'p/speaks',
        input: 'Find her.',
        stream,
        tools: [{ type: 'mcp', server_label: 'crm', server_url: crm.url, require_approval: 'never' }],
      },
      { path: '/responses' },
    )
    expect(came.status).toBe(200)
    const [call] = crm.requests.slice(before[1]).filter(({ method }) => method === 'tools/call')
    expect(call!.params['arguments']).toEqual({ to: '[email]', again: '[email]', card: '[no card]' })
    const sent = provider.requests.slice(before[0]).map(({ body }) => body)
    expect(sent).toHaveLength(2)
    expect(shows(sent.join(''))).toEqual([])
    expect(sent[1]).toContain('Found [email] with [no card].')
    expect([...shows(came.text), ...shows(joined(came.text))]).toEqual([])
    expect(came.text).toContain('Found [email] with [no card].')
  },
)

test('an answer from the cache is looked at as well, and the masked request finds it', async () => {
  const one = (who: string) =>
    post(lab.weir, {
      model: 'p/speaks',
      cache: { ttl: 60 },
      stream: true,
      messages: [{ role: 'user', content: `cached for ${who}` }],
    })
  const [first, second] = [await one(email), await one('bob@example.com')]
  expect([first.headers.get('x-weir-provider'), second.headers.get('x-weir-provider')]).toEqual([
    'p',
    'cache',
  ])
  expect([shows(second.text), second.content]).toEqual([[], first.content])
  script = on('response', () => deny)
  expect((await one(email)).error?.code).toBe('guardrail_denied')
})

// ---- hooks ----------------------------------------------------------------------------------------------------

test('a hook is told whose call it is and what it says, under a signature that holds', async () => {
  const { requestId } = await chat('p/plain')
  expect(questions[0]).toEqual({
    event: 'request',
    request_id: requestId,
    account: expect.stringMatching(/^acc/),
    key: expect.any(String),
    model: 'p/plain',
    document: { parts: [{ id: 'messages.0.content.0.text', role: 'user', kind: 'text', text: 'Hello' }] },
  })
  expect(questions[1]).toMatchObject({
    event: 'response',
    document: { last: true, parts: [{ id: 'choices.0.text', role: 'assistant', text: 'All is well.' }] },
  })
})

const used = async () => (await creditsOf(lab.weir)).total_used
const micro = (usd: string) => Math.round(Number(usd) * 1e6)

const hang: Script = () => new Promise<Response>(() => undefined)
const failures: readonly (readonly [string, Script])[] = [
  ['says nothing in time', hang],
  ['fails', () => new Response('no', { status: 500 })],
  ['answers no JSON', () => new Response('allow')],
  ['answers nonsense', () => ({ decision: 'perhaps' })],
  [
    'replaces what was not there',
    () => ({ decision: 'replace', document: { parts: [{ id: 'x', text: 'y' }] } }),
  ],
  ['redirects', () => Response.redirect('http://127.0.0.1:1/')],
]

describe('before a provider is asked', () => {
  test.each(Object.keys(doors).flatMap((door) => [[door, false] as const, [door, true] as const]))(
    'a denial reaches the client of %s in its own words, streamed: %p',
    async (door, stream) => {
      script = on('request', () => deny)
      const before = [provider.requests.length, await used()]
      const came = await ask(door, 'p/plain', stream)
      expect([came.status, came.text]).toEqual([403, expect.stringContaining('Cards stay at home.')])
      for (const word of ['guardrail_denied', 'no_cards']) expect(came.text).toContain(word)
      expect([provider.requests.length, await used()]).toEqual(before)
    },
  )

  test.each(failures)('a hook that %s lets nothing through', async (_, act) => {
    script = on('request', act)
    const before = [provider.requests.length, await used()]
    const { status, error } = await chat('p/plain')
    expect([status, error?.code, error?.metadata['on']]).toEqual([502, 'guardrail_failed', 'request'])
    expect([provider.requests.length, await used()]).toEqual(before)
  })

  test('what it replaces is what is sent', async () => {
    script = on('request', ({ document: { parts } }) => ({
      decision: 'replace',
      document: { parts: [{ id: parts[0]!.id, text: 'Good evening' }] },
    }))
    const { requestId } = await chat('p/plain')
    expect(provider.requests.at(-1)!.json).toMatchObject({
      messages: [{ role: 'user', content: 'Good evening' }],
    })
    expect(await decisions(requestId)).toContain('hook request replace  1')
  })
})

describe.each([false, true])('an answer that is there, streamed: %p', (stream) => {
  test('is charged once when it is denied, and the receipt says so', async () => {
    script = on('response', () => deny)
    const before = micro(await used())
    const came = await chat('p/speaks', { stream })
    expect([came.status, came.error?.code, came.error?.message, came.content]).toEqual([
      stream ? 200 : 403,
      'guardrail_denied',
      'Cards stay at home.',
      '',
    ])
    expect(micro(await used()) - before).toBe(micro(charged))
    expect(await receipt(came.requestId)).toMatchObject({ state: 'settled', charged })
    expect(await decisions(came.requestId)).toContain('hook response deny no_cards 1')
  })

  test.each(failures)('goes nowhere when the hook %s, and is charged once', async (_, act) => {
    script = on('response', act)
    const before = micro(await used())
    const came = await chat('p/speaks', { stream })
    expect([came.error?.code, came.content]).toEqual(['guardrail_failed', ''])
    expect(micro(await used()) - before).toBe(micro(charged))
  })

  test('goes on when a hook fails that may', async () => {
    const came = await chat('p/plain', { stream })
    expect(came.content).toBe('All is well.')
    expect(await decisions(came.requestId)).toEqual([
      'hook request allow  1',
      'hook response allow  1',
      'hook response failed  1',
    ])
  })

  test('is what the hook makes of it', async () => {
    script = on('response', ({ document: { parts } }) => ({
      decision: 'replace',
      document: { parts: parts.map(({ id, text }) => ({ id, text: text.toUpperCase() })) },
    }))
    const { content } = await chat('p/speaks', { stream })
    expect(content).toBe('WRITE TO [EMAIL], BADGE [STAFF], OR PAY [NO CARD].')
  })
})

test.each(['responses', 'messages', 'gemini', 'interactions', 'completions'])(
  'a denied answer ends the stream of %s with its error',
  async (door) => {
    script = on('response', () => deny)
    const came = await ask(door, 'p/speaks', true)
    expect(came.text).toContain('Cards stay at home.')
    expect(came.text).not.toContain('Write to')
  },
)

test('a stream that another provider goes on with is looked at across the seam', async () => {
  const { content, requestId } = await chat('p/cut', {
    stream: true,
    models: ['p/rest'],
    provider: { continue: true },
  })
  expect(content).toBe('Mail [email], then.')
  expect((await receipt(requestId)).attempts.map(({ outcome }) => outcome)).toEqual(['served', 'served'])
})

test('a stream that is denied in its middle has what was looked at, and is charged once', async () => {
  cuts = everyBytes(500)
  script = on('response', ({ document: { parts } }) => (parts[0]!.before === undefined ? allow : deny))
  const before = micro(await used())
  const { content, error, requestId } = await chat('p/long', { stream: true })
  expect([error?.code, content.startsWith('Write to [email]'), content.length < 2_000]).toEqual([
    'guardrail_denied',
    true,
    true,
  ])
  const { charged: paid, guardrails, state } = await receipt(requestId)
  expect([state, micro(paid)]).toEqual(['settled', micro(await used()) - before])
  expect(micro(paid)).toBeGreaterThan(0)
  expect(guardrails).toContainEqual(expect.objectContaining({ decision: 'deny', code: 'no_cards', times: 1 }))
})

test('masks and hooks change while the gateway runs, and nobody is shown their secrets', async () => {
  const shown = (await lab.weir.command('config', 'show')).stdout
  expect([shown.includes(secret), shown.includes('****')]).toEqual([false, true])
  const file = join(lab.weir.dataDir, '..', 'weir.yaml')
  const config = JSON.parse(readFileSync(file, 'utf8')) as object
  writeFileSync(file, JSON.stringify({ ...config, hooks: [], masks: [{ find: 'card', on: ['response'] }] }))
  const reloaded = await lab.weir.command('config', 'reload')
  expect([reloaded.code, (reloaded.stdout + reloaded.stderr).includes(secret)]).toEqual([0, false])
  const { content, requestId } = await post(lab.weir, {
    model: 'p/speaks',
    messages: [{ role: 'user', content: prompt }],
  })
  expect(content).toBe(`Write to ${email}, badge ${staff}, or pay [card].`)
  expect(provider.requests.at(-1)!.body).toContain(prompt)
  expect(await decisions(requestId)).toEqual(['card response replace  1'])
})

test('the money is whole', async () => {
  const { held } = await creditsOf(lab.weir)
  expect(held).toBe('0')
})
