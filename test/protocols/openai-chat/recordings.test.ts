// Every recorded chat-completions exchange: what its answer is read as, wherever the network cuts it.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/outbound.ts'
import type { OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { expectGolden, summaryOf } from '../../support/golden.ts'
import {
  assertWellFormed,
  type Case,
  cases,
  framesOf,
  parseFrames,
  randomCuts,
} from '../../support/recordings.ts'
import { type Counting, dialects, quirksOf, targetOf } from './dialects.ts'

function eventsOf(recorded: Case, quirks: OpenAIChatQuirks): readonly ChatEvent[] {
  const target = targetOf(quirks)
  if (recorded.streamed) return parseFrames(outbound.parser(target), framesOf([recorded.stream()]))
  if (recorded.status < 400) return outbound.whole(recorded.response(), target)
  const fault = outbound.fault(recorded.status, recorded.headers, recorded.responseText(), target)
  return [{ kind: 'error', fault }]
}

for (const dialect of dialects) {
  const quirks = quirksOf(dialect)
  const all = cases(dialect.folder)
  const streams = all.filter((recorded) => recorded.streamed)

  // A folder without streams has nothing to say about them.
  const testStreams = (name: string, run: () => void) => streams.length > 0 && test(name, run)

  describe(`recordings of ${dialect.folder}`, () => {
    test.each(all.map((recorded) => [recorded.id, recorded] as const))('%s is well formed', (_, recorded) => {
      assertWellFormed(eventsOf(recorded, quirks))
    })

    test('every answer is read as its golden summary says', () => {
      const summaries = all.map((recorded) => [recorded.id, summaryOf(eventsOf(recorded, quirks))] as const)
      expectGolden(dialect.folder, Object.fromEntries(summaries))
    })

    test('usage is what the provider counted, in the canonical sense', () => {
      for (const recorded of all) {
        const raw = rawUsage(recorded)
        const usage = collect(eventsOf(recorded, quirks)).usage
        if (!raw) {
          expect(usage).toBeUndefined()
          continue
        }
        const expected = canonical(raw, dialect.counting)
        const read = usage && {
          prompt: promptTokens(usage),
          completion: completionTokens(usage),
          cached: usage.cacheRead,
        }
        expect({ id: recorded.id, ...read }).toEqual({ id: recorded.id, ...expected })
      }
    })

    testStreams('G19: a stream is read the same wherever the network cuts it', () => {
      for (const recorded of streams) {
        const bytes = recorded.stream()
        const whole = framesOf([bytes])
        for (const seed of [1, 2, 3, 4, 5]) expect(framesOf(randomCuts(bytes, seed))).toEqual(whole)
        if (bytes.length < 20_000) expect(framesOf(single(bytes))).toEqual(whole)
      }
    })

    testStreams('a stream that stops early is never a clean finish', () => {
      for (const recorded of streams) {
        const frames = framesOf([recorded.stream()])
        const parser = outbound.parser(targetOf(quirks))
        let over = false
        for (const [index, frame] of frames.entries()) {
          const cut = parser.end()
          const seen = frames.slice(0, index)
          if (over) expect(cut).toEqual([])
          else if (!everyChoiceFinished(seen)) expect(cut.map((event) => event.kind)).toEqual(['error'])
          else expect(['finish', 'error']).toContain(cut.at(-1)?.kind as string)
          const made = parser.push(frame)
          over ||= made.some((event) => event.kind === 'finish' || event.kind === 'error')
        }
      }
    })
  })
}

function* single(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1) yield bytes.subarray(at, at + 1)
}

/** Looks at the raw chunks alone. */
function everyChoiceFinished(frames: readonly Frame[]): boolean {
  const finished = new Map<number, boolean>()
  for (const frame of frames) {
    if (frame.data.trim() === '[DONE]') continue
    const chunk = JSON.parse(frame.data) as { choices?: { index: number; finish_reason?: string | null }[] }
    for (const choice of chunk.choices ?? []) {
      finished.set(choice.index, (finished.get(choice.index) ?? false) || Boolean(choice.finish_reason))
    }
  }
  return finished.size > 0 && [...finished.values()].every(Boolean)
}

interface RawUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly prompt_tokens_details?: { cached_tokens?: number }
  readonly completion_tokens_details?: { reasoning_tokens?: number }
  readonly cached_tokens?: number
  readonly num_cached_tokens?: number
}

/** The last usage of the raw body. */
function rawUsage(recorded: Case): RawUsage | undefined {
  if (recorded.status >= 400) return undefined
  const bodies: JsonObject[] = recorded.streamed
    ? framesOf([recorded.stream()])
        .filter((frame) => frame.data.trim() !== '[DONE]')
        .map((frame) => JSON.parse(frame.data))
    : [recorded.response() as JsonObject]
  return (
    bodies
      .map(
        (body) =>
          (body.usage ?? (body.x_groq as JsonObject | undefined)?.usage) as RawUsage | null | undefined,
      )
      .findLast((usage) => usage != null) ?? undefined
  )
}

function canonical(raw: RawUsage, counting: Counting) {
  const reasoning = raw.completion_tokens_details?.reasoning_tokens ?? 0
  const beside =
    counting === 'reasoning-beside' ||
    (counting === 'reasoning-beside-if-larger' && reasoning > raw.completion_tokens)
  const prompt =
    counting === 'prompt-from-total' ? raw.total_tokens - raw.completion_tokens : raw.prompt_tokens
  const completion =
    counting === 'completion-from-total'
      ? raw.total_tokens - raw.prompt_tokens
      : raw.completion_tokens + (beside ? reasoning : 0)
  const cached = raw.prompt_tokens_details?.cached_tokens ?? raw.cached_tokens ?? raw.num_cached_tokens ?? 0
  return { prompt, completion, cached: Math.min(cached, prompt) }
}
