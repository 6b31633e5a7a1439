// Recorded providers behind the gateway, read by the official client: what a provider once said arrives as chat
// completions, and its receipt adds up to the picodollar.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import type { ChatCompletion } from 'openai/resources/chat/completions'
import type { ChatResult } from '../../../src/conversation/event.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { parseUsd } from '../../../src/credits/money.ts'
import { exactParts, getAs } from '../../support/call-gateway.ts'
import { type Case, cases } from '../../support/recordings.ts'
import { replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import { runWeir, type ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { recordedAnswer, recordedConfig } from './recorded-gateway.ts'

const folders = [
  { folder: 'openai-chat', provider: 'recorded-openai', protocol: 'openai-chat' },
  { folder: 'anthropic', provider: 'anthropic', protocol: 'anthropic-messages' },
  { folder: 'gemini', provider: 'gemini', protocol: 'gemini' },
] as const

let playing: Case
let replay: ReplayServer
let weir: ServedWeir
let client: OpenAI

beforeAll(async () => {
  replay = startReplayServer(() => replayOf(playing))
  weir = await serveWeir({ config: recordedConfig(folders, replay.url) })
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
})

/** The cases of a folder that answered well, streamed or whole. */
function answered(folder: string, streamed: boolean): Case[] {
  return cases(folder).filter((recorded) => recorded.status === 200 && recorded.streamed === streamed)
}

const question = [{ role: 'user' as const, content: 'As it was recorded.' }]

describe.each(folders)('$folder', ({ folder, provider, protocol }) => {
  const model = `${provider}/recorded`
  const named = (streamed: boolean) =>
    answered(folder, streamed).map((recorded) => [recorded.id, recorded] as const)

  /** Plays a recording to the client, asking for as many answers as it has, and checks what the client makes of it. */
  async function read(recorded: Case, ask: (n: number) => PromiseLike<ChatCompletion>): Promise<void> {
    const said = recordedAnswer(recorded, protocol)
    playing = recorded
    const answer: unknown = await ask(protocol === 'openai-chat' ? Math.max(1, said.choices.length) : 1).then(
      (completion) => completion,
      (error: unknown) => error,
    )
    if (said.fault) {
      expect(answer).toBeInstanceOf(OpenAI.APIError)
      return
    }
    if (answer instanceof Error) throw answer
    compare(answer as ChatCompletion, said)
    expectLinesAddUp((answer as ChatCompletion).usage)
  }

  test.each(named(true))('streams %s', (_, recorded) =>
    read(recorded, (n) => {
      const options = { model, messages: question, n, stream_options: { include_usage: true } }
      return client.chat.completions.stream(options).finalChatCompletion()
    }),
  )

  test.each(named(false))('answers %s', (_, recorded) =>
    read(recorded, (n) => client.chat.completions.create({ model, messages: question, n })),
  )
})

/** The client read what the recording says: text, calls, finish and counts. */
function compare(answer: ChatCompletion, said: ChatResult): void {
  expect(answer.choices.map(({ message }) => message.content ?? '')).toEqual(
    said.choices.map((choice) => choice.text ?? ''),
  )
  const calls = answer.choices.flatMap(({ message }) => message.tool_calls ?? [])
  expect(
    calls.map((call) =>
      call.type === 'function' ? [call.function.name, JSON.parse(call.function.arguments)] : [],
    ),
  ).toEqual(
    said.choices.flatMap((choice) => choice.toolCalls).map((call) => [call.name, JSON.parse(call.arguments)]),
  )
  expect(answer.choices.map(({ finish_reason }): string => finish_reason)).toEqual(
    said.choices.map((choice) => choice.finish ?? 'none'),
  )
  if (said.usage === undefined) return
  expect(answer.usage?.prompt_tokens).toBe(promptTokens(said.usage))
  expect(answer.usage?.completion_tokens).toBe(completionTokens(said.usage))
}

/** The parts of the cost that the answer told are its total, to the picodollar. */
function expectLinesAddUp(usage: unknown): void {
  const { cost_details: details } = usage as { cost_details: Record<string, string> }
  const { total, ...parts } = details
  const sum = exactParts(parts).reduce((amount, part) => amount + parseUsd(part)!, 0n)
  expect(sum).toBe(parseUsd(total!)!)
}

test('every charge of these answers is in a ledger that proves itself', async () => {
  const audit = await runWeir(['ledger', 'audit', '--data-dir', weir.dataDir, '--json'])
  expect(JSON.parse(audit.stdout)).toMatchObject({ ok: true })
  const credits = await getAs(`${weir.baseUrl}/credits`, weir.key)
  const { data } = (await credits.json()) as { data: { held: string; total_used: string } }
  expect(data.held).toBe('0')
  expect(parseUsd(data.total_used)! > 0n).toBe(true)
})
