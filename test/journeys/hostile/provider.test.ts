// Providers at their worst, through the real server: what the client sees, what it pays, and that nothing stays open.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import {
  type Answer,
  type CallOptions,
  creditsOf,
  eventually,
  expectAudited,
  post,
  receiptOf,
  restingCredits,
} from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import {
  chunk,
  completion,
  delta,
  done,
  event,
  headOf,
  lastChunk,
  manners,
  plain,
  type Script,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
  streamHead,
  usageEvent,
  wholeStream,
} from '../../support/scripted-provider.ts'

/** What the client must see. */
type Expected =
  /** An HTTP error before the first byte: nothing was served, nothing is charged. */
  | { readonly kind: 'refused'; readonly status: number; readonly code: string }
  /** The words came, then the stream failed in the open: an error chunk, then `[DONE]`, and no finish of ours. */
  | { readonly kind: 'broken-off'; readonly code: string; readonly content?: string }
  /** All is well in the end, with the provider's own count or with ours. */
  | {
      readonly kind: 'served'
      readonly estimated: boolean
      readonly content?: string
      readonly tokens?: readonly [prompt: number, completion: number]
    }

interface Case {
  readonly name: string
  readonly script: Script
  readonly expected: Expected
}

const words = 'The river runs.'
const refused = (status: number, code: string): Expected => ({ kind: 'refused', status, code })
const upstreamError = refused(502, 'upstream_error')
const brokenOff = (): Expected => ({ kind: 'broken-off', code: 'upstream_error' })
const counted = (prompt: number, completion_: number): Expected => ({
  kind: 'served',
  estimated: false,
  tokens: [prompt, completion_],
})
const estimated = { kind: 'served', estimated: true } as const
const errorEvent = event({ error: { message: 'SECRET-DETAIL', type: 'server_error', code: null } })

/** Sends these bytes and closes. */
const sends =
  (...parts: readonly (string | Uint8Array)[]): Script =>
  async (wire) => {
    for (const part of parts) await wire.write(part)
    wire.end()
  }
/** Sends a stream with a proper head, and the proper end of an HTTP body whatever the events are. */
const streams = (...events: readonly string[]): Script =>
  sends(streamHead, ...events.map((text) => chunk(text)), lastChunk)
/** Sends these and then nothing more. */
const hangs =
  (...parts: readonly (string | Uint8Array)[]): Script =>
  async (wire) => {
    for (const part of parts) await wire.write(part)
  }
const withUsage = (usage: unknown): Script =>
  streams(manners.start, manners.words, manners.finish, usageEvent(usage), done)

const started = [streamHead, chunk(manners.start + manners.words)] as const
const begun = manners.start + manners.words
const ended = manners.finish + manners.usage + done
const long = 'w'.repeat(1_000_000)
/** JSON that parses, and that nobody could write again. */
const abyss = `data: {"choices":[],"x":${'['.repeat(1_000_000) + ']'.repeat(1_000_000)}}\n\n`
const sprawl = `data: {"choices":[],"x":[${'{},'.repeat(500_000)}{}]}\n\n`
const json = (body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}) =>
  sends(plain(200, 'application/json', body, headers))
const gzipped = { 'content-encoding': 'gzip' }
const elsewhere = { location: 'http://127.0.0.1:ATTACKER/v1/chat/completions' }

/** Scripts by their names, of which the client must see the same. */
const each = (expected: Expected, scripts: Readonly<Record<string, Script>>): readonly Case[] =>
  Object.entries(scripts).map(([name, script]) => ({ name, script, expected }))

