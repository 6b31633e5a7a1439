// The gateway is killed between two parts of a stream that another candidate goes on with: what the first part cost is
// charged, and nothing twice.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Failpoint } from '../../../src/credits/ledger/failpoint.ts'
import { expectAudited, postAs, receiptOf, restingCredits } from '../../support/call-gateway.ts'
import { startWeir } from '../../support/run-weir.ts'
import {
  chunk,
  delta,
  headOf,
  lastChunk,
  manners,
  type ScriptedProvider,
  startScriptedProvider,
  usageEvent,
  type Wire,
} from '../../support/scripted-provider.ts'
import { tempDir } from '../../support/tmp.ts'

const usage = (prompt_tokens: number, completion_tokens: number) =>
  usageEvent({ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens })
const first = manners.start + delta({ content: 'The river runs' }) + usage(12, 3)
const second =
  manners.start + delta({ content: ' to the sea.' }) + manners.finish + usage(20, 4) + manners.done

let provider: ScriptedProvider
let begun = Promise.withResolvers<void>()

async function stream(wire: Wire, text: string): Promise<void> {
  const head = { 'content-type': 'text/event-stream', 'transfer-encoding': 'chunked', connection: 'close' }
  await wire.write(headOf(200, head))
  await wire.write(chunk(text))
}

beforeAll(async () => {
  provider = await startScriptedProvider({
    cut: async (wire) => {
      await stream(wire, first)
      await begun.promise
      wire.end()
    },
    rest: async (wire) => {
      await stream(wire, second)
      await wire.write(lastChunk)
      wire.end()
    },
  })
})

afterAll(() => provider?.stop())

const price = { input: '1', output: '2' }
const config = () =>
  JSON.stringify({
    local_servers: { discover: false },
    log: { level: 'error' },
    providers: {
      a: { protocol: 'openai-chat', base_url: provider.url, api_key: 'k' },
      b: { protocol: 'openai-chat', base_url: provider.url, api_key: 'k', quirks: { prefill: 'as-it-is' } },
    },
    models: [
      { id: 'a/cut', price, max_output_tokens: 1000 },
      { id: 'b/rest', price, max_output_tokens: 1000 },
    ],
  })

const ofFirst = '0.000018'
const ofBoth = '0.000046'

test.each([
  // dies when, and then this was paid
  ['round-ended:1', ofFirst, 'recovered'],
  ['round-begun:1', ofFirst, 'recovered'],
  ['request-sent:2', ofFirst, 'recovered'],
  ['answer-begun:2', ofFirst, 'recovered'],
  ['settle-queued:1', ofFirst, 'recovered'],
  ['end-written:1', ofFirst, 'recovered'],
  ['settle-committed:1', ofBoth, 'finished'],
] as const satisfies readonly (readonly [`${Failpoint}:${number}`, string, string])[])(
  'killed at %s, it has charged %s',
  async (failpoint, total, ending) => {
    begun = Promise.withResolvers()
    using dir = tempDir('weir-killed-')
    const dataDir = dir.join('data')
    const doomed = await startWeir({ dataDir, config: config(), env: { WEIR_TEST_FAILPOINT: failpoint } })
    const response = await postAs(`${doomed.baseUrl}/chat/completions`, doomed.key, {
      model: 'a/cut',
      models: ['b/rest'],
      provider: { continue: true },
      stream: true,
      messages: [{ role: 'user', content: 'Where?' }],
    })
    const reader = response.body!.getReader()
    await reader.read()
    begun.resolve()
    await doomed.exited
    await reader.cancel().catch(() => undefined)

    await using weir = { ...(await startWeir({ dataDir, config: config() })), key: doomed.key }
    const receipt = await receiptOf(weir, response.headers.get('x-request-id')!)
    expect(receipt).toMatchObject({ state: 'settled', ending, total, charged: total, held: '0' })
    expect((await restingCredits(weir)).total_used).toBe(total)
    await expectAudited(weir)
  },
  30_000,
)
