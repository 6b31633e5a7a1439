// POST /v1/responses/compact: any model summarises a conversation, any other goes on with it, and it is charged once.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { type Lab, startLab } from '../../chat/lab.ts'
import { expectAudited, postAs, receiptOf } from '../../support/call-gateway.ts'
import { type ReplayServer, startReplayServer } from '../../support/replay-server.ts'

let provider: ReplayServer
let lab: Lab
let openai: OpenAI

const summary = 'The user measures rivers; the Arve is 107 km long.'
/** How the answer ends is in the name of the model. */
function chat(model: string): object {
  const reason = model.endsWith('cut') ? 'length' : 'stop'
  const content = model.endsWith('empty') ? '' : summary
  return {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model,
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: reason }],
    usage: { prompt_tokens: 200, completion_tokens: 12, total_tokens: 212 },
  }
}
const claude = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'c',
  content: [{ type: 'text', text: summary }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 200, output_tokens: 12 },
}

/** A provider that compacts by itself. */
const compacting = {
  id: 'resp_p',
  object: 'response',
  status: 'completed',
  model: 'gpt',
  output: [{ id: 'cmp_p', type: 'compaction', encrypted_content: 'gAAAA-of-the-provider' }],
  usage: { input_tokens: 200, output_tokens: 12, total_tokens: 212 },
}
const answers = (path: string, model: string) =>
  path.endsWith('/messages') ? claude : path.endsWith('/responses') ? compacting : chat(model)

beforeAll(async () => {
  provider = startReplayServer(({ path, json }) => {
    const { model, stream } = json as { model: string; stream?: boolean }
    const answer = answers(path, model)
    const isEvents = stream === true && answer === compacting
    const text = isEvents
      ? `data: ${JSON.stringify({ type: 'response.completed', response: answer })}\n\n`
      : JSON.stringify(answer)
    const type = isEvents ? 'text/event-stream' : 'application/json'
    return { status: 200, headers: { 'content-type': type }, body: new TextEncoder().encode(text) }
  })
  const base_url = `${provider.url}/v1`
  lab = await startLab({
    providers: {
      chat: base_url,
      claude: { protocol: 'anthropic-messages', base_url },
      gpt: { protocol: 'openai-responses', base_url },
    },
    models: { 'chat/whole': {}, 'chat/cut': {}, 'chat/empty': {}, 'claude/whole': {}, 'gpt/whole': {} },
  })
  openai = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})
afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

const sent = () => provider.requests.at(-1)!.json as Record<string, unknown>
const tools = [{ type: 'function' as const, name: 'f', strict: false, parameters: { type: 'object' } }]
const conversation = [
  { role: 'developer' as const, content: 'Answer in metres.' },
  { role: 'user' as const, content: 'How long is the Arve?' },
  { type: 'function_call' as const, call_id: 'c1', name: 'f', arguments: '{}' },
  { type: 'function_call_output' as const, call_id: 'c1', output: '107 km' },
  { role: 'assistant' as const, content: 'It is 107,000 m long.' },
  { role: 'user' as const, content: 'And the Rhône?' },
]
const compactBody = (model: string) => ({ model, input: conversation, tools })

describe.each(['chat/whole', 'claude/whole'])('a conversation compacted by %s', (model) => {
  test('is what the people said, and a summary that any other model reads', async () => {
    const compacted = await openai.responses.compact(compactBody(model) as never)
    expect(compacted.object).toBe('response.compaction')
    expect(compacted.output.map((item) => item.type)).toEqual(['message', 'message', 'message', 'compaction'])
    expect(JSON.stringify(compacted.output)).not.toContain('107,000')
    expect(sent()['tools'] === undefined || JSON.stringify(sent()['tool_choice']).includes('none')).toBe(true)
    for (const next of ['chat/whole', 'claude/whole']) {
      const input = [...compacted.output, { role: 'user', content: 'Go on.' }]
      await openai.responses.create({ model: next, input: input as never })
      const text = JSON.stringify(sent())
      for (const said of [summary, 'Answer in metres.', 'And the Rhône?', 'Go on.'])
        expect(text).toContain(said)
    }
  })

  test('is charged as one response, and not stored', async () => {
    const response = await postAs(`${lab.weir.baseUrl}/responses/compact`, lab.weir.key, compactBody(model))
    const { id, usage } = (await response.json()) as { id: string; usage: { cost: number } }
    const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id') ?? '')
    expect(Number(receipt?.charged)).toBe(usage.cost)
    expect(receipt?.charged).toBe('0.000224')
    expect((await fetch(`${lab.weir.baseUrl}/responses/${id}`, auth())).status).toBe(404)
  })
})