// What every protocol may do at every moment, as falling silent or breaking off, is struck in chaos.test.ts.
const streamCases: readonly Case[] = [
  ...each(upstreamError, {
    'JSON that is none': json('{"choices": [{]'),
    'a truncated JSON body': json(completion(words, someUsage).slice(0, 90)),
    'nothing but [DONE]': streams(done),
    'a role and the end': streams(manners.start),
    'an error after the role': streams(manners.start, errorEvent, done),
    'an HTTP status without a body': sends(headOf(204, {})),
    'a header of a megabyte': sends(headOf(200, { 'x-bomb': 'a'.repeat(1_000_000) })),
    'an event that nests a million deep, at its start': streams(abyss, wholeStream),
  }),
  ...each(refused(429, 'upstream_rate_limited'), {
    'a limit reached as its first event': streams(event({ error: { code: 'rate_limit_exceeded' } })),
  }),
  ...each(refused(504, 'upstream_timeout'), {
    'silence after the role': hangs(streamHead, chunk(manners.start)),
  }),
  ...each(brokenOff(), {
    'a [DONE] before any finish': streams(begun, done),
    'a [DONE] before any finish and silence': hangs(...started, chunk(done)),
    'an error beside the first words and silence': hangs(streamHead, chunk(begun + errorEvent)),
    'an event that nests a million deep, in its middle': streams(begun, abyss, manners.finish),
    'an event of half a million objects in its middle': streams(begun, sprawl, manners.finish),
  }),
  ...each(counted(12, 4), {
    'good manners': streams(wholeStream),
    'a finish without [DONE]': streams(begun, manners.finish, manners.usage),
    'more after [DONE]': streams(
      wholeStream,
      delta({ content: ' AND MORE' }),
      usageEvent({ prompt_tokens: 999, completion_tokens: 999 }),
    ),
    'lines that end in CRLF': streams(wholeStream.replaceAll('\n', '\r\n')),
    'one byte at a time': sends(
      streamHead,
      ...[...Buffer.from(wholeStream)].map((byte) => chunk(Uint8Array.of(byte))),
      lastChunk,
    ),
    'a stream that calls itself plain text': sends(plain(200, 'text/plain', wholeStream)),
    'a stream that calls itself nothing': sends(headOf(200, {}), wholeStream),
    'a stream that was compressed unasked': sends(
      plain(200, 'text/event-stream', gzipSync(wholeStream), gzipped),
    ),
    'plain JSON where a stream was asked for': json(completion(words, someUsage)),
    'comments and unknown event names': streams(': hello\n\n', 'event: ping\ndata: {}\n\n', wholeStream),
    'events without data': streams('data:\n\n', begun, 'data: \n\n', ended),
    'a blank behind its [DONE]': streams(begun, manners.finish, manners.usage, 'data: [DONE] \n\n'),
    'a choice that nobody asked for': streams(
      manners.start,
      delta({ content: 'x' }, 'stop', 1e9),
      manners.words,
      ended,
    ),
    'a key __proto__ in its events': streams(
      manners.start,
      event(
        '{"id":"a","__proto__":{"isAdmin":true},"choices":[{"index":0,"delta":{"content":"The river runs.","__proto__":{"content":"!"}},"finish_reason":null}]}',
      ),
      ended,
    ),
    'more cached than prompt tokens': withUsage({
      ...someUsage,
      prompt_tokens_details: { cached_tokens: 50 },
    }),
    'counters, and then counters of zero': streams(
      begun,
      manners.finish,
      manners.usage,
      usageEvent({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }),
      done,
    ),
    'counters, and then one of them': streams(
      begun,
      manners.finish,
      manners.usage,
      usageEvent({ prompt_tokens: 12 }),
      done,
    ),
  }),
  ...each(estimated, {
    'no usage': streams(begun, manners.finish, done),
    'negative counters': withUsage({ prompt_tokens: -12, completion_tokens: -4, total_tokens: -16 }),
    'counters as strings': withUsage({ prompt_tokens: '12', completion_tokens: '4' }),
    'usage null': withUsage(null),
    'usage as a list': withUsage([]),
    'a completion of zero': withUsage({ prompt_tokens: 12, completion_tokens: 0, total_tokens: 12 }),
    'a completion of millions': withUsage({ prompt_tokens: 12, completion_tokens: 2_900_000 }),
  }),
  ...each(
    { ...estimated, tokens: [12, 4] },
    {
      'searches that nobody asked for': withUsage({
        ...someUsage,
        server_tool_use: { web_search_requests: 900 },
      }),
    },
  ),
  ...each(
    { kind: 'served', estimated: false, content: long },
    { 'an event of a megabyte': streams(manners.start, delta({ content: long }), ended) },
  ),
]

