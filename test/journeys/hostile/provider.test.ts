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
  type Wire,
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
const brokenOff = (code = 'upstream_error'): Expected => ({ kind: 'broken-off', code })
const counted = (prompt: number, completion_: number): Expected => ({
  kind: 'served',
  estimated: false,
  tokens: [prompt, completion_],
})
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
const resets =
  (...parts: readonly (string | Uint8Array)[]): Script =>
  async (wire) => {
    for (const part of parts) await wire.write(part)
    wire.reset()
  }
const withUsage = (usage: unknown): Script =>
  streams(manners.start, manners.words, manners.finish, usageEvent(usage), done)

/** Resolves when the client of the call to this model has read all words: what breaks a connection waits for it. */
const readers = new Map<string, PromiseWithResolvers<void>>()
function readerOf(model: string): PromiseWithResolvers<void> {
  const known = readers.get(model) ?? Promise.withResolvers<void>()
  readers.set(model, known)
  return known
}
const breaksAfterWords =
  (how: (wire: Wire) => unknown): Script =>
  async (wire) => {
    for (const part of started) await wire.write(part)
    await readerOf(String(wire.body['model'])).promise
    await how(wire)
  }

/** Writes lines without an end until the gateway hangs up. */
const endless =
  (...first: readonly (string | Uint8Array)[]): Script =>
  async (wire) => {
    for (const part of first) await wire.write(part)
    const piece = chunk('x'.repeat(65_536))
    while (await wire.write(piece));
  }

const started = [streamHead, chunk(manners.start + manners.words)] as const
const long = 'w'.repeat(1_000_000)
/** JSON that parses, and that nobody could write again. */
const abyss = '['.repeat(1_000_000) + ']'.repeat(1_000_000)
const sprawl = `[${'{},'.repeat(500_000)}{}]`

/** Bodies that are no answer, streamed or whole. */
const unreadable: readonly Case[] = [
  {
    name: 'a web page with 200',
    script: sends(plain(200, 'text/html', '<html>SECRET-DETAIL</html>')),
    expected: upstreamError,
  },
  {
    name: 'JSON that is none',
    script: sends(plain(200, 'application/json', '{"choices": [{]')),
    expected: upstreamError,
  },
]

