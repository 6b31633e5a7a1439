// The official client of the protocol takes the simulated provider for the real thing.

import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { simulate } from '../../src/providers/simulator/simulator.ts'

const client = new OpenAI({
  apiKey: 'none',
  baseURL: 'http://sim/v1',
  maxRetries: 0,
  fetch: (url, init) => simulate(new Request(url as string, init as RequestInit)),
})
const messages = [{ role: 'user' as const, content: 'What is the weather in Oslo?' }]
const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    description: 'The weather of a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

/** What a call throws. The client's promises are of a kind that `expect().rejects` cannot look into. */
const failure = (call: PromiseLike<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('the official client', () => {
  test('collects a stream into the answer it would have had whole', async () => {
    const whole = await client.chat.completions.create({ model: 'reason', messages })
    const streamed = await client.chat.completions.stream({ model: 'reason', messages }).finalChatCompletion()
    expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]!.message.content)
    expect(streamed.choices[0]?.finish_reason).toBe('stop')
  })

  test('collects parallel calls out of their deltas', async () => {
    const second = { ...weather, function: { ...weather.function, name: 'forecast' } }
    const stream = client.chat.completions.stream({ model: 'tools', messages, tools: [weather, second] })
    const { choices } = await stream.finalChatCompletion()
    const calls = choices[0]?.message.tool_calls ?? []
    expect(
      calls.map(
        (call) => call.type === 'function' && [call.function.name, JSON.parse(call.function.arguments)],
      ),
    ).toEqual([
      ['weather', { city: 'sample city' }],
      ['forecast', { city: 'sample city' }],
    ])
    expect(new Set(calls.map((call) => call.id)).size).toBe(2)
  })

  test('runs its tool loop to an end', async () => {
    const runner = client.chat.completions.runTools({
      model: 'tools',
      messages,
      tools: [
        {
          type: 'function',
          function: {
            ...weather.function,
            parse: (text: string) => JSON.parse(text) as { city: string },
            function: ({ city }: { city: string }) => `rain in ${city}`,
          },
        },
      ],
    })
    expect(await runner.finalContent()).toBe('weather answered: rain in sample city')
  })

  test('parses a structured answer into its type', async () => {
    const Report = z.object({
      city: z.string(),
      days: z.array(z.object({ sky: z.enum(['clear', 'rain']), high: z.number().nullable() })),
    })
    const { choices } = await client.chat.completions.parse({
      model: 'json',
      messages,
      response_format: zodResponseFormat(Report, 'report'),
    })
    expect(choices[0]?.message.parsed).toEqual({ city: 'sample city', days: [{ sky: 'clear', high: 1 }] })
  })

  test.each([
    ['error-429', OpenAI.RateLimitError],
    ['error-500', OpenAI.InternalServerError],
  ])('throws its own error for %s', async (model, kind) => {
    expect(await failure(client.chat.completions.create({ model, messages }))).toBeInstanceOf(kind)
  })

  test('throws when a bad request is refused, and names the field', async () => {
    const refused = client.chat.completions.create({ model: 'echo', messages: [] })
    expect(await failure(refused)).toMatchObject({ status: 400, param: 'messages' })
  })
})
