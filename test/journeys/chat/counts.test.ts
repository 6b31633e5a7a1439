// What a provider counts is charged where it can be what it was asked for, through every door and in every protocol: a
// figure beyond the request, and silence beside an answer, are replaced by our own count, which says so.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { expectAudited, expectPrinted, post, receiptOf, restingCredits } from '../../support/call-gateway.ts'
import { type Replay, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

/** 1,800 letters, about 400 tokens. */
const text = 'The river runs to the weir and on to the sea. '.repeat(40).trim()

type Counts = readonly [prompt: number | undefined, completion: number | undefined]

/** A whole answer of each protocol with these counts. */
const answers: Readonly<Record<string, (counts: Counts) => object>> = {
  'openai-chat': ([prompt_tokens, completion_tokens]) => ({
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens, completion_tokens },
  }),
  'openai-responses': ([input_tokens, output_tokens]) => ({
    id: 'resp_1',
    status: 'completed',
    output: [{ type: 'message', id: 'm', role: 'assistant', content: [{ type: 'output_text', text }] }],
    usage: { input_tokens, output_tokens },
  }),
  'anthropic-messages': ([input_tokens, output_tokens]) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    usage: { input_tokens, output_tokens },
  }),
  gemini: ([promptTokenCount, candidatesTokenCount]) => ({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount, candidatesTokenCount, totalTokenCount: promptTokenCount },
  }),
  'bedrock-converse': ([inputTokens, outputTokens]) => ({
    output: { message: { role: 'assistant', content: [{ text }] } },
    stopReason: 'end_turn',
    usage: { inputTokens, outputTokens },
  }),
  cohere: ([input_tokens, output_tokens]) => ({
    id: 'c',
    finish_reason: 'COMPLETE',
    message: { role: 'assistant', content: [{ type: 'text', text }] },
    usage: { tokens: { input_tokens, output_tokens }, billed_units: { input_tokens, output_tokens } },
  }),
  ollama: ([prompt_eval_count, eval_count]) => ({
    model: 'm',
    message: { role: 'assistant', content: text },
    done: true,
    done_reason: 'stop',
    prompt_eval_count,
    eval_count,
  }),
}

const vectors = ([prompt_tokens, completion_tokens]: Counts) => ({
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [1, 0] }],
  usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens },
})

const counts: Readonly<Record<string, Counts>> = {
  zeros: [0, 0],
  'a-prompt-alone': [20, undefined],
  'no-output': [20, 0],
  absurd: [9_000_000, 2_900_000],
  fair: [20, 400],
}

let provider: ReplayServer
let weir: ServedWeir

beforeAll(async () => {
  provider = startReplayServer(({ path, json }): Replay => {
    const body = JSON.stringify(json ?? {})
    const name = Object.keys(counts).find((each) => path.includes(each) || body.includes(each))!
    const [protocol] = path.slice(1).split('/')
    const made = path.includes('embeddings') ? vectors(counts[name]!) : answers[protocol!]!(counts[name]!)
    return {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: new TextEncoder().encode(JSON.stringify(made)),
    }
  })
  const protocols = Object.keys(answers)
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      providers: Object.fromEntries(
        protocols.map((protocol) => [
          `by-${protocol}`,
          { protocol, base_url: `${provider.url}/${protocol}`, api_key: 'a:b' },
        ]),
      ),
      models: [
        ...protocols.flatMap((protocol) =>
          Object.keys(counts).map((name) => ({
            id: `by-${protocol}/${name}`,
            price: { input: '1', output: '2' },
          })),
        ),
        ...Object.keys(counts).map((name) => ({
          id: `by-openai-chat/vectors-${name}`,
          output_modalities: ['embeddings'],
          price: { input: '1', output: '2' },
        })),
      ],
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

const question = 'Where does the river run?'
const messages = [{ role: 'user', content: question }]

async function charged(body: object, path: string, expected: 'ours' | 'theirs'): Promise<void> {
  const answer = await post(weir, body, { path })
  expect({ status: answer.status, text: answer.status === 200 ? '' : answer.text }).toEqual({
    status: 200,
    text: '',
  })
  await restingCredits(weir)
  const receipt = (await receiptOf(weir, answer.requestId))!
  const { prompt_tokens: prompt, completion_tokens: completion, estimated } = receipt.usage!
  expect({ state: receipt.state, estimated }).toEqual({ state: 'settled', estimated: expected === 'ours' })
  expect(prompt).toBeWithin(5, 40)
  if (path !== '/embeddings') expect(completion).toBeWithin(300, 600)
  expect(Number(receipt.charged)).toBeCloseTo(prompt * 1e-6 + completion * 2e-6, 12)
}

describe.each(['whole', 'streamed'])('%s', (how) => {
  const stream = how === 'streamed'

  test.each(Object.keys(answers))(
    'by %s: silence and absurd figures are replaced by our count',
    async (of) => {
      for (const name of Object.keys(counts)) {
        const body = { model: `by-${of}/${name}`, messages, max_tokens: 600, stream }
        await charged(body, '/chat/completions', name === 'fair' ? 'theirs' : 'ours')
      }
    },
  )

  test.each<[string, string, object]>([
    ['completions', '/completions', { prompt: question, max_tokens: 600 }],
    ['messages', '/messages', { messages, max_tokens: 600 }],
    ['responses', '/responses', { input: question, max_output_tokens: 600 }],
    ['chat', '/chat/completions', { messages, max_tokens: 600 }],
  ])('through the door of %s likewise, passed through and translated', async (_, path, asked) => {
    for (const of of ['openai-chat', 'openai-responses', 'anthropic-messages', 'gemini'])
      for (const name of ['zeros', 'absurd', 'fair'])
        await charged(
          { model: `by-${of}/${name}`, stream, ...asked },
          path,
          name === 'fair' ? 'theirs' : 'ours',
        )
  })

  test("through Gemini's door likewise", async () => {
    for (const name of ['zeros', 'absurd', 'fair']) {
      const action = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
      const body = {
        contents: [{ role: 'user', parts: [{ text: question }] }],
        generationConfig: { maxOutputTokens: 600 },
      }
      const path = `/../v1beta/models/by-gemini/${name}:${action}`
      await charged(body, path, name === 'fair' ? 'theirs' : 'ours')
    }
  })
})

test('vectors likewise', async () => {
  for (const name of ['zeros', 'absurd'])
    await charged({ model: `by-openai-chat/vectors-${name}`, input: question }, '/embeddings', 'ours')
})

test('the operator is told of each, and the books balance', async () => {
  await expectPrinted(weir, 'a provider has not counted a call as it can have been')
  await expectAudited(weir)
})
