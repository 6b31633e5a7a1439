// A stream that breaks off within its text is gone on with by another candidate, where the caller allows it. The client
// of any protocol reads one answer; each part is charged once, by its own count.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { accountWith, creditsOf, expectAudited, postAs, receiptOf } from '../../support/call-gateway.ts'
import { type Lab, startLab } from '../../chat/lab.ts'
import {
  chunk,
  delta,
  event,
  headOf,
  lastChunk,
  manners,
  plain,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  usageEvent,
  type Wire,
} from '../../support/scripted-provider.ts'

const whole = 'The river runs to the sea.'
/** What comes before the break, in pieces of a word. */
const begun = ['The ', 'river ', 'runs']
const gapMs = 500

const words = (texts: readonly string[]) => texts.map((content) => delta({ content })).join('')

/** What is left of the answer, for the one that goes on; it is told what was said by the last message. */
function restOf({ body }: Wire): { readonly rest: string; readonly prefill: string } {
  const last = (body['messages'] as { role: string; content: string | { text: string }[] }[]).at(-1)!
  const prefill = typeof last.content === 'string' ? last.content : last.content[0]!.text
  const isBegun = last.role === 'assistant' && whole.startsWith(prefill)
  return { rest: isBegun ? whole.slice(prefill.length) : `?${JSON.stringify(last)}`, prefill }
}

/** A connection that is kept and then closed would be the next call's misfortune. */
const streamHead = headOf(200, {
  'content-type': 'text/event-stream',
  'transfer-encoding': 'chunked',
  connection: 'close',
})

async function streams(wire: Wire, text: string, then: (wire: Wire) => unknown): Promise<void> {
  await wire.write(streamHead)
  await wire.write(chunk(text))
  await then(wire)
}

const ends = async (wire: Wire) => {
  await wire.write(lastChunk)
  wire.end()
}
/** What providers wait for the client to have read: a connection that breaks takes with it what has not been. */
let waiting: { readonly text: string; readonly resolve: () => void }[] = []
const clientHas = (text: string) => new Promise<void>((resolve) => void waiting.push({ text, resolve }))

async function readAll(response: Response): Promise<string> {
  let all = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body ?? []) {
    all += decoder.decode(bytes, { stream: true })
    for (const { resolve } of waiting.filter(({ text }) => all.includes(text))) resolve()
  }
  return all
}

const cuts = (wire: Wire) => wire.end()
const usage = (prompt_tokens: number, completion_tokens: number) =>
  usageEvent({ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens })
const counted = usage(12, 3)

/** Breaks off after these events. */
const breaks =
  (text: string, then: (wire: Wire) => unknown = cuts, read = 'river'): Script =>
  (wire) =>
    streams(wire, manners.start + text, async () => {
      await clientHas(read)
      return then(wire)
    })

const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":' } }
const thought = { reasoning_content: 'Water runs ' }

const muchTokens = 600
const overloaded = event({ error: { message: 'Overloaded', code: 503 } })

/** What the first does, by the name of its model. */
const breaking: Readonly<Record<string, Script>> = {
  cut: breaks(words(begun) + counted),
  uncounted: breaks(words(begun)),
  reset: breaks(words(begun) + counted, (wire) => wire.reset()),
  error: breaks(words(begun) + counted + overloaded, ends),
  // Nobody has to have read what comes before it.
  fails: (wire) => streams(wire, manners.start + words(begun) + counted + overloaded, ends),
  much: (wire) =>
    streams(
      wire,
      manners.start + words([' on'.repeat(muchTokens)]) + usage(12, muchTokens) + overloaded,
      ends,
    ),
  malformed: breaks(words(begun) + counted + 'data: {"choices":[{"delta":{"con\n\n'.repeat(4), ends),
  stall: breaks(words(begun) + counted, () => undefined),
  space: breaks(words(['The ', 'river ']) + counted),
  thought: breaks(delta(thought) + words(begun) + counted),
  // Nothing goes on with these.
  call: breaks(words(begun) + delta({ tool_calls: [call] })),
  thinking: breaks(delta(thought), cuts, 'Water'),
  refusal: breaks(delta({ refusal: 'I can' }), cuts, 'I can'),
  again: breaks(words(begun)),
}

