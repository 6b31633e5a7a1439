// Every recorded response: what it is read as, wherever the network cuts it or breaks it off.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import { expectGolden, summaryOf } from '../../support/golden.ts'
import { assertWellFormed, cases, framesOf, randomCuts } from '../../support/recordings.ts'
import { type Answer, answersOf, choiceOf, dialects, outputOf, target } from './support.ts'

/** Sorted among the responses by its source, but a chat completion: an answer in the wrong protocol. */
const wrongProtocol = /json-reasoning--deepseek-v4-pro--vaif46773/

for (const { folder, quirks } of dialects) {
  const all = cases(folder).flatMap((recorded) => answersOf(recorded, quirks))
  const answered = all.filter(
    ({ name, recorded, response }) =>
      recorded.status < 400 && response.status !== 'failed' && !wrongProtocol.test(name),
  )
  const streams = all.filter((answer) => answer.frames !== undefined)

  describe(`recordings of ${folder}`, () => {
    test.each(all.map((answer) => [answer.name, answer] as const))('%s is well formed', (_, answer) => {
      assertWellFormed(answer.events)
    })

    test('every answer is read as its golden summary says', () => {
      expectGolden(folder, Object.fromEntries(all.map(({ name, events }) => [name, summaryOf(events)])))
    })

    test('every answer that is one finishes, with its text, its calls and its id', () => {
      for (const answer of answered) {
        expect({ name: answer.name, last: answer.events.at(-1)!.kind }).toEqual({
          name: answer.name,
          last: 'finish',
        })
        const choice = choiceOf(answer.events)
        expect({ name: answer.name, text: choice.text ?? '' }).toEqual({
          name: answer.name,
          text: rawText(answer),
        })
        expect(choice.toolCalls.map((call) => [call.id, call.name, call.arguments])).toEqual(rawCalls(answer))
        expect(collect(answer.events).id).toBe(answer.response.id as string)
      }
    })

    test('usage is what the provider counted, in the canonical sense', () => {
      for (const { name, events, response } of answered) {
        const usage = collect(events).usage!
        const raw = response.usage as Record<string, number> & Record<string, Record<string, number>>
        expect({
          name,
          prompt: promptTokens(usage),
          completion: completionTokens(usage),
          cached: usage.cacheRead,
          written: usage.cacheWrite5m,
          reasoning: usage.reasoning,
        }).toEqual({
          name,
          prompt: raw.input_tokens as number,
          completion: raw.output_tokens as number,
          cached: raw.input_tokens_details?.cached_tokens ?? 0,
          written: raw.input_tokens_details?.cache_write_tokens ?? 0,
          reasoning: raw.output_tokens_details?.reasoning_tokens ?? 0,
        })
      }
    })

    test('sources stand where the text cites them', () => {
      for (const { name, events } of answered) {
        const choice = choiceOf(events)
        for (const { url, start, end } of choice.annotations) {
          if (start === 0 && end === 0) continue
          expect({ name, cited: choice.text!.slice(start, end) }).toEqual({
            name,
            cited: expect.stringContaining(url.slice(0, 30)),
          })
        }
      }
    })

    if (streams.length === 0) return

    test('a stream is read the same wherever the network cuts it', () => {
      for (const recorded of new Set(streams.map((answer) => answer.recorded))) {
        const bytes = recorded.stream()
        const whole = framesOf([bytes])
        for (const seed of [1, 2, 3]) expect(framesOf(randomCuts(bytes, seed))).toEqual(whole)
      }
    })

    test('a stream that breaks off at any event is an error, never a finish', () => {
      for (const { name, frames } of streams) {
        const parser = outbound.parser(target(quirks))
        for (const frame of frames!) {
          const events = parser.push(frame)
          const ended = events.some((event) => event.kind === 'finish' || event.kind === 'error')
          const rest = parser.end()
          expect({ name, ended, rest: rest.map((event) => event.kind) }).toEqual({
            name,
            ended,
            rest: ended ? [] : ['error'],
          })
          if (ended) break
          expect(rest[0]).toMatchObject({ fault: { kind: 'cut' } })
        }
      }
    })

    test('a stream says no more than the response at its end', () => {
      for (const { name, events, response } of streams.filter((answer) => answered.includes(answer))) {
        const streamed = choiceOf(events)
        const whole = choiceOf(outbound.whole(response, target(quirks)))
        const plain = ({ reasoning, logprobs, ...rest }: typeof whole) => ({
          ...rest,
          logprobs: logprobs?.content.length ?? 0,
          // Encrypted once more at the end of the response, with other bytes for the same content; OpenRouter's
          // items get other ids there.
          reasoning: reasoning.map((detail) => ({ ...detail, id: '', data: detail.data?.length })),
        })
        expect({ name, ...plain(streamed) }).toEqual({ name, ...plain(whole) })
      }
    })
  })
}

