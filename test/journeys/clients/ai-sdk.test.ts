// What the AI SDK and the official client make of a chat stream that breaks off: an error, never an answer that looks
// finished.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { type LanguageModel, streamText } from 'ai'
import OpenAI from 'openai'
import { type Lab, startLab } from '../../chat/lab.ts'
import { type Script, type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'
import { failure } from '../../support/call-gateway.ts'

const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n'
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
const begun = head + chunk({ role: 'assistant', content: 'Hel' })

const scripts: Readonly<Record<string, Script>> = {
  well: async (wire) => {
    await wire.write(`${begun}${chunk({ content: 'lo' })}${chunk({}, 'stop')}data: [DONE]\n\n`)
    wire.end()
  },
  cut: async (wire) => {
    await wire.write(begun)
    wire.end()
  },
  reset: async (wire) => {
    await wire.write(begun)
    wire.reset()
  },
  error: async (wire) => {
    await wire.write(`${begun}data: {"error":{"message":"the GPU fell over","code":500}}\n\n`)
    wire.end()
  },
}
const broken = ['cut', 'reset', 'error'] as const

let provider: ScriptedProvider
let lab: Lab

beforeAll(async () => {
  provider = await startScriptedProvider(scripts)
  lab = await startLab({
    providers: { lab: provider.url },
    models: Object.fromEntries(Object.keys(scripts).map((name) => [`lab/${name}`, [`lab/${name}`]])),
  })
}, 30_000)

afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

/** The models of the SDK that speak to the gateway, by the provider package and protocol they are of. */
const models: Readonly<Record<string, (name: string) => LanguageModel>> = {
  '@ai-sdk/openai .chat()': (name) => openai().chat(`lab/${name}`),
  '@ai-sdk/openai .responses()': (name) => openai().responses(`lab/${name}`),
  '@ai-sdk/openai-compatible': (name) =>
    createOpenAICompatible({ name: 'weir', baseURL: lab.weir.baseUrl, apiKey: lab.weir.key })(`lab/${name}`),
}

function openai() {
  return createOpenAI({ baseURL: lab.weir.baseUrl, apiKey: lab.weir.key })
}

async function streamed(model: LanguageModel) {
  const errors: unknown[] = []
  let text = ''
  let finish: string | undefined
  const result = streamText({ model, prompt: 'Hi', maxRetries: 0, onError: () => undefined })
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') text += part.text
    if (part.type === 'error') errors.push(part.error)
    if (part.type === 'finish') finish = part.finishReason
  }
  return { text, errors, finish }
}

describe.each(Object.keys(models))('%s', (sdk) => {
  test('reads a stream that ends well', async () => {
    expect(await streamed(models[sdk]!('well'))).toEqual({ text: 'Hello', errors: [], finish: 'stop' })
  })

  test.each(broken)('sees that a stream broke off: %s', async (how) => {
    const { text, errors, finish } = await streamed(models[sdk]!(how))
    expect(text).toBe('Hel')
    expect(errors).toHaveLength(1)
    expect(finish).not.toBe('stop')
  })
})

describe('openai', () => {
  test.each(broken)('throws where a stream broke off: %s', async (how) => {
    const client = new OpenAI({ baseURL: lab.weir.baseUrl, apiKey: lab.weir.key, maxRetries: 0 })
    const stream = await client.chat.completions.create({
      model: `lab/${how}`,
      stream: true,
      messages: [{ role: 'user', content: 'Hi' }],
    })
    const seen: (string | null)[] = []
    const reading = (async () => {
      for await (const { choices } of stream) seen.push(...choices.map(({ finish_reason }) => finish_reason))
    })()
    const thrown = await failure(reading)
    expect(thrown).toBeInstanceOf(OpenAI.APIError)
    expect(seen.at(-1) as string).toBe('error')
  })
})