const auth = () => ({ headers: { authorization: `Bearer ${lab.weir.key}` } })

test('what is continued by its id is compacted, too', async () => {
  const first = await openai.responses.create({ model: 'chat/whole', input: 'How deep is it?' })
  const compacted = await openai.responses.compact({ model: 'chat/whole', previous_response_id: first.id })
  expect(JSON.stringify(sent())).toContain('How deep is it?')
  expect(compacted.output.map((item) => item.type)).toEqual(['message', 'compaction'])
})

test.each(['chat/cut', 'chat/empty'])(
  'where %s writes no whole summary nothing is lost, and it is charged',
  async (model) => {
    const response = await postAs(`${lab.weir.baseUrl}/responses/compact`, lab.weir.key, compactBody(model))
    const compacted = (await response.json()) as { status: string; output: unknown[] }
    expect(compacted.status).toBe('incomplete')
    expect(compacted.output).toEqual(conversation)
    const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id') ?? '')
    expect(receipt?.charged).toBe('0.000224')
  },
)

test('it is asked for once with an Idempotency-Key', async () => {
  const headers = { 'idempotency-key': 'compact-1' }
  const asked = () =>
    postAs(`${lab.weir.baseUrl}/responses/compact`, lab.weir.key, compactBody('chat/whole'), { headers })
  const [first, second] = [await asked(), await asked()]
  expect(await second.text()).toBe(await first.text())
  expect(second.headers.get('idempotency-replayed')).toBe('true')
})

test.each<[string, object, number]>([
  ['without a model', { input: 'x' }, 400],
  ['with input that is none', { model: 'chat/whole', input: 7 }, 400],
  ['of a model that there is not', { model: 'chat/none', input: 'x' }, 404],
  [
    'with a summary that only another provider can read',
    { model: 'chat/whole', input: [{ type: 'compaction', encrypted_content: 'gAAAA' }] },
    400,
  ],
])('a request %s is refused', async (_, body, status) => {
  expect((await postAs(`${lab.weir.baseUrl}/responses/compact`, lab.weir.key, body)).status).toBe(status)
})

test('all of it is in a ledger that proves itself', () => expectAudited(lab.weir))

/** As Codex asks: the trigger ends the input, and one compaction is expected. */
const triggered = (model: string, stream: boolean) =>
  openai.responses.create({
    model,
    input: [...conversation, { type: 'compaction_trigger' }] as never,
    tools,
    stream,
    store: false,
  })

async function outputOf(model: string, stream: boolean): Promise<OpenAI.Responses.ResponseOutputItem[]> {
  const answer = await triggered(model, stream)
  if (!(Symbol.asyncIterator in answer)) return answer.output
  const events: OpenAI.Responses.ResponseStreamEvent[] = []
  for await (const event of answer) events.push(event)
  const end = events.at(-1) as OpenAI.Responses.ResponseCompletedEvent
  const done = events.flatMap((event) => (event.type === 'response.output_item.done' ? [event.item] : []))
  expect(end.type).toBe('response.completed')
  expect(done).toEqual(end.response.output)
  return done
}

// The providers of this test stream nothing but the answer of the one that compacts.
describe.each([
  ['chat/whole', false],
  ['claude/whole', false],
  ['gpt/whole', false],
  ['gpt/whole', true],
] as const)('a compaction_trigger for %s, streamed: %p', (model, stream) => {
  test('gives one compaction, which its model reads', async () => {
    const output = await outputOf(model, stream)
    expect(output.map((item) => item.type as string)).toEqual(['compaction'])
    const asked = JSON.stringify(sent())
    expect(asked.includes('"compaction_trigger"')).toBe(model === 'gpt/whole')
    expect(asked.includes('what is needed to go on')).toBe(model !== 'gpt/whole')
    if (model !== 'gpt/whole') expect(JSON.stringify(sent()['tool_choice'])).toContain('none')
    await openai.responses.create({ model, input: [...output, { role: 'user', content: 'Go on.' }] as never })
    const text = JSON.stringify(sent())
    expect(text).toContain(model === 'gpt/whole' ? 'gAAAA-of-the-provider' : summary)
  })
})
