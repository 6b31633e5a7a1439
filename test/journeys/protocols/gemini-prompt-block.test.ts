// A prompt that Google's filters refuse: an answer without candidates, and so it is to clients of Google's protocol.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { cases } from '../../support/recordings.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { type Replay, replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const counted = {
  promptFeedback: { blockReason: 'PROHIBITED_CONTENT' },
  usageMetadata: { promptTokenCount: 120, totalTokenCount: 120 },
  modelVersion: 'gemini-2.5-flash',
}
const armored = cases('vertex-gemini').find(({ id }) => id.endsWith('pai10a059'))!

function answerTo(path: string): Replay {
  if (path.includes('/armored:generateContent')) return replayOf(armored)
  const body = path.includes('/armored:') ? armored.responseText() : JSON.stringify(counted)
  const streams = path.includes(':stream')
  const frame = `data: ${JSON.stringify(JSON.parse(body))}\n\n`
  return {
    status: 200,
    headers: { 'content-type': streams ? 'text/event-stream' : 'application/json' },
    body: new TextEncoder().encode(streams ? frame : body),
  }
}

let provider: ReplayServer
let weir: ServedWeir
let google: GoogleGenAI

beforeAll(async () => {
  provider = startReplayServer(({ path }) => answerTo(path))
  weir = await serveWeir({
    config: JSON.stringify({
      providers: { gemini: { base_url: provider.url, api_key: 'key-of-google-0123456789' } },
      models: ['armored', 'counted'].map((name) => ({
        id: `gemini/${name}`,
        price: { input: '1', output: '2' },
        max_output_tokens: 1000,
      })),
    }),
  })
  google = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: weir.origin } })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

describe('a prompt that is blocked', () => {
  const contents = 'Say it.'

  test('has no candidates, and says why in the provider’s words', async () => {
    const answer = await google.models.generateContent({ model: 'armored', contents })
    expect(answer.candidates).toBeUndefined()
    expect(answer.promptFeedback as unknown).toEqual({
      blockReason: 'MODEL_ARMOR',
      blockReasonMessage: 'The prompt violated Prompt Injection and Jailbreak filters.',
    })
    expect(answer.text).toBeUndefined()
  })

  test('is charged as it was counted', async () => {
    const answer = await google.models.generateContent({ model: 'counted', contents })
    expect(answer.promptFeedback as unknown).toEqual({ blockReason: 'PROHIBITED_CONTENT' })
    expect(answer.usageMetadata).toMatchObject({ promptTokenCount: 120, candidatesTokenCount: 0 })
    expect(await receiptOf(weir, answer.responseId!)).toMatchObject({
      ending: 'finished',
      charged: '0.00012',
    })
  })

  test('streams as one chunk without candidates', async () => {
    const chunks = await Array.fromAsync(
      await google.models.generateContentStream({ model: 'counted', contents }),
    )
    expect(chunks.map(({ candidates }) => candidates)).toEqual([undefined])
    expect(chunks[0]!.promptFeedback as unknown).toEqual({ blockReason: 'PROHIBITED_CONTENT' })
    expect(chunks[0]!.usageMetadata).toMatchObject({ promptTokenCount: 120 })
  })

  test('ends the answer with content_filter for other clients', async () => {
    const client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
    const { choices } = await client.chat.completions.create({
      model: 'gemini/counted',
      messages: [{ role: 'user', content: contents }],
    })
    expect(choices).toMatchObject([{ finish_reason: 'content_filter', message: { content: null } }])
  })
})
