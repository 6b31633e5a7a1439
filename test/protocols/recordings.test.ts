// What every protocol promises of every recorded exchange. Which those are, what each one says and which are excused is
// the table in `recorded-hosts.ts`.

import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { type ChatEvent, type ChatResult, type Choice, collect } from '../../src/conversation/event.ts'
import { completionTokens, promptTokens, type Usage } from '../../src/conversation/usage.ts'
import { isWork } from '../../src/protocols/claude/tools.ts'
import type { Frame } from '../../src/protocols/framing/sse.ts'
import { expectGolden, summaryOf } from '../support/golden.ts'
import { assertWellFormed, type Case, randomCuts, recordingsDir } from '../support/recordings.ts'
import {
  endedAnswers,
  type Counted,
  decodedEvents,
  excuses,
  failure,
  type Feature,
  framesIn,
  hostsOf,
  recordedAnswers,
  recordedHosts,
  responseIn,
  type Said,
  saidBy,
  spokenBy,
} from './recorded-hosts.ts'

test('most recordings end well', () => {
  expect(endedAnswers().length).toBeGreaterThan(400)
})

test('every folder of recordings is read by a protocol', () => {
  const folders = readdirSync(recordingsDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
  expect(recordedHosts.map(({ folder }) => folder).toSorted()).toEqual(folders.toSorted())
})

describe.each(recordedHosts.map((host) => [host.folder, host] as const))(
  'recordings of %s',
  (folder, host) => {
    const answers = recordedAnswers([host])
    const streams = answers.filter(({ frames }) => frames !== undefined)

    test('are answers of one end each, whose calls and counts are whole', () => {
      for (const { name, events } of answers) {
        expect([name, brokenRule(events)]).toEqual([name, undefined])
      }
    })

    test('are read as their golden summaries say', () => {
      expectGolden(
        folder,
        Object.fromEntries(
          answers.map(({ name, events }) => [name.slice(folder.length + 1), summaryOf(events)]),
        ),
      )
    })

    test('say what the provider said and count what it counted', () => {
      for (const answer of answers) {
        const said = saidBy(answer)
        if (said === undefined) continue
        const { name } = answer
        expect({ name, last: answer.events.at(-1)!.kind, ...readOf(answer.events) }).toMatchObject({
          name,
          last: 'finish',
          ...said,
        } as object)
      }
    })

    test('cite no place that is not in their text', () => {
      for (const { name, events } of answers) {
        for (const { text, annotations } of collect(events).choices) {
          for (const { start, end } of annotations) {
            expect([name, 0 <= start && start <= end && end <= (text ?? '').length]).toEqual([name, true])
          }
        }
      }
    })

    if (streams.length === 0) return

    test('are read the same wherever the network cuts a stream (G19)', () => {
      for (const recorded of new Set(streams.map((answer) => answer.recorded))) {
        const bytes = recorded.stream()
        const whole = framesIn(host, recorded, [bytes])
        for (const seed of [1, 2, 3, 4, 5])
          expect(framesIn(host, recorded, randomCuts(bytes, seed))).toEqual(whole)
        if (bytes.length < 20_000) expect(framesIn(host, recorded, single(bytes))).toEqual(whole)
      }
    })

    test('that stop early are cut, never a clean finish, and nothing follows their end', () => {
      for (const { name, frames, events, recorded } of streams) {
        const { outbound, target } = spokenBy(host, recorded)
        const parser = outbound.parser(target)
        const made: ChatEvent[] = []
        const mayEnd = host.protocol === 'openai-chat' ? everyChoiceFinished() : () => false
        let could = false
        for (const frame of frames!) {
          const cut = parser.end().map((event) => (event.kind === 'error' ? event.fault.kind : event.kind))
          const over = made.some(({ kind }) => kind === 'finish' || kind === 'error')
          if (over) expect([name, cut]).toEqual([name, []])
          else if (could) expect(['finish', 'cut']).toContain(cut.at(-1)!)
          else expect([name, cut]).toEqual([name, ['cut']])
          made.push(...parser.push(frame))
          could = mayEnd(frame)
        }
        expect([...made, ...parser.end()]).toEqual([...events])
      }
    })
  },
)

test('recordings hold what they are known to hold, but for what is excused', () => {
  const byRecording = Map.groupBy(recordedAnswers(), ({ recorded }) => recorded)
  const unread = [...byRecording].flatMap(([recorded, answers]) => {
    const results = answers.map(({ events }) => collect(events))
    return featuresOf(recorded)
      .filter((feature) => !checks[feature].read(results))
      .map((feature) => `${recorded.provider}/${recorded.id}: ${feature}`)
  })
  const excused = excuses.flatMap(({ feature, cases: all }) => all.map((name) => `${name}: ${feature}`))
  expect(unread.toSorted()).toEqual(excused.toSorted())
})

test('the frames of Bedrock are the events that lie decoded beside its streams', () => {
  for (const { frames, recorded } of recordedAnswers(hostsOf('bedrock-converse'))) {
    if (frames === undefined) continue
    const read = frames.map(({ event, data }) => ({ event, payload: JSON.parse(data) as unknown }))
    expect(read).toEqual(decodedEvents(recorded))
  }
})

describe('a stream of the Responses protocol', () => {
  const streams = recordedAnswers(hostsOf('openai-responses')).filter(
    (answer) => answer.frames !== undefined && answer.events.at(-1)!.kind === 'finish',
  )

  test('says no more than the response at its end', () => {
    for (const answer of streams) {
      const { outbound, target } = spokenBy(answer.host, answer.recorded)
      const whole = outbound.whole(responseIn(answer), target)
      expect([answer.name, plain(answer.events)]).toEqual([answer.name, plain(whole)])
    }
  })

  // Encrypted once more at the end of the response, with other bytes for the same content; OpenRouter's items get other
  // ids there.
  function plain(events: readonly ChatEvent[]) {
    const { reasoning, logprobs, ...rest } = collect(events).choices[0]!
    return {
      ...rest,
      logprobs: logprobs?.content.length ?? 0,
      reasoning: reasoning.map((detail) => ({ ...detail, id: '', data: detail.data?.length })),
    }
  }

  test('cites its sources by their addresses', () => {
    for (const { name, events } of streams) {
      const { text, annotations } = collect(events).choices[0]!
      for (const { url, start, end } of annotations) {
        if (start === 0 && end === 0) continue
        expect([name, text!.slice(start, end)]).toEqual([name, expect.stringContaining(url.slice(0, 30))])
      }
    }
  })
})

// ---- what was read ----------------------------------------------------------------------------------------

/** An answer as the readers of the table tell it. */
function readOf(events: readonly ChatEvent[]): Said {
  const result = collect(events)
  const choice: Choice | undefined = result.choices.find(({ index }) => index === 0)
  // What Claude's own tools did and the words of a summary are no thoughts of its blocks.
  const thoughts = (choice?.reasoning ?? []).filter(
    (each) => each.type !== 'reasoning.summary' && !isWork(each),
  )
  return {
    ...(result.id === undefined ? {} : { id: result.id }),
    text: choice?.text ?? '',
    thoughts: thoughts.map(({ text }) => text ?? '').join(''),
    seals: thoughts.map(({ signature, data }) => signature ?? data),
    calls: (choice?.toolCalls ?? []).map(({ id, name, arguments: json, thoughtSignature: signature }) => ({
      id,
      name,
      input: json === '' ? {} : inputIn(json),
      signature,
    })),
    end: choice?.nativeFinish ?? '',
    counted: result.usage === undefined ? null : countedIn(result.usage),
  }
}

/** The arguments of a call; the text itself where the token limit cut it. */
function inputIn(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return json
  }
}