/** How others go on, by the name of their model: their own part is 20 tokens of prompt and 4 of output. */
const goingOn: Readonly<Record<string, Script>> = {
  rest: (wire) =>
    streams(
      wire,
      manners.start + words([restOf(wire).rest]) + manners.finish + usage(20, 4) + manners.done,
      ends,
    ),
  spaced: (wire) => {
    // It was sent no space at the end, and begins with one.
    const { rest } = restOf(wire)
    return streams(
      wire,
      manners.start + words([' ', rest.trimStart()]) + manners.finish + usage(20, 4) + manners.done,
      ends,
    )
  },
  prefix: (wire) => {
    const { rest, prefill } = restOf(wire)
    const last = (wire.body['messages'] as { prefix?: boolean }[]).at(-1)!
    const answer = last.prefix === true ? [prefill.slice(0, 5), prefill.slice(5), rest] : ['?']
    return streams(wire, manners.start + words(answer) + manners.finish + usage(20, 4) + manners.done, ends)
  },
  template: (wire) => {
    const { continue_final_message: goes, add_generation_prompt: prompt } = wire.body
    const answer = goes === true && prompt === false ? restOf(wire).rest : '?'
    return streams(wire, manners.start + words([answer]) + manners.finish + usage(20, 4) + manners.done, ends)
  },
  twice: (wire) =>
    streams(wire, manners.start + words([restOf(wire).rest.slice(0, 4)]) + usage(20, 1), async () => {
      await clientHas(' to ')
      wire.end()
    }),
  longest: (wire) => {
    const tokens = Number(wire.body['max_tokens'] ?? wire.body['max_completion_tokens'])
    const text =
      manners.start + words([' on'.repeat(tokens)]) + delta({}, 'length') + usage(20, tokens) + manners.done
    return streams(wire, text, ends)
  },
  refuses: async (wire) => {
    const error = {
      message: 'This model does not support assistant message prefill.',
      type: 'invalid_request_error',
    }
    await wire.write(plain(400, 'application/json', JSON.stringify({ error }), { connection: 'close' }))
    wire.end()
  },
  broken: async (wire) => {
    await wire.write(plain(500, 'application/json', '{}', { connection: 'close' }))
    wire.end()
  },
  claude: (wire) => {
    const named = (type: string, more: object) =>
      `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
    const message = {
      id: 'm',
      type: 'message',
      role: 'assistant',
      model: 'c',
      content: [],
      usage: { input_tokens: 20, output_tokens: 1 },
    }
    const text =
      named('message_start', { message }) +
      named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
      named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: restOf(wire).rest } }) +
      named('content_block_stop', { index: 0 }) +
      named('message_delta', {
        delta: { stop_reason: 'end_turn', stop_sequence: null },
        usage: { output_tokens: 4 },
      }) +
      named('message_stop', {})
    return streams(wire, text, ends)
  },
}

let providers: readonly ScriptedProvider[] = []
let lab: Lab

beforeAll(async () => {
  const upstream = (body: object) =>
    String(Reflect.get(body, 'model')).replace(/^claude-sonnet-4-5$/, 'claude')
  providers = [
    await startScriptedProvider({}, (body) => breaking[upstream(body)]),
    await startScriptedProvider({}, (body) => goingOn[upstream(body)]),
  ]
  const [first, second] = providers.map(({ url }) => url) as [string, string]
  const model = { price: { input: '1', output: '2' }, max_output_tokens: 4096 }
  const going = (prefill: string) => ({ base_url: second, quirks: { prefill } })
  lab = await startLab({
    providers: {
      first,
      second: going('as-it-is'),
      third: going('as-it-is'),
      prefixed: going('prefix'),
      templated: going('template'),
      without: second,
      // It bills on when it is disconnected.
      groq: { base_url: second },
      claude: { base_url: second, protocol: 'anthropic-messages' },
    },
    models: {
      ...Object.fromEntries(Object.keys(breaking).map((name) => [`first/${name}`, model])),
      ...Object.fromEntries(Object.keys(goingOn).map((name) => [`second/${name}`, model])),
      'third/rest': model,
      'prefixed/prefix': model,
      'templated/template': model,
      'without/rest': model,
      'groq/longest': model,
      'claude/claude-sonnet-4-5': { ...model, reasoning: true },
      'claude/claude-opus-4-6': { ...model, reasoning: true },
      'second/reasons': { ...model, reasoning: true },
      steady: { route: { to: ['first/cut', 'second/rest'], continue: true } },
      plain: { route: { to: ['first/cut', 'second/rest'], continue: false } },
    },
    settings: { timeouts: { gap_ms: gapMs, reasoning_gap_ms: gapMs }, log: { level: 'error' } },
  })
}, 30_000)

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all(providers.map((provider) => provider.stop()))
})

interface Door {
  readonly path: (model: string) => string
  readonly body: (model: string) => object
  /** The text of a stream, and whether it is one answer that has ended well. */
  readonly read: (text: string) => { readonly text: string; readonly ends: readonly string[] }
}

/** What is read of an event, of all protocols. */
interface Piece {
  /** Absent in chat completions and Gemini. */
  readonly type: string
  readonly sequence_number?: number
  readonly choices?: readonly {
    readonly delta: { readonly content?: string | null; readonly role?: string }
    readonly finish_reason?: string | null
  }[]
  readonly delta?: string | { readonly text?: string }
  readonly response?: {
    readonly output?: readonly { readonly content: readonly { readonly text: string }[] }[]
  }
  readonly candidates?: readonly {
    readonly content?: { readonly parts?: readonly { readonly text?: string }[] }
    readonly finishReason?: string
  }[]
}

const eventsOf = (text: string) =>
  text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6)) as Piece] : []))

const doors: Readonly<Record<string, Door>> = {
  chat: {
    path: () => '/v1/chat/completions',
    body: (model) => ({ model, messages: [{ role: 'user', content: 'Where?' }], stream: true }),
    read: (text) => {
      const choices = eventsOf(text).flatMap((each) => each.choices ?? [])
      return {
        text: choices.map(({ delta: piece }) => piece.content ?? '').join(''),
        ends: [
          ...choices.flatMap(({ delta: piece }) => piece.role ?? []),
          ...choices.flatMap(({ finish_reason: reason }) => reason ?? []),
          ...(text.endsWith('data: [DONE]\n\n') ? ['done'] : []),
        ],
      }
    },
  },
  responses: {
    path: () => '/v1/responses',
    body: (model) => ({ model, input: 'Where?', stream: true }),
    read: (text) => {
      const events = eventsOf(text)
      const gapless = events.every(({ sequence_number: at }, index) => at === index)
      const response = events.at(-1)!.response
      return {
        text: events
          .flatMap(({ type, delta: piece }) => (type === 'response.output_text.delta' ? [piece] : []))
          .join(''),
        ends: [
          ...events.flatMap(({ type }) => (/created|completed|failed|item\.done/.test(type) ? [type] : [])),
          gapless ? 'gapless' : 'gaps',
          response?.output?.[0]?.content[0]?.text ?? 'nothing',
        ],
      }
    },
  },
  messages: {
    path: () => '/v1/messages',
    body: (model) => ({
      model,
      max_tokens: 500,
      messages: [{ role: 'user', content: 'Where?' }],
      stream: true,
    }),
    read: (text) => {
      const events = eventsOf(text)
      return {
        text: events
          .map(({ delta: piece }) => (typeof piece === 'object' ? (piece.text ?? '') : ''))
          .join(''),
        ends: events.flatMap(({ type }) => (type === 'content_block_delta' || type === 'ping' ? [] : [type])),
      }
    },
  },
  gemini: {
    path: (model) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
    body: () => ({ contents: [{ role: 'user', parts: [{ text: 'Where?' }] }] }),
    read: (text) => {
      const candidates = eventsOf(text).flatMap((each) => each.candidates ?? [])
      return {
        text: candidates
          .flatMap(({ content }) => content?.parts ?? [])
          .map(({ text: piece }) => piece ?? '')
          .join(''),
        ends: candidates.flatMap(({ finishReason: reason }) => reason ?? []),
      }
    },
  },
}

/** How each says that it has begun and ended once, and well. */
const endings: Readonly<Record<string, readonly string[]>> = {
  chat: ['assistant', 'stop', 'done'],
  responses: ['response.created', 'response.output_item.done', 'response.completed', 'gapless', whole],
  messages: ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'],
  gemini: ['STOP'],
}

async function ask(model: string, more: object = {}, door: Door = doors['chat']!) {
  const response = await fetch(lab.weir.origin + door.path(model), {
    method: 'POST',
    headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...door.body(model), ...more }),
  })
  const text = await readAll(response)
  waiting = []
  const receipt = (await receiptOf(lab.weir, response.headers.get('x-request-id')!))!
  return { status: response.status, raw: text, ...door.read(text), receipt }
}

const goesOn = (...models: readonly string[]) => ({ models, provider: { continue: true } })

/** 12 tokens in and 3 out, and 20 in and 4 out. */
const both = { state: 'settled', ending: 'finished', total: '0.000046', charged: '0.000046', held: '0' }

describe('a client of', () => {
  test.each(Object.entries(doors))('%s reads one answer, and pays for both parts', async (name, door) => {
    const answer = await ask('first/cut', goesOn('second/rest'), door)
    expect({ text: answer.text, ends: answer.ends }).toEqual({ text: whole, ends: [...endings[name]!] })
    expect(answer.raw).not.toMatch(/upstream_error|"error":\{/)
    expect(answer.receipt).toMatchObject(both)
  })
})

test('the receipt shows the seam, and the lines of each part', async () => {
  const more = { ...goesOn('second/rest'), stream_options: { include_usage: true } }
  const { receipt, raw } = await ask('first/cut', more)
  expect(receipt.attempts).toMatchObject([
    {
      provider: 'first',
      outcome: 'served',
      code: 'upstream_error',
      reason: expect.stringContaining('its answer broke off after 14 characters'),
    },
    { provider: 'second', outcome: 'served', code: null },
  ])
  expect(receipt.lines.map(({ item, quantity, round }) => [item, quantity, round])).toEqual([
    ['input', 12, 1],
    ['output', 3, 1],
    ['input', 20, 2],
    ['output', 4, 2],
  ])
  expect(raw).toContain('"continued_by":["second/rest"]')
})

describe('a stream that', () => {
  test.each([
    ['is cut', 'cut'],
    ['is reset', 'reset'],
    ['holds an error', 'error'],
    ['becomes unreadable', 'malformed'],
    ['stalls', 'stall'],
    ['has thought before', 'thought'],
  ])('%s is gone on with', async (_, name) => {
    const { text, ends: ending, receipt } = await ask(`first/${name}`, goesOn('second/rest'))
    expect({ text, ending }).toEqual({ text: whole, ending: [...endings['chat']!] })
    expect(receipt).toMatchObject(both)
  })

  test('nobody has counted is estimated as far as it came', async () => {
    const { text, receipt } = await ask('first/uncounted', goesOn('second/rest'))
    expect(text).toBe(whole)
    expect(receipt).toMatchObject({ ending: 'finished', usage: { estimated: true } })
    expect(Number(receipt.total)).toBeWithin(0.000029, 0.000046)
  })

  test.each([
    ['a template', 'templated/template'],
    ['a prefix, which is repeated', 'prefixed/prefix'],
    ['Claude', 'claude/claude-sonnet-4-5'],
  ])('is gone on with by %s', async (_, model) => {
    const { text, receipt } = await ask('first/cut', goesOn(model))
    expect(text).toBe(whole)
    expect(receipt).toMatchObject(both)
  })

  test.each(['second/rest', 'second/spaced'])('ends with a space has it once (%s)', async (model) => {
    const { text } = await ask('first/space', goesOn(model))
    expect(text).toBe(whole)
  })

  test('is gone on with by a third', async () => {
    const { text, receipt } = await ask('first/cut', goesOn('second/twice', 'third/rest'))
    expect(text).toBe(whole)
    expect(receipt.attempts.map(({ provider }) => provider)).toEqual(['first', 'second', 'third'])
    // 12 + 3 × 2, 20 + 1 × 2, 20 + 4 × 2.
    expect(receipt).toMatchObject({ ...both, total: '0.000068', charged: '0.000068' })
  })

  test('is gone on with by whoever can, past those that cannot', async () => {
    const models = [
      'without/rest',
      'claude/claude-opus-4-6',
      'second/reasons',
      'second/refuses',
      'third/rest',
    ]
    const { text, receipt } = await ask('first/cut', goesOn(...models))
    expect(text).toBe(whole)
    expect(receipt.attempts.map(({ provider, outcome }) => [provider, outcome])).toEqual([
      ['first', 'served'],
      ['second', 'failed'],
      ['third', 'served'],
    ])
    expect(receipt).toMatchObject(both)
    // That is remembered.
    const again = await ask('first/cut', goesOn('second/refuses', 'third/rest'))
    expect(again.receipt.attempts.map(({ provider }) => provider)).toEqual(['first', 'third'])
  })

  test('has been begun by its client is gone on with behind that', async () => {
    const messages = [
      { role: 'user', content: 'Where?' },
      { role: 'assistant', content: 'The ' },
    ]
    const before = providers[1]!.arrivals.length
    await ask('first/cut', { ...goesOn('second/rest'), messages })
    const sent = providers[1]!.arrivals[before]!.body['messages']
    expect(JSON.stringify(sent)).toBe(
      JSON.stringify([messages[0], { role: 'assistant', content: 'The The river runs' }]),
    )
  })
})

/** 12 tokens in and 3 out where they were counted; estimates otherwise. */
const first = { state: 'settled', ending: 'provider-cut', held: '0' }

describe('a stream ends in an error, and costs what came of it,', () => {
  test.each<[string, string, object]>([
    ['where nobody allows more', 'cut', { models: ['second/rest'] }],
    ['within a call of a tool', 'call', goesOn('second/rest')],
    ['within a thought', 'thinking', goesOn('second/rest')],
    ['within a refusal', 'refusal', goesOn('second/rest')],
    ['where nobody else is there', 'cut', goesOn()],
    ['where nobody takes a prefill', 'cut', goesOn('without/rest')],
    ['where the others fail', 'cut', goesOn('second/broken')],
    ['where it is to be JSON', 'cut', { ...goesOn('second/rest'), response_format: { type: 'json_object' } }],
    [
      'where a tool must be called',
      'cut',
      {
        ...goesOn('second/rest'),
        tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }],
        tool_choice: 'required',
      },
    ],
    // The bound of the prompt takes nearly all of it.
    ['where max_cost leaves too little', 'cut', { ...goesOn('second/rest'), max_cost: '0.00018' }],
  ])('%s', async (_, name, more) => {
    const { raw, ends: ending, receipt } = await ask(`first/${name}`, more)
    expect(ending).toEqual(['assistant', 'error', 'done'])
    expect(raw).toContain('"code":"upstream_error"')
    expect(receipt).toMatchObject(first)
    expect(Number(receipt.total)).toBeWithin(0.000001, 0.00004)
    expect(receipt.lines.every(({ round }) => round === undefined || round === 1)).toBe(true)
  })
})

test('a stream whose limit is used up ends there', async () => {
  const { text, ends: ending, receipt } = await ask('first/cut', { ...goesOn('second/rest'), max_tokens: 3 })
  expect(text).toBe(begun.join(''))
  expect(ending).toEqual(['assistant', 'length', 'done'])
  expect(receipt).toMatchObject({ total: '0.000018', ending: 'stopped' })
})

test('of the limit the next is sent what is left', async () => {
  const before = providers[1]!.arrivals.length
  await ask('first/cut', { ...goesOn('second/rest'), max_tokens: 10 })
  expect(providers[1]!.arrivals[before]!.body['max_tokens']).toBe(7)
})

test('what the next may cost is held before it is asked: many at once never spend more than there is', async () => {
  const { key } = await accountWith(lab.weir, 'many@example.org', { purchased: '0.003' })
  const before = providers[1]!.arrivals.length
  const calls = Array.from({ length: 12 }, async () => {
    const response = await postAs(`${lab.weir.baseUrl}/chat/completions`, key, {
      ...doors['chat']!.body('first/fails'),
      ...goesOn('second/longest'),
      max_tokens: 200,
    })
    return { status: response.status, text: await readAll(response) }
  })
  const answers = await Promise.all(calls)
  waiting = []
  const asked = providers[1]!.arrivals.slice(before).map(({ body }) => Number(body['max_tokens']))
  const served = answers.filter(({ status }) => status === 200)
  const broken = served.filter(({ text }) => text.includes('"overloaded"'))
  // Some are refused, and some find too little left to go on.
  expect(served.length).toBeLessThan(calls.length)
  expect(served.length - broken.length).toBe(asked.length)
  expect(asked.length).toBeGreaterThan(0)
  const billed = served.length * 18 + asked.reduce((sum, tokens) => sum + 20 + 2 * tokens, 0)
  expect(billed).toBeLessThanOrEqual(3_000)
  const credits = await creditsOf(lab.weir, key)
  expect(credits).toMatchObject({ held: '0', debt: '0' })
  expect(Number(credits.total_used)).toBeCloseTo(billed / 1_000_000, 12)
})

test('who cannot be stopped is sent the limit that what is left of the credit pays for', async () => {
  const { key } = await accountWith(lab.weir, 'one@example.org', { purchased: '0.003' })
  const before = providers[1]!.arrivals.length
  const body = { ...doors['chat']!.body('first/much'), ...goesOn('groq/longest') }
  const response = await postAs(`${lab.weir.baseUrl}/chat/completions`, key, body)
  expect(await readAll(response)).toContain('"finish_reason":"length"')
  const sent = providers[1]!.arrivals[before]!.body
  const billed = 12 + 2 * muchTokens + 20 + 2 * Number(sent['max_completion_tokens'])
  expect(billed).toBeWithin(1_500, 3_001)
  expect(Number((await creditsOf(lab.weir, key)).total_used)).toBeCloseTo(billed / 1_000_000, 12)
})

test.each([
  ['steady', {}, whole],
  ['plain', { provider: { continue: true } }, begun.join('')],
])('a route says it for its calls: %s', async (model, more, said) => {
  const { text } = await ask(model, more)
  expect(text).toBe(said)
})

test('nothing is held, and the ledger proves itself', async () => {
  expect(await lab.held()).toBe('0')
  await expectAudited(lab.weir)
})
