// OpenAI's Decisions with its official client: answered by the simulator, passed to a provider that has them, and paid
// for by what was read alone.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { type Lab, startLab } from '../../chat/lab.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'

type Params = OpenAI.DecisionCreateParams

const questions: Params['questions'] = [
  { type: 'predicate', name: 'flood', instructions: 'Is there a risk of a flood?' },
  {
    type: 'choice',
    instructions: 'How high is the river?',
    choices: [{ value: 'low' }, { value: 'high' }, { value: true }],
  },
  { type: 'score', instructions: 'How urgent is it?', levels: [{ label: 'not' }, { label: 'very' }] },
]

let hosted: ScriptedProvider
let lab: Lab
let client: OpenAI
const bodies: { body: JsonObject; path: string }[] = []

beforeAll(async () => {
  hosted = await startScriptedProvider({}, (body, path) => async (wire) => {
    bodies.push({ body, path })
    const usage = {
      input_tokens: 1000,
      input_tokens_details: { cached_tokens: 400, cache_write_tokens: 0 },
      output_tokens: 0,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 1000,
    }
    const refuses = body['input'] === 'refuse'
    const answers = [{ type: 'predicate', name: 'flood', probability: 0.75, new_field: 1 }]
    const [status, said] = refuses
      ? [
          '400 Bad Request',
          { error: { message: 'no such question', param: 'questions', type: 'invalid_request_error' } },
        ]
      : ['200 OK', { model: 'gpt-6-luna-2026', answers, usage }]
    await wire.write(
      `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n${JSON.stringify(said)}`,
    )
    wire.end()
  })
  lab = await startLab({
    providers: { openai: { base_url: hosted.url, api_key: 'key-of-openai-0123456789' }, other: hosted.url },
    models: { 'openai/gpt-6-luna': ['openai/gpt-6-luna'], 'other/m': ['other/m'] },
  })
  client = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})

afterAll(async () => {
  await lab?.weir.stop()
  await hosted?.stop()
})

describe('decisions', () => {
  test('of the simulator have probabilities that add up, the same each time', async () => {
    const ask = () => client.decisions.create({ model: 'sim/echo', input: 'The river is high.', questions })
    const { answers, usage } = await ask()
    expect(answers.map(({ type, name }) => [type, name])).toEqual([
      ['predicate', 'flood'],
      ['choice', null],
      ['score', null],
    ])
    for (const answer of answers) {
      if (answer.type === 'predicate') expect(answer.probability).toBeWithin(0, 1)
      if (answer.type !== 'choice' && answer.type !== 'score') continue
      const sum = answer.probabilities.reduce((all, { probability }) => all + probability, 0)
      expect(sum).toBeCloseTo(1, 9)
    }
    expect(answers[1]).toMatchObject({ choice: 'high' })
    expect([usage.output_tokens, usage.total_tokens]).toEqual([0, usage.input_tokens])
    expect((await ask()).answers).toEqual(answers)
  })

  test('of a provider pass as they are, and only what was read is paid for', async () => {
    const { data, response } = await client.decisions
      .create({ model: 'openai/gpt-6-luna', input: 'The river is high.', questions })
      .withResponse()
    expect(bodies.at(-1)).toEqual({
      path: expect.stringMatching(/\/decisions$/) as unknown as string,
      body: {
        model: 'gpt-6-luna',
        input: 'The river is high.',
        questions: questions as unknown as JsonObject[],
      },
    })
    expect(data).toMatchObject({
      model: 'openai/gpt-6-luna',
      answers: [{ type: 'predicate', name: 'flood', probability: 0.75, new_field: 1 }],
      usage: { input_tokens: 1000, output_tokens: 0, input_tokens_details: { cached_tokens: 400 } },
    } as object)
    const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id')!)
    expect(receipt).toMatchObject({
      state: 'settled',
      usage: { prompt_tokens: 1000, completion_tokens: 0, estimated: false },
    })
    expect(receipt?.lines.map(({ item }) => item).toSorted()).toEqual(['cache_read', 'input'])
  })

  test('that a provider refuses cost nothing', async () => {
    const error: unknown = await client.decisions
      .create({ model: 'openai/gpt-6-luna', input: 'refuse', questions })
      .catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(APIError)
    const { status, headers, message } = error as APIError
    expect([status, message]).toEqual([400, expect.stringContaining('no such question') as unknown as string])
    expect(await receiptOf(lab.weir, headers!.get('x-request-id')!)).toMatchObject({ charged: '0' })
  })

  test.each<[number, string, JsonObject]>([
    [400, 'invalid_request', { questions: [] }],
    [400, 'invalid_request', { questions: [{ type: 'essay', instructions: 'x' }] }],
    [400, 'unsupported_parameter', { temperature: 1, strict: true }],
    [404, 'model_not_found', { model: 'sim/nothing' }],
    [503, 'no_provider_available', { model: 'other/m' }],
  ])('%p %s', async (status, code, more) => {
    const response = await fetch(`${lab.weir.baseUrl}/decisions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/echo', input: 'hi', questions, ...more }),
    })
    expect(response.status).toBe(status)
    expect(await response.json()).toMatchObject({ error: { code } })
  })
})