function countedIn(usage: Usage): Counted {
  return {
    prompt: promptTokens(usage),
    completion: completionTokens(usage),
    cached: usage.cacheRead + usage.cacheReadAudio,
    written: usage.cacheWrite5m,
    writtenForAnHour: usage.cacheWrite1h,
    reasoning: usage.reasoning,
    searches: usage.toolCalls['web_search'] ?? 0,
    ...(usage.reportedCost === undefined ? {} : { cost: Number(usage.reportedCost).toFixed(10) }),
  }
}

function brokenRule(events: readonly ChatEvent[]): string | undefined {
  try {
    assertWellFormed(events)
    return undefined
  } catch (error) {
    return String(error)
  }
}

function* single(bytes: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 1) yield bytes.subarray(at, at + 1)
}

/** Whether all choices of chat completions have said why they end, by the raw chunks alone: `[DONE]` may be missing. */
function everyChoiceFinished(): (frame: Frame) => boolean {
  const finished = new Map<number, boolean>()
  return ({ data }) => {
    const chunk = data.trim() === '[DONE]' ? {} : (JSON.parse(data) as { choices?: FinishedChoice[] })
    for (const { index, finish_reason } of chunk.choices ?? []) {
      finished.set(index, (finished.get(index) ?? false) || Boolean(finish_reason))
    }
    return finished.size > 0 && [...finished.values()].every(Boolean)
  }
}

