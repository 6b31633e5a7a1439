// Every recorded exchange of every provider, read by its protocol: what it is known to hold is there. The table at
// the end says how much of that there is, folder by folder.

import { afterAll, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { type ChatEvent, type ChatResult, collect } from '../../src/conversation/event.ts'
import { assertWellFormed, type Case, cases, recordingsDir } from '../support/recordings.ts'
import { answersOf, recordedHosts } from './recorded-hosts.ts'

type Feature =
  | 'text'
  | 'tool'
  | 'parallel'
  | 'reasoning'
  | 'signature'
  | 'structured'
  | 'image'
  | 'document'
  | 'audio'
  | 'citations'
  | 'error'
  | 'usage'

interface Check {
  /** Whether the recording has it, by its description or its bytes. */
  readonly has: (recorded: Case) => boolean
  /** Whether the answer that was read has it. */
  readonly read: (results: readonly ChatResult[]) => boolean
}

const described =
  (...features: readonly string[]) =>
  ({ features: all }: Case) =>
    features.some((feature) => all.has(feature))
const choices = (results: readonly ChatResult[]) => results.flatMap((result) => result.choices)
const answered = (results: readonly ChatResult[]) => results.every(({ fault }) => fault === undefined)
const failed = (recorded: Case) =>
  [...recorded.features].some((feature) => feature.startsWith('error:') || failures.has(feature))
const failures = new Set([
  'midstream_error',
  'fin:ERROR',
  'fin:MALFORMED_FUNCTION_CALL',
  'fin:UNEXPECTED_TOOL_CALL',
])
/** Of a recording that failed nothing but the failure is asked. */
const unlessFailed = (has: Check['has']) => (recorded: Case) => !failed(recorded) && has(recorded)

const checks: Readonly<Record<Feature, Check>> = {
  text: {
    has: unlessFailed(described('text')),
    read: (results) => choices(results).some(({ text, refusal }) => (text ?? refusal ?? '') !== ''),
  },
  tool: {
    has: unlessFailed(described('tool_call')),
    read: (results) => choices(results).some(({ toolCalls }) => toolCalls.length > 0),
  },
  parallel: {
    has: unlessFailed(described('tool_calls_parallel')),
    read: (results) => choices(results).some(({ toolCalls }) => toolCalls.length > 1),
  },
  reasoning: {
    has: unlessFailed(described('reasoning')),
    read: (results) => choices(results).some(({ reasoning }) => reasoning.length > 0),
  },
  signature: {
    has: unlessFailed(described('signature', 'redacted_thinking')),
    read: (results) =>
      choices(results).some(
        ({ reasoning, toolCalls }) =>
          reasoning.some((detail) => detail.signature !== undefined || detail.data !== undefined) ||
          toolCalls.some((call) => call.thoughtSignature !== undefined),
      ),
  },
  structured: {
    has: unlessFailed(described('req:structured')),
    read: (results) =>
      choices(results).every(
        ({ text, toolCalls, finish }) => finish !== 'stop' || toolCalls.length > 0 || isJson(text),
      ),
  },
  image: { has: unlessFailed(described('req:image', 'inline_data_out')), read: answered },
  document: { has: unlessFailed(described('req:document')), read: answered },
  audio: { has: unlessFailed(described('req:audio', 'usage:audio_tokens')), read: answered },
  citations: {
    has: unlessFailed(described('citations')),
    read: (results) => choices(results).some(({ annotations }) => annotations.length > 0),
  },
  error: { has: failed, read: (results) => results.some(({ fault }) => fault !== undefined) },
  usage: {
    has: (recorded) => !failed(recorded) && [...recorded.features].some((name) => name.startsWith('usage:')),
    read: (results) => results.some(({ usage }) => usage !== undefined),
  },
}
const features = Object.keys(checks) as Feature[]

/** What is not read, and why. */
const excuses: readonly { why: string; feature: Feature; cases: readonly string[] }[] = [
  {
    why: 'its reasoning items have no words and nothing encrypted: there is nothing to show or to send back',
    feature: 'reasoning',
    cases: [
      'azure-responses/json-tool-reasoning--gpt-5-mini--fanb07d92',
      'azure-responses/json-tool-reasoning--o4-mini--fan4b751d',
      'azure-responses/json-tool-result-reasoning--o4-mini--fanf8020f',
      'azure-responses/stream-server-tool-reasoning--gpt-5-mini--vai7aeb37',
      'azure-responses/stream-tool-reasoning--gpt-5-mini--fana3f0cf',
      'azure-responses/stream-tool-result-reasoning--gpt-5-mini--fanbe43bf',
      'openai-responses/json-cache-write-reasoning--gpt-5.6-sol--ddtf1634e',
      'openai-responses/json-image-reasoning--o4-mini-2025-04-16--ddt20b1fe',
      'openai-responses/json-reasoning--gpt-5--ddtfb04de',
      'openai-responses/json-reasoning--gpt-5-codex--vaibe11f5',
      'openai-responses/json-reasoning--o3-mini--pai341921',
      'openai-responses/stream-parallel-tools-reasoning--gpt-5--fan1208a0',
    ],
  },
  {
    why: 'a flag on the message says that it thought; no words of it came',
    feature: 'reasoning',
    cases: [
      'gemini-openai-compat/json-tool-reasoning--gemini-2.5-pro-preview-05-06--pai80376a',
      'gemini-openai-compat/json-tool-result-reasoning--gemini-2.5-pro-preview-05-06--paib8ff2a',
    ],
  },
  {
    why: 'a chat completion that a host of another protocol answered: refused as not the protocol',
    feature: 'text',
    cases: ['azure-responses/json-reasoning--deepseek-v4-pro--vaif46773'],
  },
  {
    why: 'a chat completion that a host of another protocol answered: refused as not the protocol',
    feature: 'reasoning',
    cases: ['azure-responses/json-reasoning--deepseek-v4-pro--vaif46773'],
  },
  {
    why: 'nothing but reasoning came: its only text is there',
    feature: 'text',
    cases: [
      'bedrock-converse/json-reasoning--qwen.qwen3-32b-v1-0--pai9020cf',
      'bedrock-converse/json-tool-reasoning--moonshot.kimi-k2-thinking--paid44df5',
      'together/json-max-tokens--deepseek-r1--pai006da6',
    ],
  },
  {
    why: 'one of the calls is of a tool that the provider ran itself: it is not the client who answers it',
    feature: 'parallel',
    cases: [
      'bedrock-converse/json-parallel-tools--us.amazon.nova-2-lite-v1-0--pai9c9342',
      'bedrock-converse/json-parallel-tools--us.amazon.nova-2-lite-v1-0--paia543f2',
      'bedrock-converse/stream-parallel-tools--us.amazon.nova-2-lite-v1-0--pai70f682',
    ],
  },
  {
    why: 'four responses in one recording, with one call each',
    feature: 'parallel',
    cases: ['azure-responses/stream-parallel-tools-reasoning-sig--gpt-5.1-codex-max--vai7d2e2d'],
  },
  {
    why: 'cites a document or a tool, which has no address: annotations are of addresses alone',
    feature: 'citations',
    cases: [
      'anthropic/stream-citations--claude-haiku-4-5-20251001--rubb36136',
      'bedrock-converse/json-citations--us.anthropic.claude-haiku-4-5-2025--rub8a630a',
      'cohere-v2/json-citations--command-r--lcc567bf3',
      'cohere-v2/stream-citations--command-a-03-2025--rub698c15',
      'cohere-v2/stream-citations-reasoning--command-a-plus-05-2026--rub3c5392',
    ],
  },
  {
    why: 'lists what was searched, or where text may come from, and cites none of it for any of the answer',
    feature: 'citations',
    cases: [
      'gemini/json-citations--gemini-2.5-flash--btjb48110',
      'groq/json-citations-reasoning--compound-beta--pai92dae7',
      'groq/stream-citations-reasoning--compound-beta--pai2ad769',
      'vertex-gemini/json-citations--gemini-2.5-flash--rubdd09d7',
    ],
  },
  {
    why: 'answered in prose: no format was asked for, its field was null or the transcript is plain text',
    feature: 'structured',
    cases: [
      'gemini/json-audio--gemini-2.5-flash--rub6f9788',
      'openai-chat/json-structured--gpt-4o--oin3af150',
      'together/json-structured--mixtral-8x7b-instruct-v0.1--olm7cb8a5',
      'vertex-gemini/json-audio--gemini-2.5-flash--rub10c0d1',
      'vertex-gemini/json-audio--gemini-2.5-flash--rub8d2961',
    ],
  },
  {
    why: 'refused to answer, and a refusal is prose',
    feature: 'structured',
    cases: ['openai-chat/json-refusal--gpt-4o--olmba5f53'],
  },
]

const excused = new Set(
  excuses.flatMap(({ feature, cases: all }) => all.map((name) => `${name}: ${feature}`)),
)

function isJson(text: string | null): boolean {
  try {
    JSON.parse((text ?? '').replace(/^```(json)?\s*|\s*```$/g, ''))
    return true
  } catch {
    return false
  }
}

function rulesBroken(events: readonly ChatEvent[]): string | undefined {
  try {
    assertWellFormed(events)
    return undefined
  } catch (error) {
    return String(error)
  }
}

interface Row {
  readonly folder: string
  readonly cases: number
  readonly counts: Map<Feature, { has: number; read: number }>
  readonly missing: string[]
}

function rowOf(host: (typeof recordedHosts)[number]): Row {
  const all = cases(host.folder)
  const counts = new Map(features.map((feature) => [feature, { has: 0, read: 0 }]))
  const missing: string[] = []
  for (const recorded of all) {
    const name = `${host.folder}/${recorded.id}`
    const miss = (what: Feature | 'rules', why: string) => {
      if (!excused.has(`${name}: ${what}`)) missing.push(`${name}: ${what}: ${why}`)
      else used.add(`${name}: ${what}`)
    }
    try {
      const answers = answersOf(host, recorded)
      const results = answers.map((events) => collect(events))
      for (const events of answers) {
        const broken = rulesBroken(events)
        if (broken !== undefined) miss('rules', broken)
      }
      for (const feature of features) {
        if (!checks[feature].has(recorded)) continue
        const count = counts.get(feature)!
        count.has += 1
        if (checks[feature].read(results)) count.read += 1
        else miss(feature, results.map(({ fault }) => fault?.message ?? 'not in what was read').join('; '))
      }
    } catch (error) {
      missing.push(`${name}: not read at all: ${String(error)}`)
    }
  }
  return { folder: host.folder, cases: all.length, counts, missing }
}

const table: Row[] = []
const used = new Set<string>()

describe('recordings', () => {
  test('of every folder are read by a protocol', () => {
    const folders = readdirSync(recordingsDir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
    expect(recordedHosts.map(({ folder }) => folder).toSorted()).toEqual(folders.toSorted())
  })

  test.each(recordedHosts.map((host) => [host.folder, host] as const))(
    'of %s hold what they are known to hold',
    (_, host) => {
      const row = rowOf(host)
      table.push(row)
      expect(row.missing).toEqual([])
      expect(row.cases).toBeGreaterThan(0)
    },
  )

  test('are excused for nothing that is read', () => {
    expect([...excused].filter((name) => !used.has(name))).toEqual([])
  })
})

afterAll(() => {
  const cell = (row: Row, feature: Feature) => {
    const { has, read } = row.counts.get(feature)!
    return has === 0 ? '·' : `${read}/${has}`
  }
  const lines = table.map((row) => [
    row.folder,
    String(row.cases),
    ...features.map((feature) => cell(row, feature)),
  ])
  const total = table.reduce((sum, row) => sum + row.cases, 0)
  const heads = ['folder', String(total), ...features]
  const widths = heads.map((head, at) => Math.max(head.length, ...lines.map((line) => line[at]!.length)))
  const text = [heads, ...lines].map((line) =>
    line
      .map((word, at) => word.padEnd(widths[at]!))
      .join(' ')
      .trimEnd(),
  )
  console.log(`\n${text.join('\n')}\n`)
  const listed = excuses.flatMap(({ why, feature, cases: all }) => [
    `${feature}: ${why}`,
    ...all.map((name) => `  ${name}`),
  ])
  console.log(`${listed.join('\n')}\n`)
})