const streamCases: readonly Case[] = [
  ...unreadable,
  { name: 'an empty JSON body', script: sends(plain(200, 'application/json', '')), expected: upstreamError },
  { name: 'an empty stream', script: streams(), expected: upstreamError },
  { name: 'nothing but [DONE]', script: streams(done), expected: upstreamError },
  {
    name: 'a truncated JSON body',
    script: sends(plain(200, 'application/json', completion(words, someUsage).slice(0, 90))),
    expected: upstreamError,
  },
  { name: 'a role and the end', script: streams(manners.start), expected: upstreamError },
  { name: 'a role and a reset', script: resets(streamHead, chunk(manners.start)), expected: upstreamError },
  { name: 'an error as its first event', script: streams(errorEvent, done), expected: upstreamError },
  {
    name: 'an error after the role',
    script: streams(manners.start, errorEvent, done),
    expected: upstreamError,
  },
  {
    name: 'a limit reached as its first event',
    script: streams(event({ error: { message: 'slow down', code: 'rate_limit_exceeded' } })),
    expected: refused(429, 'upstream_rate_limited'),
  },
  { name: 'events that are not JSON', script: streams('data: hello\n\n'), expected: upstreamError },
  { name: 'an HTTP status without a body', script: sends(headOf(204, {})), expected: upstreamError },
  { name: 'a status line that is none', script: sends('HELLO WORLD\r\n\r\n'), expected: upstreamError },
  {
    name: 'chunks with a broken length',
    script: sends(streamHead, 'zz\r\nhello\r\n'),
    expected: upstreamError,
  },
  {
    name: 'a header of a megabyte',
    script: sends(headOf(200, { 'x-bomb': 'a'.repeat(1_000_000) })),
    expected: upstreamError,
  },
  { name: 'a connection closed without a word', script: (wire) => wire.end(), expected: upstreamError },
  { name: 'a connection reset without a word', script: (wire) => wire.reset(), expected: upstreamError },
  { name: 'silence before the headers', script: () => undefined, expected: refused(504, 'upstream_timeout') },
  {
    name: 'silence after the headers',
    script: hangs(streamHead),
    expected: refused(504, 'upstream_timeout'),
  },
  {
    name: 'silence after the role',
    script: hangs(streamHead, chunk(manners.start)),
    expected: refused(504, 'upstream_timeout'),
  },
  {
    name: 'a line without end from the start',
    script: endless(streamHead, chunk('data: {"choices":"')),
    expected: upstreamError,
  },

  {
    name: 'a stream cut in its middle',
    script: streams(manners.start, manners.words),
    expected: brokenOff(),
  },
  {
    name: 'a [DONE] before any finish',
    script: streams(manners.start, manners.words, done),
    expected: brokenOff(),
  },
  {
    name: 'a [DONE] before any finish and silence',
    script: hangs(...started, chunk(done)),
    expected: brokenOff(),
  },
  {
    name: 'an error beside the first words and silence',
    script: hangs(streamHead, chunk(manners.start + manners.words + errorEvent)),
    expected: brokenOff(),
  },
  {
    name: 'half an event and the end',
    script: streams(manners.start, manners.words, 'data: {"choices":[{"ind'),
    expected: brokenOff(),
  },
  {
    name: 'a reset in its middle',
    script: breaksAfterWords((wire) => wire.reset()),
    expected: brokenOff(),
  },
  {
    name: 'an error in its middle',
    script: streams(manners.start, manners.words, errorEvent),
    expected: brokenOff(),
  },
  {
    name: 'an event that is not JSON in its middle',
    script: streams(manners.start, manners.words, 'data: oops\n\n', manners.finish, done),
    expected: brokenOff(),
  },
  {
    name: 'an event that nests a million deep, at its start',
    script: streams(`data: {"choices":[],"x":${abyss}}\n\n`, wholeStream),
    expected: upstreamError,
  },
  {
    name: 'an event that nests a million deep, in its middle',
    script: streams(manners.start, manners.words, `data: {"choices":[],"x":${abyss}}\n\n`, manners.finish),
    expected: brokenOff(),
  },
  {
    name: 'an event of half a million objects in its middle',
    script: streams(manners.start, manners.words, `data: {"choices":[],"x":${sprawl}}\n\n`, manners.finish),
    expected: brokenOff(),
  },
  { name: 'silence in its middle', script: hangs(...started), expected: brokenOff('upstream_timeout') },
  {
    name: 'a line without end in its middle',
    script: endless(...started, chunk('data: {"choices":"')),
    expected: brokenOff(),
  },
  {
    name: 'a broken chunk in its middle',
    script: breaksAfterWords((wire) => wire.write('zz\r\n')),
    expected: brokenOff(),
  },

  { name: 'good manners', script: streams(wholeStream), expected: counted(12, 4) },
  {
    name: 'a finish without [DONE]',
    script: streams(manners.start, manners.words, manners.finish, manners.usage),
    expected: counted(12, 4),
  },
  {
    name: 'more after [DONE]',
    script: streams(
      wholeStream,
      delta({ content: ' AND MORE' }),
      usageEvent({ prompt_tokens: 999, completion_tokens: 999 }),
    ),
    expected: counted(12, 4),
  },
  {
    name: 'no usage',
    script: streams(manners.start, manners.words, manners.finish, done),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'lines that end in CRLF',
    script: streams(wholeStream.replaceAll('\n', '\r\n')),
    expected: counted(12, 4),
  },
  {
    name: 'one byte at a time',
    script: sends(
      streamHead,
      ...[...Buffer.from(wholeStream)].map((byte) => chunk(Uint8Array.of(byte))),
      lastChunk,
    ),
    expected: counted(12, 4),
  },
  {
    name: 'an event of a megabyte',
    script: streams(manners.start, delta({ content: long }), manners.finish, manners.usage, done),
    expected: { kind: 'served', estimated: false, content: long },
  },
  {
    name: 'a stream that calls itself plain text',
    script: sends(plain(200, 'text/plain', wholeStream)),
    expected: counted(12, 4),
  },
  {
    name: 'a stream that calls itself nothing',
    script: sends(headOf(200, {}), wholeStream),
    expected: counted(12, 4),
  },
  {
    name: 'a stream that was compressed unasked',
    script: sends(plain(200, 'text/event-stream', gzipSync(wholeStream), { 'content-encoding': 'gzip' })),
    expected: counted(12, 4),
  },
  {
    name: 'plain JSON where a stream was asked for',
    script: sends(plain(200, 'application/json', completion(words, someUsage))),
    expected: counted(12, 4),
  },
  {
    name: 'comments and unknown event names',
    script: streams(': hello\n\n', 'event: ping\ndata: {}\n\n', wholeStream),
    expected: counted(12, 4),
  },
  {
    name: 'events without data',
    script: streams(
      'data:\n\n',
      manners.start,
      manners.words,
      'data: \n\n',
      manners.finish,
      manners.usage,
      done,
    ),
    expected: counted(12, 4),
  },
  {
    name: 'a blank behind its [DONE]',
    script: streams(manners.start, manners.words, manners.finish, manners.usage, 'data: [DONE] \n\n'),
    expected: counted(12, 4),
  },
  {
    name: 'a choice that nobody asked for',
    script: streams(
      manners.start,
      delta({ content: 'x' }, 'stop', 1e9),
      manners.words,
      manners.finish,
      manners.usage,
      done,
    ),
    expected: counted(12, 4),
  },
  {
    name: 'a key __proto__ in its events',
    script: streams(
      manners.start,
      event(
        '{"id":"a","__proto__":{"isAdmin":true},"choices":[{"index":0,"delta":{"content":"The river runs.","__proto__":{"content":"!"}},"finish_reason":null}]}',
      ),
      manners.finish,
      manners.usage,
      done,
    ),
    expected: counted(12, 4),
  },

  {
    name: 'more cached than prompt tokens',
    script: withUsage({
      prompt_tokens: 12,
      completion_tokens: 4,
      prompt_tokens_details: { cached_tokens: 50 },
    }),
    expected: counted(12, 4),
  },
  {
    name: 'negative counters',
    script: withUsage({ prompt_tokens: -12, completion_tokens: -4, total_tokens: -16 }),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'counters as strings',
    script: withUsage({ prompt_tokens: '12', completion_tokens: '4' }),
    expected: { kind: 'served', estimated: true },
  },
  { name: 'usage null', script: withUsage(null), expected: { kind: 'served', estimated: true } },
  { name: 'usage as a list', script: withUsage([]), expected: { kind: 'served', estimated: true } },
  {
    name: 'counters, and then counters of zero',
    script: streams(
      manners.start,
      manners.words,
      manners.finish,
      manners.usage,
      usageEvent({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }),
      done,
    ),
    expected: counted(12, 4),
  },
  {
    name: 'counters, and then one of them',
    script: streams(
      manners.start,
      manners.words,
      manners.finish,
      manners.usage,
      usageEvent({ prompt_tokens: 12 }),
      done,
    ),
    expected: counted(12, 4),
  },
  {
    name: 'counters of zero',
    script: withUsage({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'a completion of zero',
    script: withUsage({ prompt_tokens: 12, completion_tokens: 0, total_tokens: 12 }),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'a prompt of millions',
    script: withUsage({ prompt_tokens: 9_000_000, completion_tokens: 4, total_tokens: 9_000_004 }),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'a completion of millions',
    script: withUsage({ prompt_tokens: 12, completion_tokens: 2_900_000, total_tokens: 2_900_012 }),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'searches that nobody asked for',
    script: withUsage({
      prompt_tokens: 12,
      completion_tokens: 4,
      total_tokens: 16,
      server_tool_use: { web_search_requests: 900 },
    }),
    expected: { kind: 'served', estimated: true, tokens: [12, 4] },
  },
]

const wholeCases: readonly Case[] = [
  {
    name: 'that nests a million deep',
    script: sends(
      plain(200, 'application/json', completion(words, someUsage).replace('{', `{"x":${abyss},`)),
    ),
    expected: upstreamError,
  },
  ...unreadable,
  { name: 'an empty body', script: sends(plain(200, 'application/json', '')), expected: upstreamError },
  {
    name: 'JSON of another shape',
    script: sends(plain(200, 'application/json', '{"hello":"world"}')),
    expected: upstreamError,
  },
  { name: 'an array', script: sends(plain(200, 'application/json', '[]')), expected: upstreamError },
  { name: 'null', script: sends(plain(200, 'application/json', 'null')), expected: upstreamError },
  {
    name: 'a truncated body',
    script: sends(plain(200, 'application/json', completion(words, someUsage).slice(0, 90))),
    expected: upstreamError,
  },
  {
    name: 'a body shorter than announced',
    script: resets(
      headOf(200, { 'content-type': 'application/json', 'content-length': '5000' }),
      completion(words, someUsage),
    ),
    expected: upstreamError,
  },
  {
    name: 'an error with 200',
    script: sends(plain(200, 'application/json', '{"error":{"message":"SECRET-DETAIL"}}')),
    expected: upstreamError,
  },
  {
    name: 'a redirect',
    script: sends(
      plain(302, 'text/plain', '', { location: 'http://127.0.0.1:ATTACKER/v1/chat/completions' }),
    ),
    expected: upstreamError,
  },
  {
    name: 'a body of 25 MB',
    script: sends(plain(200, 'application/json', completion('w'.repeat(25_000_000), someUsage))),
    expected: upstreamError,
  },
  {
    name: 'a compressed body of 100 MB',
    script: sends(
      plain(200, 'application/json', gzipSync(Buffer.alloc(100_000_000, 0x20)), {
        'content-encoding': 'gzip',
      }),
    ),
    expected: upstreamError,
  },
  { name: 'silence before the headers', script: () => undefined, expected: refused(504, 'upstream_timeout') },
  {
    name: 'silence within the body',
    script: hangs(headOf(200, { 'content-type': 'application/json', 'content-length': '5000' }), '{"id":'),
    expected: refused(504, 'upstream_timeout'),
  },
  { name: 'a reset before the headers', script: (wire) => wire.reset(), expected: upstreamError },
  {
    name: 'good manners',
    script: sends(plain(200, 'application/json', completion(words, someUsage))),
    expected: counted(12, 4),
  },
  {
    name: 'no usage',
    script: sends(plain(200, 'application/json', completion(words, undefined))),
    expected: { kind: 'served', estimated: true },
  },
  {
    name: 'a compressed body',
    script: sends(
      plain(200, 'application/json', gzipSync(completion(words, someUsage)), { 'content-encoding': 'gzip' }),
    ),
    expected: counted(12, 4),
  },
  {
    name: 'JSON that calls itself plain text',
    script: sends(plain(200, 'text/plain', completion(words, someUsage))),
    expected: counted(12, 4),
  },
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
  const onText = (text: string) => void (text.includes('runs.') && readerOf(model).resolve())
  const messages = [{ role: 'user', content: 'Where does the river run?' }]
  const usage = stream ? { stream: true, stream_options: { include_usage: true } } : {}
  return post(weir, { model: `lab/${model}`, messages, max_tokens: 500, ...usage }, { onText, ...options })
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
    await expectOutcome(await call('finish-and-silence', true), { kind: 'served', estimated: true }, before)
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
    await expectOutcome(await call('absurd', true), { kind: 'served', estimated: true }, before)
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
