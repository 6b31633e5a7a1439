// Providers that keep to no bound: a caller never pays more than its max_cost, streams stop at their bound, and what a
// provider bills beyond a key's limit is charged and marked.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { exactParts, expectPrinted, getAs, postAs } from '../../support/call-gateway.ts'
import { parseUsd } from '../../../src/credits/money.ts'
import { type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'

/** What the provider does, by the model's name. It reads nothing else of the request but whether to stream. */
interface Habit {
  readonly words: number
  readonly prompt: number
  readonly reasoning: number
  /** The stream comes in one piece. */
  readonly burst?: true
  /** What it counts, where that is not what it made: on every chunk. */
  readonly counts?: object
}

const habits: Readonly<Record<string, Habit>> = {
  long: { words: 20_000, prompt: 12, reasoning: 0 },
  burst: { words: 20_000, prompt: 12, reasoning: 0, burst: true },
  prompt: { words: 10, prompt: 50_000, reasoning: 0 },
  hidden: { words: 10, prompt: 12, reasoning: 30_000 },
  modest: { words: 100, prompt: 12, reasoning: 0 },
  negative: { words: 100, prompt: 12, reasoning: 0, counts: { prompt_tokens: 12, completion_tokens: -100 } },
  missing: { words: 100, prompt: 12, reasoning: 0, counts: { prompt_tokens: 12 } },
  absurd: {
    words: 100,
    prompt: 12,
    reasoning: 0,
    counts: { prompt_tokens: 12, completion_tokens: 900_000, total_tokens: 900_012 },
  },
}

let provider: ReturnType<typeof startGreedyProvider>
let lab: Lab

beforeAll(async () => {
  provider = startGreedyProvider()
  const names = Object.keys(habits)
  lab = await startLab({
    providers: { greedy: provider.url, anthropic: { protocol: undefined, base_url: provider.url } },
    models: Object.fromEntries([
      ...names.map((name) => [`greedy/${name}`, { context_length: 200_000 }]),
      ['anthropic/long', { context_length: 200_000 }],
    ]),
    settings: { ledger: { hold_default_output_tokens: 500 } },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  provider?.stop()
})

interface Receipt {
  readonly charged: string
  readonly absorbed: string
  readonly total: string
  readonly over_limit: boolean
  readonly usage: { readonly completion_tokens: number; readonly estimated: boolean }
}

async function receiptOf(id: string, key = lab.weir.key): Promise<Receipt> {
  await until(lab.held, (held) => held === '0')
  const answer = await getAs(`${lab.weir.baseUrl}/generation?id=${id}`, key)
  return ((await answer.json()) as { data: Receipt }).data
}

/** Asks and gives the text of the answer with its receipt. */
async function asked(
  model: string,
  more: Record<string, unknown>,
  key = lab.weir.key,
  path = '/chat/completions',
) {
  const response = await postAs(lab.weir.baseUrl + path, key, {
    model,
    messages: [{ role: 'user', content: 'Where does it run?' }],
    ...more,
  })
  const text = await response.text()
  expect([response.status, text.slice(0, 300)]).toEqual([200, expect.any(String)])
  return { text, receipt: await receiptOf(response.headers.get('x-request-id')!, key) }
}

/** What an answer says that it cost, in picodollars; its parts add up. */
function costIn(text: string): bigint {
  const said = /"cost_details":(\{[^}]*\})/.exec(text)
  const { total, ...parts } = JSON.parse(said![1]!) as Record<string, string>
  expect(exactParts(parts).reduce((sum, part) => sum + parseUsd(part)!, 0n)).toBe(parseUsd(total!)!)
  return parseUsd(total!)!
}

const usage = { stream_options: { include_usage: true } }

describe('max_cost is never exceeded by the caller', () => {
  test.each([
    ['a stream without end', 'greedy/long', { stream: true, ...usage }],
    [
      'a stream without end, of 100 tokens at the most',
      'greedy/long',
      { stream: true, max_tokens: 100, ...usage },
    ],
    ['a stream that comes in one piece', 'greedy/burst', { stream: true, ...usage }],
    ['a whole answer of 20,000 tokens for 100', 'greedy/long', { max_tokens: 100 }],
    ['a prompt that was counted larger than it is', 'greedy/prompt', {}],
    ['the same in a stream', 'greedy/prompt', { stream: true, ...usage }],
    ['reasoning that nobody sees', 'greedy/hidden', {}],
    ['the same in a stream', 'greedy/hidden', { stream: true, ...usage }],
  ])('%s', async (_, model, more) => {
    const limit = parseUsd('0.001')!
    const { text, receipt } = await asked(model, { ...more, max_cost: '0.001' })
    const charged = parseUsd(receipt.charged)!
    expect(charged).toBeGreaterThan(0n)
    expect(charged).toBeLessThanOrEqual(limit)
    // The figure shown is the figure booked, and the rest is on the receipt.
    expect(costIn(text)).toBe(charged)
    expect(charged + parseUsd(receipt.absorbed)!).toBe(parseUsd(receipt.total)!)
  })

  test('the rest of a bill is absorbed, and the operator hears of it', async () => {
    const { receipt } = await asked('greedy/hidden', { max_cost: '0.001' })
    expect(receipt).toMatchObject({ charged: '0.001', absorbed: '0.059032', total: '0.060032' })
    const doctor = await lab.weir.command('doctor', '--json')
    const { findings } = JSON.parse(doctor.stdout) as { findings: { check: string; detail: string }[] }
    const details = findings.filter(({ check }) => check === 'provider greedy').map(({ detail }) => detail)
    expect(details.join()).toContain('are borne by the operator')
    await expectPrinted(lab.weir, 'a provider billed more than was held for the call')
  })
})

describe('a stream whose provider ignores max_tokens', () => {
  test.each([
    // path, what ends it
    ['/chat/completions', { messages: undefined }, '"finish_reason":"length"'],
    ['/messages', {}, '"stop_reason":"max_tokens"'],
    ['/responses', { messages: undefined, input: 'Where?', max_output_tokens: 100 }, '"response.incomplete"'],
  ])('is stopped at %s, and charged for what was delivered', async (path, more, ending) => {
    const fields = path === '/chat/completions' ? { max_tokens: 100, ...usage } : { max_tokens: 100, ...more }
    const { text, receipt } = await asked('greedy/long', { stream: true, ...fields }, undefined, path)
    expect(text).toContain(ending)
    expect(text).toContain('"stopped_by":"max_tokens"')
    expect(parseUsd(receipt.charged)!).toBeLessThan(parseUsd('0.001')!)
    expect(receipt.absorbed).toBe('0')
  })

  test("of Anthropic's own protocol ends as its clients know it", async () => {
    const { text } = await asked('anthropic/long', { stream: true, max_tokens: 100 }, undefined, '/messages')
    const types = [...text.matchAll(/^event: (\w+)$/gm)].map(([, type]) => type!)
    expect(types.slice(0, 3)).toEqual(['message_start', 'content_block_start', 'content_block_delta'])
    expect(types.slice(-3)).toEqual(['content_block_stop', 'message_delta', 'message_stop'])
    expect(text).toContain('"stop_reason":"max_tokens"')
    expect(types.length).toBeLessThan(1_000)
  })

  test('is not stopped where it is as long as was asked for', async () => {
    const { text } = await asked('greedy/modest', { stream: true, max_tokens: 100, ...usage })
    expect(wordsIn(text).split(' ')).toHaveLength(101)
    expect(text).not.toContain('stopped_by')
  })
})

describe("a key's limit", () => {
  const keyOf = async (usd: string) => {
    const named = ['--account', 'owner@localhost', '--limit-usd', usd, '--limit-window', 'day']
    const made = await lab.weir.command('keys', 'create', ...named, '--json')
    return (JSON.parse(made.stdout) as { key: string }).key
  }

  test('stops a stream', async () => {
    const { text, receipt } = await asked('greedy/long', { stream: true, ...usage }, await keyOf('0.002'))
    expect(text).toContain('"stopped_by":"credits"')
    expect(parseUsd(receipt.charged)!).toBeLessThanOrEqual(parseUsd('0.002')!)
    expect(parseUsd(receipt.charged)!).toBeGreaterThan(parseUsd('0.001')!)
    expect(receipt.over_limit).toBe(false)
  })

  test('bounds what is asked of a whole answer', async () => {
    await asked('greedy/modest', {}, await keyOf('0.002'))
    expect(provider.asked.at(-1)!['max_tokens']).toBeWithin(800, 1_000)
  })

  test('does not hide what a provider bills beyond it: that is charged, and marked', async () => {
    const { receipt } = await asked('greedy/hidden', {}, await keyOf('0.002'))
    expect(receipt).toMatchObject({ charged: '0.060032', absorbed: '0', over_limit: true })
  })
})

describe('a count that cannot be', () => {
  test.each(['negative', 'missing', 'absurd'])('is no count: %s', async (habit) => {
    for (const more of [{}, { stream: true, max_tokens: 200, ...usage }]) {
      const { text, receipt } = await asked(`greedy/${habit}`, more)
      expect(text).not.toContain('stopped_by')
      expect(receipt.usage).toMatchObject({ prompt_tokens: 12, estimated: true })
      // A hundred words are a hundred tokens, and the space behind the last.
      expect(receipt.usage.completion_tokens).toBeWithin(100, 104)
      expect(parseUsd(receipt.charged)!).toBe(parseUsd(receipt.total)!)
    }
    await expectPrinted(lab.weir, 'has not counted a call as it can have been')
  })
})

test('the ledger proves itself after all of this', async () => {
  expect(await lab.weir.command('ledger', 'audit', '--json')).toMatchObject({ code: 0 })
})

/** Answers by its habits, whatever bound it is given; it stops where its client goes. */
function startGreedyProvider() {
  const asked: Record<string, unknown>[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      // The doctor asks what is there.
      if (request.method === 'GET') return Response.json({ data: [] })
      const body = (await request.json()) as { model: string; stream?: boolean }
      asked.push(body as unknown as Record<string, unknown>)
      const habit = habits[body.model]!
      if (new URL(request.url).pathname.endsWith('/messages'))
        return paced(anthropicFrames(habit.words), false)
      return body.stream === true ? paced(chatFrames(habit), habit.burst === true) : whole(habit)
    },
  })
  return { url: `http://127.0.0.1:${server.port}/v1`, asked, stop: () => void server.stop(true) }
}

