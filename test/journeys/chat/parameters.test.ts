// What a client asks for and a provider ignores: the client hears of it, or another provider is asked, or nobody is.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Answer, codeIn, type Lab, startLab } from '../../chat/lab.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

let deaf: MockProvider
let keen: MockProvider
let lab: Lab

beforeAll(async () => {
  deaf = await startMockProvider({ words: ['deaf'] })
  keen = await startMockProvider({ words: ['keen'] })
  lab = await startLab({
    providers: { deaf: { base_url: deaf.url, ignores: ['seed', 'n'] }, keen: keen.url },
    models: { 'both/m': ['deaf/m', 'keen/m'], 'deaf/m': ['deaf/m'] },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([deaf, keen].map((mock) => mock?.stop()))
})

const warnedOf = ({ headers }: Answer) => headers.get('x-weir-warnings') ?? ''
const servedBy = ({ headers }: Answer) => headers.get('x-weir-provider')

describe('a parameter that the first provider ignores', () => {
  test('is left out and named', async () => {
    const answer = await lab.ask('both/m', { seed: 7 })
    expect([answer.status, servedBy(answer)]).toEqual([200, 'deaf'])
    expect(JSON.parse(answer.text)).toMatchObject({ warnings: [{ param: 'seed' }] })
    expect(deaf.bill.at(-1)!.body).not.toHaveProperty('seed')
  })

  test('is named in a header of a stream', async () => {
    const answer = await lab.ask('both/m', { seed: 7, stream: true })
    expect([servedBy(answer), warnedOf(answer)]).toEqual(['deaf', expect.stringContaining('seed')])
  })

  test.each([{ strict: true }, { provider: { require_parameters: true } }])(
    'goes to one that honours it: %j',
    async (demand) => {
      const before = deaf.bill.length
      const answer = await lab.ask('both/m', { seed: 7, ...demand })
      expect([answer.status, servedBy(answer), warnedOf(answer)]).toEqual([200, 'keen', ''])
      expect(keen.bill.at(-1)!.body).toMatchObject({ seed: 7 })
      expect(deaf.bill).toHaveLength(before)
    },
  )

  test('goes to one that honours it without a word, when the answer would be another', async () => {
    const answer = await lab.ask('both/m', { n: 2 })
    expect([answer.status, servedBy(answer)]).toEqual([200, 'keen'])
  })

  test.each([{ strict: true }, { provider: { require_parameters: true } }])(
    'is refused when there is no other, and costs nothing: %j',
    async (demand) => {
      const [before, used] = [deaf.bill.length, await lab.used()]
      const answer = await lab.ask('deaf/m', { seed: 7, ...demand })
      expect([answer.status, codeIn(answer.text)]).toEqual([400, 'unsupported_parameter'])
      expect(JSON.parse(answer.text)).toMatchObject({ error: { param: 'seed' } })
      expect(answer.headers.get('x-should-retry')).toBe('false')
      expect(deaf.bill).toHaveLength(before)
      expect([await lab.held(), await lab.used()]).toEqual(['0', used])
    },
  )
})

describe('the simulator', () => {
  test.each(['frequency_penalty', 'repetition_penalty'])('says that %s changes nothing', async (param) => {
    const whole = await lab.ask('sim/echo', { [param]: 0.5 })
    expect(JSON.parse(whole.text)).toMatchObject({ warnings: [{ param }] })
    const streamed = await lab.ask('sim/echo', { [param]: 0.5, stream: true })
    expect(warnedOf(streamed)).toContain(param)
    const strict = await lab.ask('sim/echo', { [param]: 0.5, strict: true })
    expect([strict.status, codeIn(strict.text)]).toEqual([400, 'unsupported_parameter'])
  })

  test('honours under strict what it lists as supported', async () => {
    const asked = {
      temperature: 0.2,
      top_p: 0.9,
      top_k: 5,
      min_p: 0.1,
      seed: 7,
      stop: ['run'],
      max_tokens: 50,
    }
    const answer = await lab.ask('sim/echo', {
      ...asked,
      logprobs: true,
      top_logprobs: 1,
      n: 2,
      strict: true,
    })
    const { choices, warnings } = JSON.parse(answer.text) as Record<string, never[]>
    expect([answer.status, warnings]).toEqual([200, undefined])
    expect(choices).toHaveLength(2)
    expect(choices![0]).toMatchObject({
      message: { content: 'Where does it ' },
      logprobs: { content: [{ token: 'Where', top_logprobs: [{ token: 'Where' }] }, {}, {}, {}] },
    })
  })

  test('reasons as hard as it is asked to, whatever its model', async () => {
    const reasoning = async (reasoning_effort?: string) => {
      const { text } = await lab.ask('sim/echo', {
        ...(reasoning_effort && { reasoning_effort }),
        strict: true,
      })
      const { message } = (JSON.parse(text) as { choices: { message: { reasoning_content?: string } }[] })
        .choices[0]!
      return message.reasoning_content?.length ?? 0
    }
    const [unasked, low, high] = [await reasoning(), await reasoning('low'), await reasoning('high')]
    expect(unasked).toBe(0)
    expect(low).toBeGreaterThan(0)
    expect(high).toBeGreaterThan(low)
  })

  test('calls functions in the older words, too', async () => {
    const functions = [{ name: 'look', parameters: { type: 'object', properties: {} } }]
    const answer = await lab.ask('sim/echo', { functions, function_call: { name: 'look' }, strict: true })
    expect(JSON.parse(answer.text)).toMatchObject({
      choices: [{ message: { tool_calls: [{ function: { name: 'look' } }] } }],
    })
  })
})

test('models without a model: the first is asked, the rest stand in', async () => {
  const answer = await lab.ask(undefined, { models: ['deaf/m', 'both/m'] })
  expect([answer.status, servedBy(answer)]).toEqual([200, 'deaf'])
  const fallen = await lab.ask(undefined, { models: ['deaf/m', 'both/m'], seed: 7, strict: true })
  expect([fallen.status, servedBy(fallen), fallen.headers.get('x-weir-model')]).toEqual([
    200,
    'keen',
    'both/m',
  ])
})
