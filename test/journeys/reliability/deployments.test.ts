// Several deployments of one provider: each call has one, limits are kept before the provider has to, and what one of
// them refuses goes to another.

import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { expectAudited, type Answer, post, receiptOf } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import {
  completion,
  plain,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
  type Wire,
} from '../../support/scripted-provider.ts'
import { tempDir } from '../../support/tmp.ts'

const secrets = ['first-deployment-secret', 'second-deployment-secret', 'third-deployment-secret']
const [first, second, third] = secrets as [string, string, string]

let providers: readonly ScriptedProvider[] = []
let weir: ServedWeir
const dir = tempDir('weir-deployments-')
/** Calls that hang until this resolves. */
let release = Promise.withResolvers<void>()

async function answer(wire: Wire): Promise<void> {
  if (wire.body['model'] === 'slow') await release.promise
  await wire.write(plain(200, 'application/json', completion('Downhill.', someUsage)))
  wire.end()
}

async function refuse(wire: Wire): Promise<void> {
  const error = JSON.stringify({
    error: { message: 'no credit left', type: 'insufficient_quota', code: null },
  })
  await wire.write(plain(402, 'application/json', error, { connection: 'close', 'retry-after': '60' }))
  wire.end()
}

beforeAll(async () => {
  providers = [
    await startScriptedProvider({}, () => answer),
    await startScriptedProvider({}, ({ model }) => (model === 'broke' ? refuse : answer)),
  ]
  const [a, b] = providers.map(({ url }) => url) as [string, string]
  writeFileSync(dir.join('key'), `${third}\n`)
  const pair = (limits: object) => [
    { base_url: a, api_key: first, region: 'west', weight: 1000, ...limits },
    { base_url: b, api_key: second, ...limits },
  ]
  const price = { input: '1', output: '2' }
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      log: { level: 'debug' },
      providers: {
        rated: { protocol: 'openai-chat', deployments: pair({ requests_per_minute: 2 }) },
        sized: { protocol: 'openai-chat', deployments: pair({ tokens_per_minute: 1_000 }) },
        flight: { protocol: 'openai-chat', deployments: pair({ max_in_flight: 1 }) },
        poor: {
          protocol: 'openai-chat',
          deployments: [
            { base_url: b, api_key: second, weight: 1_000_000 },
            { base_url: a, api_key: `file:${dir.join('key')}`, weight: 0.000_001 },
          ],
        },
      },
      models: ['rated/m', 'sized/m', 'flight/slow', 'poor/broke'].map((id) => ({
        id,
        price,
        max_output_tokens: 1000,
      })),
    }),
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await Promise.all(providers.map((provider) => provider.stop()))
  dir[Symbol.dispose]()
})

const ask = (model: string, more: object = {}) =>
  post(weir, { model, messages: [{ role: 'user', content: 'Where?' }], ...more })
const asked = (from: readonly number[]) => providers.map(({ arrivals }, at) => arrivals.length - from[at]!)
const counted = () => providers.map(({ arrivals }) => arrivals.length)
const expectFull = ({ status, error, headers }: Answer) => {
  expect({ status, code: error?.code }).toEqual({ status: 429, code: 'upstream_rate_limited' })
  expect(Number(headers.get('retry-after'))).toBeWithin(1, 62)
}

test('what one may not be asked in this minute goes to the other; beyond that nobody is asked', async () => {
  const from = counted()
  const answers = []
  for (let at = 0; at < 5; at++) answers.push(await ask('rated/m'))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 429])
  expect(asked(from)).toEqual([2, 2])
  expectFull(answers[4]!)
  // Who was passed over is no attempt, and nothing is wrong with it.
  const receipt = (await receiptOf(weir, answers[3]!.requestId))!
  expect(receipt.attempts.map(({ outcome }) => outcome)).toEqual(['served'])
  expect(providers[0]!.arrivals.at(-1)!.headers.get('authorization')).toBe(`Bearer ${first}`)
  expect(providers[1]!.arrivals.at(-1)!.headers.get('authorization')).toBe(`Bearer ${second}`)
})

test('tokens count by the prompt and by what is asked for', async () => {
  const from = counted()
  const answers = []
  for (let at = 0; at < 3; at++) answers.push(await ask('sized/m', { max_tokens: 900 }))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429])
  expect(asked(from)).toEqual([1, 1])
  expectFull(answers[2]!)
})

test('one call at a time is at each, and the place is free when it has ended', async () => {
  const from = counted()
  const both = [ask('flight/slow'), ask('flight/slow')]
  while (asked(from).some((count) => count === 0)) await Bun.sleep(5)
  expectFull(await ask('flight/slow', { max_tokens: 7 }))
  release.resolve()
  expect((await Promise.all(both)).map(({ status }) => status)).toEqual([200, 200])
  release = Promise.withResolvers()
  release.resolve()
  expect((await ask('flight/slow')).status).toBe(200)
})

test('a deployment whose account is empty is asked last until the time that it names', async () => {
  const from = counted()
  const answers = []
  for (let at = 0; at < 5; at++) answers.push(await ask('poor/broke'))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  expect(asked(from)).toEqual([5, 1])
  expect(providers[0]!.arrivals.at(-1)!.headers.get('authorization')).toBe(`Bearer ${third}`)
})

test('their keys are shown to nobody', async () => {
  const shown = await weir.command('config', 'show')
  for (const secret of secrets) {
    expect(shown.stdout + shown.stderr).not.toContain(secret)
    expect(weir.output()).not.toContain(secret)
  }
  expect(shown.stdout).toMatch(/providers\.rated\.deployments .*\*\*\*\*/)
})

test('nothing is held, and the ledger proves itself', () => expectAudited(weir))