const same = { id: 'greedy', created: 1_767_225_600, model: 'm' }

function counted({ words, prompt, reasoning, counts }: Habit): object {
  if (counts) return counts
  return {
    prompt_tokens: prompt,
    completion_tokens: words + reasoning,
    total_tokens: prompt + words + reasoning,
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}

function whole(habit: Habit): Response {
  const message = { role: 'assistant', content: 'word '.repeat(habit.words) }
  return Response.json({
    ...same,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: counted(habit),
  })
}

function* chatFrames(habit: Habit): Generator<string> {
  const frame = (fields: object) =>
    `data: ${JSON.stringify({ ...same, object: 'chat.completion.chunk', ...fields })}\n\n`
  const delta = (content: object, finish: string | null) =>
    frame({
      choices: [{ index: 0, delta: content, finish_reason: finish }],
      ...(habit.counts && { usage: habit.counts }),
    })
  for (let word = 0; word < habit.words; word++) yield delta({ content: 'word ' }, null)
  yield delta({}, 'stop') + frame({ choices: [], usage: counted(habit) }) + 'data: [DONE]\n\n'
}

function* anthropicFrames(words: number): Generator<string> {
  const event = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`
  const message = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
  }
  const usage = { input_tokens: 12, output_tokens: 1 }
  yield event('message_start', { message: { ...message, stop_sequence: null, usage } })
  yield event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } })
  for (let word = 0; word < words; word++)
    yield event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'word ' } })
}

/** Twenty frames at a time, or all in one piece. */
function paced(frames: Generator<string>, burst: boolean): Response {
  if (burst) return stream([...frames].join(''))
  const utf8 = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      let text = ''
      for (let at = 0; at < 20; at++) text += frames.next().value ?? ''
      if (text === '') return controller.close()
      await Bun.sleep(1)
      controller.enqueue(utf8.encode(text))
    },
  })
  return stream(body)
}

function stream(body: string | ReadableStream<Uint8Array>): Response {
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}
