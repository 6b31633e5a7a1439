// A gateway changes while it runs: providers, models, limits. No call is lost, and none is answered by a mixture.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { eventually, expectPrinted, getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'
import { type ServedWeir, startWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let first: MockProvider
let second: MockProvider
let weir: ServedWeir
let operatorKey: string
let file: string

const price = { input: '1', output: '2' }
const configOf = (origin: string, more: object = {}) => ({
  local_servers: { discover: false },
  rate_limits: { account_requests_per_minute: 100_000 },
  providers: { lab: { protocol: 'openai-chat', base_url: origin, api_key: 'secret-key-of-the-lab' } },
  models: [{ id: 'lab/m', price, max_output_tokens: 4096 }],
  ...more,
})
const write = (config: object | string) =>
  writeFileSync(file, typeof config === 'string' ? config : JSON.stringify(config))

beforeAll(async () => {
  first = await startMockProvider({ words: ['one ', 'one ', 'one'] })
  second = await startMockProvider({ words: ['two ', 'two ', 'two'] })
  weir = await serveWeir({ config: JSON.stringify(configOf(first.url)) })
  operatorKey = String(
    (await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost'))['key'],
  )
  const settings = await getAs(`${weir.origin}/admin/v1/settings`, operatorKey)
  file = ((await settings.json()) as { file: string }).file
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await Promise.all([first?.stop(), second?.stop()])
})

const ask = (model = 'lab/m', stream = false) =>
  postAs(`${weir.baseUrl}/chat/completions`, weir.key, {
    model,
    stream,
    messages: [{ role: 'user', content: 'hi' }],
  })
const reload = async (body: object = {}) => {
  const answer = await postAs(`${weir.origin}/admin/v1/config/reload`, operatorKey, body)
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
}

test('twenty swaps under load lose no call, and no answer is a mixture', async () => {
  const ended = new AbortController()
  const answers: string[] = []
  const callers = Array.from({ length: 8 }, async (_, at) => {
    while (!ended.signal.aborted) {
      const answer = await ask('lab/m', at % 2 === 0)
      const text = await answer.text()
      answers.push(answer.status === 200 ? text : `${answer.status} ${text}`)
    }
  })
  for (let swap = 0; swap < 20; swap++) {
    write(configOf(swap % 2 === 0 ? second.url : first.url))
    expect(await reload()).toMatchObject({
      status: 200,
      json: { applied: true, changes: [{ setting: 'providers.lab.base_url', restart: false }] },
    })
    const asked = answers.length
    await eventually(
      () => Promise.resolve(answers.length),
      (count) => count >= asked + 8,
    )
  }
  ended.abort()
  await Promise.all(callers)
  const kinds = answers.map((text) => `${/one/.test(text) ? 'one' : ''}${/two/.test(text) ? 'two' : ''}`)
  expect(kinds.filter((kind) => kind !== 'one' && kind !== 'two')).toEqual([])
  expect(new Set(kinds)).toEqual(new Set(['one', 'two']))
}, 60_000)

test('a model, a route and an alias are there at once, and one that is taken out is gone', async () => {
  write(
    configOf(first.url, {
      models: [{ id: 'fast', route: { to: ['sim/echo'] } }],
      aliases: { quick: 'fast' },
    }),
  )
  expect((await reload()).status).toBe(200)
  expect((await ask('quick')).headers.get('x-weir-model')).toBe('sim/echo; route="fast"; reason=order')
  expect((await ask()).status).toBe(404)
  write(configOf(first.url))
  await reload()
  expect((await ask()).status).toBe(200)
  expect((await ask('quick')).status).toBe(400)
})

test('a limit holds from then on', async () => {
  write(configOf(first.url, { rate_limits: { key_requests_per_minute: 1 } }))
  await reload()
  const statuses = [(await ask()).status, (await ask()).status]
  expect(statuses).toEqual([200, 429])
  write(configOf(first.url))
  await reload()
  expect((await ask()).status).toBe(200)
})

test('a configuration with faults changes nothing, and names all of them', async () => {
  write('providers: { lab: { base_url: 5 } }\nservr: {}')
  const { status, json } = await reload()
  expect({ status, text: JSON.stringify(json) }).toEqual({
    status: 400,
    text: expect.stringMatching(/servr.*base_url|base_url.*servr/),
  })
  expect((await ask()).status).toBe(200)
  const command = await weir.command('config', 'reload')
  expect(command).toMatchObject({ code: 78, stderr: expect.stringContaining('servr') })
})

describe('what would change', () => {
  test('is told without a change, what needs a restart by name, and no secret', async () => {
    const before = configOf(first.url)
    write({
      ...before,
      server: { max_body_bytes: 2_000_000 },
      providers: { lab: { ...before.providers.lab, api_key: 'another-secret-key' } },
    })
    const { json } = await reload({ dry_run: true })
    expect(json).toMatchObject({ applied: false })
    expect(json['changes']).toContainEqual({
      setting: 'server.max_body_bytes',
      from: 10_485_760,
      to: 2_000_000,
      restart: true,
    })
    expect(json['changes']).toContainEqual(
      expect.objectContaining({ setting: 'providers.lab.api_key', restart: false }),
    )
    expect(JSON.stringify(json)).not.toContain('another-secret-key')
    await ask()
    expect(first.bill.at(-1)!.authorization).toBe('Bearer secret-key-of-the-lab')
  })

  test('is what the command changes, and the log of acts has it', async () => {
    const { changes } = await runJson<{ changes: unknown[] }>(weir, 'config', 'reload', '--dry-run')
    expect(changes).toHaveLength(2)
    expect(await weir.command('config', 'reload')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^in force now:[^]*server\.max_body_bytes {2}\(at the next start\)/),
    })
    await ask()
    expect(first.bill.at(-1)!.authorization).toBe('Bearer another-secret-key')
    const acts = await (await getAs(`${weir.origin}/admin/v1/acts`, operatorKey)).json()
    expect(JSON.stringify(acts)).toContain('config.reload')
    // The key that the command has made for itself is gone.
    const keys = await (await getAs(`${weir.origin}/admin/v1/management-keys`, operatorKey)).json()
    expect(JSON.stringify(keys)).not.toContain('weir config reload')
    expect(weir.output()).not.toContain('another-secret-key')
  })
})

test('SIGHUP reads it again, and the log has its faults', async () => {
  await using process = await startWeir({ config: JSON.stringify(configOf(first.url)) })
  const settings = await runJson<{ file: string }>(process, 'config', 'show')
  writeFileSync(settings.file, 'servr: {}')
  globalThis.process.kill(process.pid, 'SIGHUP')
  await expectPrinted(process, 'servr')
  writeFileSync(settings.file, JSON.stringify(configOf(second.url)))
  globalThis.process.kill(process.pid, 'SIGHUP')
  await expectPrinted(process, 'was read again')
  const body = { model: 'lab/m', messages: [{ role: 'user', content: 'hi' }] }
  expect(await (await postAs(`${process.baseUrl}/chat/completions`, process.key, body)).text()).toContain(
    'two',
  )
}, 30_000)
