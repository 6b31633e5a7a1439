// Providers of other protocols at their worst: translation keeps the same promises as passing through.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { expectAudited, post, receiptOf, restingCredits } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import {
  chunk,
  event,
  lastChunk,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  streamHead,
} from '../../support/scripted-provider.ts'

const named = (type: string, fields: object = {}) => `event: ${type}\n${event({ type, ...fields })}`

/** The parts of a good stream of each protocol, and what its errors look like. */
const dialects = {
  anthropic: {
    start:
      named('message_start', {
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          usage: { input_tokens: 12, output_tokens: 1 },
        },
      }) + named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    words: named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'The river runs.' } }),
    end:
      named('content_block_stop', { index: 0 }) +
      named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } }) +
      named('message_stop'),
    error: named('error', { error: { type: 'overloaded_error', message: 'SECRET-DETAIL' } }),
    errorCode: 'overloaded',
  },
  gemini: {
    start: event({ candidates: [{ content: { role: 'model', parts: [{ text: '' }] } }] }),
    words: event({ candidates: [{ content: { role: 'model', parts: [{ text: 'The river runs.' }] } }] }),
    end: event({
      candidates: [{ content: { role: 'model', parts: [{ text: '' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 12, candidatesTokenCount: 4, totalTokenCount: 16 },
    }),
    error: event({ error: { code: 503, status: 'UNAVAILABLE', message: 'SECRET-DETAIL' } }),
    errorCode: 'overloaded',
  },
} as const
type Dialect = keyof typeof dialects

const streams =
  (...events: readonly string[]): Script =>
  async (wire) => {
    await wire.write(streamHead)
    for (const text of events) await wire.write(chunk(text))
    await wire.write(lastChunk)
    wire.end()
  }
const hangs =
  (...events: readonly string[]): Script =>
  async (wire) => {
    await wire.write(streamHead)
    for (const text of events) await wire.write(chunk(text))
  }

/** A case: its script in a dialect, and the code the client sees; `refused` before the first byte, `broken` after. */
const cases = {
  well: { script: ({ start, words, end }) => streams(start, words, end), ends: 'well' },
  crlf: {
    script: ({ start, words, end }) => streams((start + words + end).replaceAll('\n', '\r\n')),
    ends: 'well',
  },
  bytes: { script: ({ start, words, end }) => streams(...(start + words + end)), ends: 'well' },
  empty: { script: () => streams(), ends: 'refused', code: () => 'upstream_error' },
  'not-json': { script: () => streams('data: {"a\n\n'), ends: 'refused', code: () => 'upstream_error' },
  'error-first': {
    script: ({ error }) => streams(error),
    ends: 'refused',
    code: ({ errorCode }) => errorCode,
  },
  silent: { script: ({ start }) => hangs(start), ends: 'refused', code: () => 'upstream_timeout' },
  cut: { script: ({ start, words }) => streams(start, words), ends: 'broken', code: () => 'upstream_error' },
  'half-an-event': {
    script: ({ start, words, end }) => streams(start, words, end.slice(0, 30)),
    ends: 'broken',
    code: () => 'upstream_error',
  },
  'error-later': {
    script: ({ start, words, error }) => streams(start, words, error),
    ends: 'broken',
    code: ({ errorCode }) => errorCode,
  },
  'garbage-later': {
    script: ({ start, words }) => streams(start, words, 'data: {"a\n\n'),
    ends: 'broken',
    code: () => 'upstream_error',
  },
  'hangs-later': {
    script: ({ start, words }) => hangs(start, words),
    ends: 'broken',
    code: () => 'upstream_timeout',
  },
} as const satisfies Record<
  string,
  {
    script: (parts: (typeof dialects)[Dialect]) => Script
    ends: string
    code?: (parts: (typeof dialects)[Dialect]) => string
  }
>

const names = Object.keys(cases) as (keyof typeof cases)[]
const table = (Object.keys(dialects) as Dialect[]).flatMap((dialect) =>
  names.map((name) => [dialect, name] as const),
)

const providers: Partial<Record<Dialect, ScriptedProvider>> = {}
let weir: ServedWeir

beforeAll(async () => {
  for (const dialect of Object.keys(dialects) as Dialect[]) {
    const scripts = Object.fromEntries(names.map((name) => [name, cases[name].script(dialects[dialect])]))
    // Gemini names the model in the path: one provider that tells the cases by the last message serves both.
    providers[dialect] = await startScriptedProvider(
      {},
      (body) => scripts[/case:([a-z-]+)/.exec(JSON.stringify(body))?.[1] ?? ''],
    )
  }
  weir = await serveWeir({
    config: `
local_servers: { discover: false }
limits: { attempts: 1 }
timeouts: { first_byte_ms: 400, first_byte_reasoning_ms: 400, gap_ms: 400 }
providers:
  anthropic-lab: { protocol: anthropic-messages, base_url: "${providers.anthropic!.url}", api_key: x }
  gemini-lab: { protocol: gemini, base_url: "${providers.gemini!.url}", api_key: x }
models:
  - { id: anthropic-lab/m, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
  - { id: gemini-lab/m, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
`,
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  for (const provider of Object.values(providers)) await provider.stop()
})

describe('a translated stream', () => {
  test.each(table)('of %s that is %s ends once, in the open, at its price', async (dialect, name) => {
    const { ends, ...rest } = cases[name]
    const before = Number((await restingCredits(weir)).total_used)
    const messages = [{ role: 'user', content: `case:${name}` }]
    const answer = await post(weir, { model: `${dialect}-lab/m`, messages, max_tokens: 500, stream: true })
    const credits = await restingCredits(weir)
    const used = Number(credits.total_used) - before
    expect(credits).toMatchObject({ held: '0', debt: '0' })
    expect(answer.text).not.toContain('SECRET-DETAIL')
    const receipt = await receiptOf(weir, answer.requestId)
    const code = 'code' in rest ? rest.code(dialects[dialect]) : undefined
    expect(answer.error?.code).toBe(code)
    if (ends === 'refused') {
      expect(answer.status).toBeGreaterThanOrEqual(429)
      expect(used).toBe(0)
      expect(receipt?.state).toBe('voided')
      return
    }
    expect(answer.content).toBe('The river runs.')
    expect(answer.finishes).toEqual([ends === 'well' ? 'stop' : 'error'])
    expect(answer.events.filter((data) => data === '[DONE]')).toHaveLength(1)
    expect(answer.events.at(-1)).toBe('[DONE]')
    expect(receipt).toMatchObject({ state: 'settled', usage: { estimated: ends !== 'well' } })
    expect(used).toBeGreaterThan(0)
    expect(used).toBeLessThan(0.0021)
    if (ends === 'well') expect(receipt?.usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 4 })
  })

  test('leaves balanced books', () => expectAudited(weir))
})
