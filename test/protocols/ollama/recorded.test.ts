// Every recorded exchange with Ollama's own chat API, parsed.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { ChatRequest, JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/ollama/ollama.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { assertWellFormed, type Case, cases, parseFrames } from '../../support/recordings.ts'
import { testStreams } from '../../support/stream-promises.ts'
import { linesOf, target } from './support.ts'

const all = cases('ollama-native')
const good = all.filter((one) => one.status === 200)
const streams = good.filter((one) => one.streamed)
const parser = () => outbound.parser(target())

function eventsOf(one: Case): readonly ChatEvent[] {
  return one.streamed
    ? parseFrames(parser(), linesOf([one.stream()]))
    : outbound.whole(one.response(), target())
}

interface Line {
  message: { content: string; thinking?: string; tool_calls?: { id?: string; function: JsonObject }[] }
  done_reason?: string
  prompt_eval_count?: number
  eval_count?: number
}

/** The lines as they were sent, read without any of our code. */
function rawLines(one: Case): Line[] {
  if (!one.streamed) return [one.response() as unknown as Line]
  const text = new TextDecoder().decode(one.stream())
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)
}

test('the recordings are the ones this file was written for', () => {
  expect([good.length - streams.length, streams.length, all.length - good.length]).toEqual([4, 6, 1])
})

describe.each(good.map((one) => [one.id, one] as const))('%s', (_, one) => {
  const events = eventsOf(one)
  const result = collect(events)
  const choice = result.choices[0]!
  const lines = rawLines(one)
  const calls = lines.flatMap((line) => line.message.tool_calls ?? [])

  test('keeps the invariants and ends well', () => {
    assertWellFormed(events)
    expect(events.at(-1)).toEqual({ kind: 'finish' })
    expect(choice.finish === 'tool_calls').toBe(calls.length > 0)
    expect(choice.nativeFinish).toBe(lines.at(-1)!.done_reason!)
  })

  test('says what the lines say', () => {
    expect(choice.text ?? '').toBe(lines.map((line) => line.message.content).join(''))
    expect(choice.reasoning.map((detail) => detail.text).join('')).toBe(
      lines.map((line) => line.message.thinking ?? '').join(''),
    )
    expect(
      choice.toolCalls.map(({ id, name, arguments: json }) => ({ id, name, input: JSON.parse(json) })),
    ).toEqual(
      calls.map((call) => ({
        id: call.id!,
        name: call.function.name,
        input: call.function.arguments,
      })) as never,
    )
  })

  test('counts what the last line counts', () => {
    expect(promptTokens(result.usage!)).toBe(lines.at(-1)!.prompt_eval_count!)
    expect(completionTokens(result.usage!)).toBe(lines.at(-1)!.eval_count!)
  })
})

testStreams(streams, { frames: linesOf, parser })

test('the model that is not there is not found', () => {
  const one = all.find((each) => each.status === 404)!
  expect(outbound.fault(404, one.headers, one.responseText(), target())).toMatchObject({
    kind: 'not-found',
    message: "model 'nonexistent-model:latest' not found",
  })
})

describe('recorded requests', () => {
  /** A client's words for the recorded request: the same but for where options and formats stand. */
  function asClient({ options, format, think, messages, ...same }: JsonObject): ChatRequest {
    const { num_predict, think: _misplaced, ...sampling } = (options ?? {}) as JsonObject
    return inbound
      .parse({
        ...same,
        ...sampling,
        model: 'ollama/any',
        stream: same.stream ?? true,
        messages: (messages as JsonObject[]).map(clientMessage),
        ...(num_predict === undefined ? {} : { max_tokens: num_predict }),
        ...(format === 'json' ? { response_format: { type: 'json_object' } } : {}),
        ...(think === undefined ? {} : { reasoning: { enabled: think } }),
      })
      .toChatRequest()
  }

  function clientMessage(message: JsonObject): JsonObject {
    if (message.role === 'tool') return { ...message, tool_call_id: 'c1' }
    const calls = message.tool_calls as { function: JsonObject }[] | undefined
    if (!calls) return message
    const asText = ({ name, arguments: input }: JsonObject) => ({
      name: name!,
      arguments: JSON.stringify(input),
    })
    return {
      ...message,
      tool_calls: calls.map((call) => ({ id: 'c1', type: 'function', function: asText(call.function) })),
    }
  }

  /** Without what says nothing (empty tools, options, formats) and what only newer versions know. */
  function plain({ tools, options, format, keep_alive, truncate, ...body }: JsonObject): JsonObject {
    const { think: _misplaced, ...said } = (options ?? {}) as JsonObject
    const messages = (body.messages as JsonObject[]).map(({ tool_name, tool_call_id, ...message }) => ({
      ...message,
      ...(message.tool_calls
        ? { tool_calls: (message.tool_calls as JsonObject[]).map(({ id, ...call }) => call) }
        : {}),
    }))
    return {
      ...body,
      messages,
      stream: body.stream ?? true,
      options: said,
      ...(Array.isArray(tools) && tools.length > 0 ? { tools } : {}),
      ...(format ? { format } : {}),
    }
  }

  test.each(all.filter((one) => one.request).map((one) => [one.id, one] as const))(
    '%s is what lowering makes',
    (_, one) => {
      const { body, path } = outbound.lower(
        asClient(one.request!),
        target({ model: String(one.request!.model) }),
      )
      expect(plain(body)).toEqual(plain(one.request!))
      expect(path).toBe(new URL(one.meta.url).pathname)
    },
  )
})