function rawText({ response }: Answer): string {
  return outputOf(response)
    .filter((item) => item.type === 'message')
    .flatMap((item) => item.content as JsonObject[])
    .map((part) => (part.type === 'output_text' ? (part.text as string) : ''))
    .join('')
}

function rawCalls({ response }: Answer): string[][] {
  return outputOf(response)
    .filter((item) => item.type === 'function_call')
    .map((item) => [item.call_id, item.name, item.arguments] as string[])
}

test('what the provider refused is a fault of the right kind', () => {
  const kinds = Object.fromEntries(
    dialects
      .flatMap(({ folder, quirks }) => cases(folder).flatMap((recorded) => answersOf(recorded, quirks)))
      .flatMap(({ name, events }) => {
        const fault = collect(events).fault
        return fault ? [[name.split('--').slice(0, -1).join('--'), fault.kind]] : []
      }),
  )
  expect(kinds).toEqual({
    'openai-responses/http-error-400--gpt-5.2-proo': 'not-found',
    'openai-responses/http-error-400--this-model-does-not-exist': 'not-found',
    'openai-responses/http-error-401--gpt-4.1': 'credentials',
    'openai-responses/http-error-429--': 'quota',
    'openai-responses/stream-midstream-error--gpt-5-nano-2025-08-07': 'quota',
    'azure-responses/json-reasoning--deepseek-v4-pro': 'broken',
    'xai-responses/http-error-400--grok-4.3': 'credentials',
    'deepseek-responses/http-error-400--deepseek-v4-flash': 'invalid-request',
  })
})

test('searches that the provider ran are counted: not the pages it opened', () => {
  const searches = dialects.flatMap(({ folder, quirks }) =>
    cases(folder)
      .flatMap((recorded) => answersOf(recorded, quirks))
      .flatMap(({ name, events }) => {
        const count = collect(events).usage?.toolCalls.web_search
        return count === undefined ? [] : [[name.replace(/--[^-]*$/, ''), count]]
      }),
  )
  expect(Object.fromEntries(searches)).toEqual({
    'openai-responses/json-server-tool--gpt-4o': 1,
    'openai-responses/json-server-tool--gpt-5.2': 1,
    'openai-responses/stream-server-tool--gpt-4.1': 1,
    'openai-responses/stream-server-tool-reasoning-sig--gpt-5': 1,
    'azure-responses/json-server-tool--gpt-4.1-mini': 2,
    'xai-responses/json-server-tool--grok-4-fast-reasoning': 1,
    'xai-responses/json-server-tool-reasoning-sig--grok-4.3': 2,
    'xai-responses/stream-server-tool--grok-4-fast-reasoning': 1,
    'deepseek-responses/json-server-tool-reasoning--deepseek-v4-flash': 1,
  })
})

test("xAI's and OpenRouter's own figure of the cost is kept", () => {
  const costs = ['xai-responses', 'openrouter-responses'].flatMap((folder) => {
    const { quirks } = dialects.find((dialect) => dialect.folder === folder)!
    return cases(folder).flatMap((recorded) =>
      answersOf(recorded, quirks).map(({ events, response }) => {
        const raw = response.usage as { cost_in_usd_ticks?: number; cost?: number } | undefined
        const told =
          raw?.cost ?? (raw?.cost_in_usd_ticks === undefined ? undefined : raw.cost_in_usd_ticks / 1e10)
        return [told, Number(collect(events).usage?.reportedCost ?? Number.NaN)] as const
      }),
    )
  })
  const known = costs.filter(([told]) => told !== undefined)
  expect(known.length).toBeGreaterThan(15)
  for (const [told, read] of known) expect(read).toBeCloseTo(told!, 11)
})
