// What hostile clients and providers do to a gateway, one after the other or all at once.

import { connect, type Socket } from 'node:net'
import type { RunningWeir } from '../support/run-weir.ts'

export interface Attack {
  readonly name: string
  run(weir: RunningWeir, scale: number): Promise<void>
}

type Body = Readonly<Record<string, unknown>>

const megabyte = 1024 ** 2
const hello = [{ role: 'user', content: 'Where does the river run?' }]

/** Sends a body and reads whatever comes of it; how it ends is of no interest here. */
async function send(weir: RunningWeir, path: string, body: string, headers: Record<string, string> = {}) {
  try {
    const response = await fetch(`${weir.baseUrl}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json', ...headers },
      body,
    })
    for await (const _ of response.body ?? []);
  } catch {
    // A connection that breaks is an answer, too.
  }
}

/** The same question in the words of each protocol. */
const ways: readonly { path: string; bodyOf: (model: string, stream: boolean) => Body }[] = [
  { path: '/chat/completions', bodyOf: (model, stream) => ({ model, stream, messages: hello }) },
  { path: '/messages', bodyOf: (model, stream) => ({ model, stream, max_tokens: 100, messages: hello }) },
  { path: '/responses', bodyOf: (model, stream) => ({ model, stream, input: hello, store: true }) },
]

/** A provider that answers so, to clients of every protocol; at full scale twice at the same time. */
function answers(name: string, stream: boolean, model = name): Attack {
  return {
    name: `${stream ? 'stream' : 'whole answer'}: ${name}`,
    run: async (weir, scale) => {
      const all = ways.flatMap((way) => Array.from({ length: Math.ceil(2 * scale) }, () => way))
      await Promise.all(
        all.map(({ path, bodyOf }) => send(weir, path, JSON.stringify(bodyOf(`lab/${model}`, stream)))),
      )
    },
  }
}

/** A body of almost ten megabytes, in as many messages as are read. */
function longConversation(
  model: string,
  list: 'messages' | 'input',
  more: Body = {},
  length = 10_000,
  sentences = 300_000,
): string {
  const turns = Array.from({ length }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: 'The river runs to the weir. '.repeat(Math.floor(sentences / length)),
  }))
  return JSON.stringify({ model, ...more, [list]: turns })
}

function prompts(
  name: string,
  path: string,
  body: () => string,
  headers: () => Record<string, string> = () => ({}),
): Attack {
  return {
    name: `prompts: ${name}`,
    run: async (weir, scale) => {
      const text = body()
      await Promise.all(Array.from({ length: Math.ceil(8 * scale) }, () => send(weir, path, text, headers())))
    },
  }
}

/** Stores an answer of many input items, and goes on with it as often as everything else is asked. */
function recalled(name: string): Attack {
  return {
    name: `recalled: ${name}`,
    run: async (weir, scale) => {
      const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
      // Of the ten megabytes that a body may have something is left for what follows.
      const body = longConversation('lab/small', 'input', { store: true }, 9_000, 270_000)
      const stored = await fetch(`${weir.baseUrl}/responses`, { method: 'POST', headers, body })
        .then((response) => response.json() as Promise<Body>)
        // A connection that breaks is an answer, too: then there is nothing to go on with.
        .catch(() => undefined)
      if (stored === undefined) return
      const { id } = stored
      const next = JSON.stringify({ model: 'lab/small', previous_response_id: id, input: 'And then?' })
      await Promise.all(Array.from({ length: Math.ceil(8 * scale) }, () => send(weir, '/responses', next)))
    },
  }
}

/** A conversation of as many messages as are read, whose calls all have one id. */
function manyCalls(model: string): string {
  const call = { id: 'call_0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
  const messages = Array.from({ length: 5_000 }, () => [
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_0', content: 'The river runs to the weir.' },
  ]).flat()
  return JSON.stringify({ model, messages })
}

const deepSchema = (depth: number): Body =>
  depth === 0 ? { type: 'string' } : { type: 'object', properties: { a: deepSchema(depth - 1) } }

const tool = (at: number) => ({
  type: 'function',
  function: { name: `f${at}`, description: 'Finds the weir.', parameters: deepSchema(5) },
})

const wideSchema = {
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: 24_000 }, (_, at) => [`p${at}`, { type: 'string' }])),
}

/** Connections that ask for 200 kB each and read nothing of it. */
export async function stall(weir: RunningWeir, connections: number): Promise<readonly Socket[]> {
  const body = JSON.stringify({ model: 'lab/stalled', stream: true, messages: hello })
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: 127.0.0.1',
    `authorization: Bearer ${weir.key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ]
  const request = `${head.join('\r\n')}\r\n\r\n${body}`
  return Promise.all(
    Array.from({ length: connections }, () => {
      const { promise, resolve } = Promise.withResolvers<Socket>()
      const socket = connect({ host: '127.0.0.1', port: weir.port })
      socket.on('error', () => resolve(socket))
      socket.on('connect', () => {
        socket.pause()
        socket.write(request, () => resolve(socket))
      })
      return promise
    }),
  )
}

let keys = 0

export const attacks: readonly Attack[] = [
  ...['deep-event', 'deep-objects', 'wide-event', 'full-event', 'long-event'].map((name) =>
    answers(name, true),
  ),
  ...['tiny-events', 'tiny-odd-events', 'tiny-calls', 'many-calls', 'comments', 'blank-lines'].map((name) =>
    answers(name, true),
  ),
  ...['deep-whole', 'wide-whole', 'logprobs-whole', 'long-whole', 'calls-whole', 'deep-arguments'].map(
    (name) => answers(name, false),
  ),
  ...['deep-whole', 'wide-whole', 'logprobs-whole', 'long-whole', 'calls-whole'].map((name) => ({
    ...answers(name, true),
    name: `whole answer to a stream: ${name}`,
  })),
  prompts('33,000 messages', '/chat/completions', () =>
    longConversation('lab/small', 'messages', {}, 33_000),
  ),
  prompts('10,000 messages', '/chat/completions', () => longConversation('lab/small', 'messages')),
  prompts('10,000 messages, streamed', '/chat/completions', () =>
    longConversation('lab/stalled', 'messages', { stream: true }),
  ),
  prompts('10,000 messages of the messages protocol', '/messages', () =>
    longConversation('lab/small', 'messages', { max_tokens: 100 }),
  ),
  prompts('10,000 input items, stored', '/responses', () =>
    longConversation('lab/small', 'input', { store: true }),
  ),
  recalled('10,000 input items'),
  ...['claude', 'bedrock', 'gemini', 'responses'].map((model) =>
    prompts(`5,000 calls of one id for ${model}`, '/chat/completions', () => manyCalls(`${model}/m`)),
  ),
  prompts('10,000 messages to be estimated', '/estimate', () => longConversation('lab/small', 'messages')),
  prompts('10,000 messages to be counted', '/messages/count_tokens', () =>
    longConversation('lab/small', 'messages', { max_tokens: 100 }),
  ),
  prompts(
    '10,000 messages with an Idempotency-Key',
    '/chat/completions',
    () => longConversation('lab/small', 'messages'),
    () => ({ 'idempotency-key': `key-${keys++}` }),
  ),
  prompts('one message of 9 MB', '/chat/completions', () =>
    JSON.stringify({ model: 'lab/small', messages: [{ role: 'user', content: 'weir '.repeat(1_900_000) }] }),
  ),
  prompts('3,000 tools', '/chat/completions', () =>
    JSON.stringify({
      model: 'lab/small',
      messages: hello,
      tools: Array.from({ length: 3_000 }, (_, at) => tool(at)),
    }),
  ),
  prompts('a schema of 24,000 properties', '/chat/completions', () =>
    JSON.stringify({
      model: 'lab/small',
      messages: hello,
      response_format: { type: 'json_schema', json_schema: { name: 's', schema: wideSchema } },
    }),
  ),
  prompts('200,000 faults', '/chat/completions', () =>
    JSON.stringify({ model: 'lab/small', messages: Array(199_000).fill(1) }),
  ),
  prompts('a million nested arrays', '/chat/completions', () => '['.repeat(9 * megabyte)),
  prompts('2,048 texts to be embedded', '/embeddings', () =>
    JSON.stringify({ model: 'lab/vectors', input: Array(512).fill('Where does the river run?') }),
  ),
  {
    name: 'a thousand small calls at once',
    run: async (weir, scale) => {
      const body = JSON.stringify({ model: 'lab/small', messages: hello })
      await Promise.all(
        Array.from({ length: Math.ceil(1_000 * scale) }, () => send(weir, '/chat/completions', body)),
      )
    },
  },
  {
    name: 'clients that never read',
    run: async (weir, scale) => {
      const sockets = await stall(weir, Math.ceil(2_000 * scale))
      await Bun.sleep(3_000)
      for (const socket of sockets) socket.destroy()
    },
  },
]