interface FinishedChoice {
  readonly index: number
  readonly finish_reason?: string | null
}

// ---- what a recording is known to hold ---------------------------------------------------------------------

interface Check {
  /** By which of its features a recording is known to have it. */
  readonly features: RegExp
  /** Whether the answers that were read have it. */
  readonly read: (results: readonly ChatResult[]) => boolean
}

const some = (has: (choice: Choice) => boolean) => (results: readonly ChatResult[]) =>
  results.some(({ choices }) => choices.some(has))
const answered = (results: readonly ChatResult[]) => results.every(({ fault }) => fault === undefined)

const checks: Readonly<Record<Feature, Check>> = {
  text: { features: /^text$/, read: some(({ text, refusal }) => (text ?? refusal ?? '') !== '') },
  tool: { features: /^tool_call$/, read: some(({ toolCalls }) => toolCalls.length > 0) },
  parallel: { features: /^tool_calls_parallel$/, read: some(({ toolCalls }) => toolCalls.length > 1) },
  reasoning: { features: /^reasoning$/, read: some(({ reasoning }) => reasoning.length > 0) },
  signature: {
    features: /^(signature|redacted_thinking)$/,
    read: some(
      ({ reasoning, toolCalls }) =>
        reasoning.some(({ signature, data }) => signature !== undefined || data !== undefined) ||
        toolCalls.some(({ thoughtSignature }) => thoughtSignature !== undefined),
    ),
  },
  structured: {
    features: /^req:structured$/,
    read: (results) =>
      results
        .flatMap(({ choices }) => choices)
        .every(({ text, toolCalls, finish }) => finish !== 'stop' || toolCalls.length > 0 || isJson(text)),
  },
  image: { features: /^(req:image|inline_data_out)$/, read: answered },
  document: { features: /^req:document$/, read: answered },
  audio: { features: /^(req:audio|usage:audio_tokens)$/, read: answered },
  citations: { features: /^citations$/, read: some(({ annotations }) => annotations.length > 0) },
  error: {
    features: failure,
    read: (results) => results.some(({ fault }) => fault !== undefined),
  },
  usage: { features: /^usage:/, read: (results) => results.some(({ usage }) => usage !== undefined) },
}

function isJson(text: string | null): boolean {
  try {
    JSON.parse((text ?? '').replace(/^```(json)?\s*|\s*```$/g, ''))
    return true
  } catch {
    return false
  }
}

/** Of a recording that failed nothing but the failure is asked. */
function featuresOf(recorded: Case): Feature[] {
  const features = [...recorded.features]
  const has = (feature: Feature) => features.some((name) => checks[feature].features.test(name))
  return has('error') ? ['error'] : (Object.keys(checks) as Feature[]).filter(has)
}