const wholeCases: readonly Case[] = [
  ...each(upstreamError, {
    'JSON that is none': json('{"choices": [{]'),
    'that nests a million deep': json(
      completion(words, someUsage).replace('{', `{${abyss.slice('data: {"choices":[],'.length, -3)},`),
    ),
    'an empty body': json(''),
    'JSON of another shape': json('{"hello":"world"}'),
    'an array': json('[]'),
    null: json('null'),
    'a truncated body': json(completion(words, someUsage).slice(0, 90)),
    'an error with 200': json('{"error":{"message":"SECRET-DETAIL"}}'),
    'a redirect': sends(plain(302, 'text/plain', '', elsewhere)),
    'a body of 25 MB': json(completion('w'.repeat(25_000_000), someUsage)),
    'a compressed body of 100 MB': json(gzipSync(Buffer.alloc(100_000_000, 0x20)), gzipped),
  }),
  ...each(estimated, { 'no usage': json(completion(words, undefined)) }),
  ...each(counted(12, 4), {
    'good manners': json(completion(words, someUsage)),
    'a compressed body': json(gzipSync(completion(words, someUsage)), gzipped),
    'JSON that calls itself plain text': sends(plain(200, 'text/plain', completion(words, someUsage))),
  }),
]

const idOf = ({ name }: Case, kind: string) => `${kind}-${name.replace(/[^a-z0-9]+/gi, '-')}`

let provider: ScriptedProvider
let attacker: ScriptedProvider
let weir: RunningWeir

beforeAll(async () => {
  attacker = await startScriptedProvider({})
  const scripts: Record<string, Script> = {}
  for (const one of streamCases) scripts[idOf(one, 'stream')] = one.script
  for (const one of wholeCases) scripts[idOf(one, 'whole')] = one.script
  scripts['redirect'] = sends(
    plain(307, 'text/plain', '', { location: `http://127.0.0.1:${attacker.port}/v1/chat/completions` }),
  )
  scripts['absurd'] = withUsage({ prompt_tokens: 1e30, completion_tokens: 1e30, total_tokens: 1e30 })
  scripts['finish-and-silence'] = hangs(streamHead, chunk(manners.start + manners.words + manners.finish))
  provider = await startScriptedProvider(scripts)
  const models = Object.keys(scripts).map(
    (name) => `  - { id: lab/${name}, price: { input: "1", output: "2" }, max_output_tokens: 1000 }`,
  )
  const config = `
local_servers: { discover: false }
limits: { attempts: 1 }
timeouts: { connect_ms: 1000, first_byte_ms: 300, first_byte_reasoning_ms: 300, gap_ms: 300 }
providers:
  lab: { protocol: openai-chat, base_url: "${provider.url}", api_key: lab-provider-secret }
models:
${models.join('\n')}
`
  weir = await startWeir({ config })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
  await attacker?.stop()
})

function call(model: string, stream: boolean, options: CallOptions = {}): Promise<Answer> {
  const messages = [{ role: 'user', content: 'Where does the river run?' }]
  const usage = stream ? { stream: true, stream_options: { include_usage: true } } : {}
  return post(weir, { model: `lab/${model}`, messages, max_tokens: 500, ...usage }, options)
}

