// Recorded providers behind the gateway, read by the official client as responses: what a provider once said arrives
// whatever it speaks, and what only it understands of its reasoning comes back to it with the next turn.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { toResponseInputItems } from 'openai/lib/responses/ResponseInputItems'
import type { Response as Answer, ResponseInput, Tool } from 'openai/resources/responses/responses'
import { type ChatResult, collect } from '../../../src/conversation/event.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { answersOf, type RecordedHost, recordedHosts } from '../../protocols/recorded-hosts.ts'
import { isWork } from '../../../src/protocols/claude/tools.ts'
import { expectAudited } from '../../support/call-gateway.ts'
import { type Case, cases } from '../../support/recordings.ts'
import { replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { recordedConfig } from './recorded-gateway.ts'

const folders = [
  { folder: 'openai-chat', provider: 'recorded-chat' },
  { folder: 'openai-responses', provider: 'recorded-responses' },
  { folder: 'anthropic', provider: 'anthropic' },
  { folder: 'gemini', provider: 'gemini' },
] as const

let playing: Case
let replay: ReplayServer
let weir: ServedWeir
let client: OpenAI

const hostOf = (folder: string): RecordedHost => recordedHosts.find((host) => host.folder === folder)!

beforeAll(async () => {
  replay = startReplayServer(() => replayOf(playing))
  weir = await serveWeir({
    config: recordedConfig(
      folders.map(({ folder, provider }) => ({ provider, protocol: hostOf(folder).protocol })),
      replay.url,
    ),
  })
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
})

/** What a recording says: one answer, which ended well. */
function saidBy(host: RecordedHost, recorded: Case): ChatResult | undefined {
  if (recorded.status !== 200) return undefined
  const [events, ...more] = answersOf(host, recorded)
  if (more.length > 0 || events?.at(-1)?.kind !== 'finish') return undefined
  const said = collect(events)
  return said.choices[0]?.finish === undefined ? undefined : said
}

/** Declares the functions that a recording calls: a provider may be told of no others. */
function toolsFor(said: ChatResult): Tool[] {
  const names = new Set(said.choices[0]!.toolCalls.map(({ name }) => name))
  return [...names].map((name) => ({
    type: 'function',
    name,
    parameters: { type: 'object', properties: {} },
    strict: null,
  }))
}

/** What a provider gave for itself alone, as it stands in JSON. A turn that came to nothing but thoughts is left out. */
function secretsOf({ choices: [first] }: ChatResult): string[] {
  if ((first!.text ?? '').trim() === '' && first!.toolCalls.length === 0) return []
  // What Anthropic's search found goes back only beside its search: see native-search.test.ts.
  const thoughts = first!.reasoning.filter((detail) => !isWork(detail))
  const inReasoning = thoughts.flatMap(({ signature, data }) => [signature, data])
  const inCalls = first!.toolCalls.map(({ thoughtSignature }) => thoughtSignature)
  return [...inReasoning, ...inCalls].flatMap((secret) => {
    if (secret == null || secret === '') return []
    // Gemini's own tools come as parts of its answer, and go back as such.
    return [JSON.stringify(secret.startsWith('{"') ? JSON.parse(secret) : secret)]
  })
}

describe.each(folders)('$folder', ({ folder, provider }) => {
  const model = `${provider}/recorded`
  const host = hostOf(folder)
  const recordings = cases(folder).flatMap((recorded) => {
    const said = saidBy(host, recorded)
    return said ? [[recorded.id, recorded, said] as const] : []
  })

  function ask(recorded: Case, body: { input: string | ResponseInput; tools: Tool[] }): Promise<Answer> {
    const request = {
      model,
      store: false,
      include: ['reasoning.encrypted_content' as const],
      reasoning: { effort: 'low' as const },
      ...body,
    }
    return recorded.streamed
      ? client.responses.stream(request).finalResponse()
      : Promise.resolve(client.responses.create(request))
  }

  test.each(recordings)('%s arrives, and comes back with the next turn', async (_, recorded, said) => {
    playing = recorded
    const tools = toolsFor(said)
    const answer = await ask(recorded, { input: 'As it was recorded.', tools })
    compare(answer, said)
    const calls = answer.output.filter((item) => item.type === 'function_call')
    await ask(recorded, {
      tools,
      input: [
        { role: 'user', content: 'As it was recorded.' },
        ...toResponseInputItems(answer.output),
        ...calls.map(({ call_id }) => ({ type: 'function_call_output' as const, call_id, output: 'done' })),
        { role: 'user', content: 'Go on.' },
      ],
    })
    const sent = JSON.stringify(replay.requests.at(-1)!.json)
    for (const secret of secretsOf(said)) expect(sent).toContain(secret)
  })
})

/** How a client that keeps nothing of its own goes on: each is told what was said, and none is told the secrets. */
const ways: readonly (readonly [string, (answer: Answer) => { previous?: string; items: ResponseInput }])[] =
  [
    ['by its id', (answer) => ({ previous: answer.id, items: [] })],
    [
      'by the ids of its items',
      (answer) => ({ items: answer.output.map(({ id }) => ({ type: 'item_reference', id: id! })) }),
    ],
    ['with what it showed', (answer) => ({ items: toResponseInputItems(answer.output) })],
  ]

describe.each(folders)('$folder, stored', ({ folder, provider }) => {
  const host = hostOf(folder)
  const secretive = cases(folder).flatMap((recorded) => {
    const said = saidBy(host, recorded)
    return said && said.choices[0]!.toolCalls.length > 0 && secretsOf(said).length > 0
      ? [{ recorded, said }]
      : []
  })

  test.each(folder === 'openai-chat' ? [] : ways)(
    'is continued %s, and its maker gets back all of it',
    async (_, way) => {
      expect(secretive.length).toBeGreaterThan(0)
      for (const { recorded, said } of secretive) {
        playing = recorded
        const request = {
          model: `${provider}/recorded`,
          tools: toolsFor(said),
          reasoning: { effort: 'low' as const },
        }
        const stream = recorded.streamed
        const answer = stream
          ? await client.responses.stream({ ...request, input: 'As it was recorded.' }).finalResponse()
          : await client.responses.create({ ...request, input: 'As it was recorded.' })
        expect(JSON.stringify(answer)).not.toContain('encrypted_content')
        const { previous, items } = way(answer)
        const results: ResponseInput = answer.output.flatMap((item) =>
          item.type === 'function_call'
            ? [{ type: 'function_call_output' as const, call_id: item.call_id, output: 'done' }]
            : [],
        )
        const input: ResponseInput = [
          ...(previous ? [] : [{ role: 'user' as const, content: 'As it was recorded.' }]),
          ...items,
          ...results,
        ]
        const next = { ...request, input, ...(previous ? { previous_response_id: previous } : {}) }
        await (stream ? client.responses.stream(next).finalResponse() : client.responses.create(next))
        const sent = JSON.stringify(replay.requests.at(-1)!.json)
        for (const secret of secretsOf(said)) expect(sent).toContain(secret)
      }
    },
  )
})

/** The client read what the recording says: text, calls, status and counts. */
function compare(answer: Answer, said: ChatResult): void {
  const [first] = said.choices
  expect(answer.output_text).toBe(first!.text ?? '')
  const calls = answer.output.filter((item) => item.type === 'function_call')
  expect(calls.map(({ name, arguments: json }) => [name, json])).toEqual(
    first!.toolCalls.map(({ name, arguments: json }) => [name, json]),
  )
  const complete = first!.finish === 'stop' || first!.finish === 'tool_calls'
  expect(answer.status).toBe(complete ? 'completed' : 'incomplete')
  if (said.usage === undefined) return
  expect(answer.usage?.input_tokens).toBe(promptTokens(said.usage))
  expect(answer.usage?.output_tokens).toBe(completionTokens(said.usage))
  expect(answer.usage?.input_tokens_details.cached_tokens).toBe(
    said.usage.cacheRead + said.usage.cacheReadAudio,
  )
}

test('every charge of these answers is in a ledger that proves itself', () => expectAudited(weir))
