// A call never costs more than its client allowed, nor more than its account has: the stream stops in time and says so.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import { parseUsd } from '../../../src/credits/money.ts'
import { getAs } from '../../support/call-gateway.ts'
import { startLab, wordsIn } from '../../chat/lab.ts'
import { startPacedProvider } from '../../chat/paced-provider.ts'
import { runWeir, type ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir

beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
}, 30_000)

afterAll(() => weir?.stop())

const client = (apiKey: string) => new OpenAI({ apiKey, baseURL: weir.baseUrl, maxRetries: 0 })
const question = [{ role: 'user' as const, content: 'Tell me everything about rivers.' }]

interface Read {
  readonly finish: string | undefined
  readonly stoppedBy: unknown
  readonly cost: bigint
  readonly text: string
}

/** Reads a long answer to its end. */
async function readLong(apiKey: string, more: object): Promise<Read> {
  const body = { model: 'sim/long', messages: question, stream_options: { include_usage: true }, ...more }
  const stream = await client(apiKey).chat.completions.create({ ...body, stream: true })
  let finish: string | undefined
  let stoppedBy: unknown
  let cost = 0n
  let text = ''
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    finish = chunk.choices[0]?.finish_reason ?? finish
    const { metadata } = chunk as { metadata?: { stopped_by?: string } }
    stoppedBy = metadata?.stopped_by ?? stoppedBy
    const usage = chunk.usage as { cost_details?: { total: string } } | null | undefined
    if (usage?.cost_details) cost = parseUsd(usage.cost_details.total)!
  }
  return { finish, stoppedBy, cost, text }
}

async function accountWith(usd: string): Promise<{ key: string; email: string }> {
  const email = `u${crypto.randomUUID()}@example.com`
  const at = ['--data-dir', weir.dataDir, '--json']
  await runWeir(['accounts', 'create', '--email', email, ...at])
  await runWeir(['credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', usd, ...at])
  const made = await runWeir(['keys', 'create', '--account', email, ...at])
  return { email, key: (JSON.parse(made.stdout) as { key: string }).key }
}

async function available(key: string): Promise<bigint> {
  const answer = await getAs(`${weir.baseUrl}/credits`, key)
  const { data } = (await answer.json()) as { data: { available: string; held: string } }
  expect(data.held).toBe('0')
  return parseUsd(data.available)!
}

describe('max_cost', () => {
  test('that covers a long prompt by its tokens serves it, though its bytes seem too many', async () => {
    const content = 'the quick brown river runs over the weir '.repeat(2_500)
    const body = { model: 'sim/json', messages: [{ role: 'user' as const, content }], max_cost: '0.03' }
    const answer = await client(weir.key).chat.completions.create({ ...body, max_tokens: 5 })
    const { total } = (answer.usage as unknown as { cost_details: { total: string } }).cost_details
    expect(parseUsd(total)!).toBeLessThan(parseUsd(body.max_cost)!)
  })

  test('ends a stream with finish reason length and the reason, at a charge within it', async () => {
    const whole = await readLong(weir.key, {})
    const limit = '0.001'
    expect(whole.cost).toBeGreaterThan(parseUsd(limit)!)
    const read = await readLong(weir.key, { max_cost: limit })
    expect(read.finish).toBe('length')
    expect(read.stoppedBy).toBe('max_cost')
    expect(whole.stoppedBy).toBeUndefined()
    expect(read.cost).toBeGreaterThan(0n)
    expect(read.cost).toBeLessThanOrEqual(parseUsd(limit)!)
    expect(read.text.length).toBeLessThan(whole.text.length)
  })

  test('bounds a whole answer too', async () => {
    const body = { model: 'sim/long', messages: question, max_cost: '0.001' }
    const answer = await client(weir.key).chat.completions.create(body)
    expect(answer.choices[0]?.finish_reason).toBe('length')
    expect(answer).toMatchObject({ metadata: { stopped_by: 'max_cost' } })
    const { cost_details: details } = answer.usage as unknown as { cost_details: { total: string } }
    expect(parseUsd(details.total)!).toBeLessThanOrEqual(parseUsd('0.001')!)
  })

  async function expectRefused(max_cost: string): Promise<void> {
    const body = { model: 'sim/echo', messages: question, max_cost }
    const error = await client(weir.key)
      .chat.completions.create(body)
      .then(
        () => undefined,
        (thrown: unknown) => thrown as APIError,
      )
    expect([error?.status, error?.param]).toEqual([400, 'max_cost'])
  }

  test.each(['0', '-1', 'much', '1e-3'])('of %p is refused by name', async (max_cost) => {
    await expectRefused(max_cost)
  })

  test('below one token of output is refused before anything is sent', async () => {
    await expectRefused('0.000000000001')
  })
})

describe('an account with little credit', () => {
  test('gets as long an answer as it can pay for, and is told so', async () => {
    const { key } = await accountWith('0.002')
    const body = { model: 'sim/long', messages: question, stream: true as const }
    const { data, response } = await client(key).chat.completions.create(body).withResponse()
    let finish: string | undefined
    for await (const chunk of data) finish = chunk.choices[0]?.finish_reason ?? finish
    expect(finish).toBe('length')
    expect(response.headers.get('x-weir-warnings')).toContain('max_tokens')
    expect(await available(key)).toBeGreaterThanOrEqual(0n)
  })

  test('is served to its last tokens where a whole further part of its hold is not there', async () => {
    const provider = startPacedProvider(
      Array.from({ length: 600 }, () => 'word '),
      1,
    )
    const lab = await startLab({
      providers: { paced: provider.url },
      models: { 'paced/m': ['paced/m'] },
      settings: { ledger: { hold_default_output_tokens: 200 } },
    })
    try {
      // At two millionths a token more than 300 tokens, of which a hold sets 200 aside.
      const named = ['--account', 'owner@localhost']
      const adjust = ['--pool', 'purchased', '--usd', '-99.9992', '--id', 'spent-elsewhere']
      expect((await lab.weir.command('credits', 'adjust', ...named, ...adjust)).code).toBe(0)
      const { text } = await lab.ask('paced/m', { stream: true })
      expect(text).toContain('"stopped_by":"credits"')
      expect(wordsIn(text).split(' ').length).toBeGreaterThan(300)
    } finally {
      await lab.weir.stop()
      provider.stop()
    }
  }, 30_000)

  test('is never charged more than it has, however many answers stream at once', async () => {
    const { key } = await accountWith('0.01')
    const calls = Array.from({ length: 8 }, () => readLong(key, {}).catch((error: unknown) => error))
    const ends = await Promise.all(calls)
    const refused = ends.filter((end): end is APIError => end instanceof APIError)
    for (const { status } of refused) expect(status).toBe(402)
    const paid = ends
      .filter((end): end is Read => !(end instanceof Error))
      .reduce((sum, { cost }) => sum + cost, 0n)
    expect(paid).toBeGreaterThan(0n)
    expect(paid).toBeLessThanOrEqual(parseUsd('0.01')!)
    expect(await available(key)).toBe(parseUsd('0.01')! - paid)
  })
})