/** What every answer must keep, whatever the provider did; then what this one must. */
async function expectOutcome(answer: Answer, expected: Expected, usedBefore: number): Promise<void> {
  const credits = await restingCredits(weir)
  expect(credits).toMatchObject({ held: '0', debt: '0' })
  expect(answer.text).not.toContain('SECRET-DETAIL')
  expect(answer.text).not.toContain('lab-provider-secret')
  expect(answer.broken).toBe(false)
  const receipt = await receiptOf(weir, answer.requestId)
  const used = Number(credits.total_used) - usedBefore

  if (expected.kind === 'refused') {
    expect({ status: answer.status, code: answer.error?.code }).toEqual({
      status: expected.status,
      code: expected.code,
    })
    expect(answer.headers.get('content-type')).toStartWith('application/json')
    expect(answer.error?.metadata).toMatchObject({ source: 'provider', provider: 'lab' })
    expect(used).toBe(0)
    expect(receipt?.state).toBe('voided')
    return
  }
  expect(answer.status).toBe(200)
  expect(answer.content).toBe(expected.content ?? words)
  expect(receipt).toMatchObject({ state: 'settled', held: '0', absorbed: '0' })
  expect(Number(receipt!.charged)).toBeCloseTo(used, 12)
  // 500 tokens at 2 USD a million and the prompt: an estimate stays below what was held.
  if (receipt!.usage!.estimated) expect(used).toBeLessThan(0.0021)
  if (expected.kind === 'broken-off') {
    expect(answer.error?.code).toBe(expected.code)
    expect(answer.finishes).toEqual(['error'])
    expect(answer.events.at(-1)).toBe('[DONE]')
    expect(answer.events.filter((data) => data === '[DONE]')).toHaveLength(1)
    expect(receipt?.usage?.estimated).toBe(true)
    expect(used).toBeGreaterThan(0)
    return
  }
  expect(answer.error).toBeUndefined()
  expect(answer.finishes).toEqual(['stop'])
  expect(receipt?.usage?.estimated).toBe(expected.estimated)
  if (expected.estimated) expect(used).toBeGreaterThan(0)
  const [prompt, completion_] = expected.tokens ?? []
  if (prompt !== undefined)
    expect(receipt?.usage).toMatchObject({ prompt_tokens: prompt, completion_tokens: completion_ })
}

async function outcomeOf(one: Case, kind: 'stream' | 'whole'): Promise<void> {
  const before = Number((await restingCredits(weir)).total_used)
  await expectOutcome(await call(idOf(one, kind), kind === 'stream'), one.expected, before)
}

describe('a stream (G11, S20, S21)', () => {
  test.each(streamCases.map((one) => [one.name, one] as const))('of %s', (_, one) => outcomeOf(one, 'stream'))

  test('that gave its finish reason has finished, whatever comes after', async () => {
    const before = Number((await restingCredits(weir)).total_used)
    await expectOutcome(await call('finish-and-silence', true), estimated, before)
  })
})

describe('a whole answer (G11, S21)', () => {
  test.each(wholeCases.map((one) => [one.name, one] as const))('of %s', (_, one) => outcomeOf(one, 'whole'))
})

describe('a provider', () => {
  test.each([true, false])('cannot send our key elsewhere by a redirect (stream: %p, S5)', async (stream) => {
    const answer = await call('redirect', stream)
    expect(answer.status).toBe(502)
    expect(answer.error?.code).toBe('upstream_error')
    expect(attacker.connections).toBe(0)
  })

  test('gets our key and nothing of the caller’s', () => {
    expect(provider.arrivals.length).toBeGreaterThan(0)
    for (const { headers } of provider.arrivals) {
      expect(headers.get('authorization')?.trim()).toBe('Bearer lab-provider-secret')
      expect(JSON.stringify([...headers])).not.toContain(weir.key)
    }
  })

  test('that counts 10^30 tokens is not believed: the answer is charged as we count it', async () => {
    const before = Number((await restingCredits(weir)).total_used)
    await expectOutcome(await call('absurd', true), estimated, before)
  })
})

describe('afterwards', () => {
  test('the gateway serves, its memory is small, no hold is open and the books balance', async () => {
    const good = streamCases.find(({ name }) => name === 'good manners')!
    const answer = await call(idOf(good, 'stream'), true)
    expect(answer.content).toBe(words)
    expect((await creditsOf(weir)).held).toBe('0')
    const resident = await eventually(residentMegabytes, (megabytes) => megabytes < 400, 2_000)
    expect(resident).toBeLessThan(400)
    await expectAudited(weir)
  })
})

async function residentMegabytes(): Promise<number> {
  const status = await Bun.file(`/proc/${weir.pid}/status`).text()
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
