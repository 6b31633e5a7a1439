// Golden files: what each recorded answer is read as, one file per folder of recordings, so that a change of
// behaviour shows as a diff. `UPDATE_GOLDEN=1 bun test …` writes them anew.

import { expect } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChatEvent, collect, type Fault } from '../../src/conversation/event.ts'
import type { Json, JsonObject, ToolCall } from '../../src/conversation/request.ts'
import type { Usage } from '../../src/conversation/usage.ts'

const goldenDir = join(import.meta.dir, '../fixtures/golden')

/** Compares with the golden file of this name, or writes it when asked to. */
export function expectGolden(name: string, actual: JsonObject): void {
  const file = join(goldenDir, `${name}.json`)
  if (Bun.env.UPDATE_GOLDEN === '1') {
    mkdirSync(goldenDir, { recursive: true })
    writeFileSync(file, `${JSON.stringify(actual, null, 2)}\n`)
    return
  }
  if (!existsSync(file)) throw new Error(`no golden file ${name}.json; write it with UPDATE_GOLDEN=1`)
  expect(actual).toEqual(JSON.parse(readFileSync(file, 'utf8')))
}

/** An answer in few words: long texts as their length and digest, counters that are zero left out. */
export function summaryOf(events: readonly ChatEvent[]): JsonObject {
  const result = collect(events)
  return {
    id: result.id ?? null,
    model: result.model ?? null,
    choices: result.choices.map((choice) => ({
      text: digest(choice.text),
      ...(choice.refusal === null ? {} : { refusal: choice.refusal }),
      ...(choice.reasoning.length === 0
        ? {}
        : {
            reasoning: choice.reasoning.map((detail) =>
              [
                detail.type,
                detail.format,
                digest(detail.text ?? detail.summary ?? detail.data ?? null),
                ...(detail.signature ? [`signed ${digest(detail.signature)}`] : []),
              ].join(' '),
            ),
          }),
      ...(choice.toolCalls.length === 0 ? {} : { calls: choice.toolCalls.map(callWords) }),
      ...(choice.annotations.length === 0
        ? {}
        : { annotations: choice.annotations.map(({ url, start, end }) => `${start}-${end} ${url}`) }),
      ...(choice.images.length === 0 ? {} : { images: choice.images.length }),
      ...(choice.audio === null
        ? {}
        : { audio: `${choice.audio.data?.length} ${digest(choice.audio.transcript ?? null)}` }),
      ...(choice.logprobs === null ? {} : { logprobs: choice.logprobs.content.length }),
      finish: `${choice.finish} (${choice.nativeFinish})`,
    })),
    usage: result.usage === undefined ? null : nonZero(wireOf(result.usage)),
    ...(result.fault === undefined
      ? {}
      : {
          fault: `${result.fault.kind} ${result.fault.status ?? '-'}: ${result.fault.message.slice(0, 120)}`,
          ...namesIn(result.fault),
        }),
  }
}

/** Ids that the gateway made are left out: of an answer without one of its own they are random. */
function callWords({ id, name, arguments: json, thoughtSignature }: ToolCall): string {
  return `${id.startsWith('weir_') ? 'weir_*' : id} ${name}(${json})${thoughtSignature === undefined ? '' : ` signed ${digest(thoughtSignature)}`}`
}

/** What a fault names beside its message. */
function namesIn({ providerCode: code, param, retryAfterMs }: Fault): JsonObject {
  return {
    ...(code === undefined ? {} : { code }),
    ...(param === undefined ? {} : { param }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}

function nonZero(counters: Record<string, Json | undefined>): JsonObject {
  const kept = Object.entries(counters).filter(
    ([, value]) => value !== 0 && value !== undefined && JSON.stringify(value) !== '{}',
  )
  return Object.fromEntries(kept) as JsonObject
}

function digest(text: string | null): string | null {
  if (text === null || text.length <= 40) return text
  const hash = new Bun.CryptoHasher('sha256').update(text).digest('hex').slice(0, 12)
  return `${text.length} characters, sha256 ${hash}`
}

function wireOf({ uncounted, toolCalls, ...usage }: Usage): Record<string, Json | undefined> {
  return { ...usage, toolCalls: { ...toolCalls }, ...(uncounted && { uncounted: [...uncounted] }) }
}
