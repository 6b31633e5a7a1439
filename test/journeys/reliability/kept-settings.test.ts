// Settings that operators change by the API: in force at once, kept with their keys sealed, checked like the file, which
// wins; each change can be taken back.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually, expectPrinted, getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { openStore } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'
import { run } from '../../cli/run.ts'

type Json = Readonly<Record<string, unknown>>

const masterKey = 'a-master-key-0123456789-abcdefghijk'
const labKey = 'secret-key-of-the-lab-4711'
const price = { input: '1', output: '2' }
const configOf = (more: object = {}) =>
  JSON.stringify({ local_servers: { discover: false }, secrets: { master_key: masterKey }, ...more })

let first: MockProvider
let second: MockProvider

beforeAll(async () => {
  first = await startMockProvider({ words: ['one'] })
  second = await startMockProvider({ words: ['two'] })
})
afterAll(() => Promise.all([first?.stop(), second?.stop()]))

const lab = (origin = first.url, key = labKey) => ({
  providers: { lab: { protocol: 'openai-chat', base_url: origin, api_key: key } },
  models: { 'lab/m': { price, max_output_tokens: 100 } },
})

class Operator {
  readonly #weir: ServedWeir
  readonly #key: string

  constructor(weir: ServedWeir, key: string) {
    this.#weir = weir
    this.#key = key
  }

  async do(method: 'GET' | 'PATCH' | 'POST', path: string, body?: object) {
    const address = `${this.#weir.origin}/admin/v1/${path}`
    const answer =
      body === undefined
        ? await getAs(address, this.#key)
        : await postAs(address, this.#key, body, { method })
    const json = (await answer.json()) as Json
    if (answer.ok) expectDocumented('admin', method, path, json)
    const error = json['error'] as (Json & { metadata: { faults: Json[] } }) | undefined
    return { status: answer.status, json, error }
  }

  change(settings: object, more: object = {}) {
    return this.do('PATCH', 'config', { settings, ...more })
  }

  async acts() {
    return ((await this.do('GET', 'acts')).json['data'] as Json[]).filter(({ what }) =>
      String(what).startsWith('config.'),
    )
  }
}

async function operatorOf(weir: ServedWeir): Promise<Operator> {
  const made = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
  return new Operator(weir, String(made['key']))
}

const ask = async (weir: ServedWeir, key: string, model = 'lab/m') => {
  const body = { model, messages: [{ role: 'user', content: 'hi' }] }
  const answer = await postAs(`${weir.baseUrl}/chat/completions`, key, body)
  return { status: answer.status, text: await answer.text(), headers: answer.headers }
}

describe('a change', () => {
  let weir: ServedWeir
  let operator: Operator
  beforeAll(async () => {
    weir = await serveWeir({
      config: configOf({
        providers: { groq: { api_key: 'gsk-of-the-file-0123456789', name: 'Ours' } },
        models: [{ id: 'written', route: { to: ['sim/echo'] } }],
        aliases: { old: 'sim/echo' },
      }),
      env: { MISTRAL_API_KEY: 'key-of-the-environment-123' },
    })
    operator = await operatorOf(weir)
  }, 30_000)
  afterAll(() => weir?.stop())

  test('of a provider, its key and its model serves calls at once, and the key is nowhere to be read', async () => {
    expect((await ask(weir, weir.key)).status).toBe(404)
    const changed = await operator.change(lab(), { revision: 0 })
    expect(changed).toMatchObject({ status: 200, json: { revision: 1, warnings: [] } })
    expect(changed.json['changes']).toContainEqual({
      setting: 'providers.lab.api_key',
      from: null,
      to: ['****4711'],
      restart: false,
    })
    expect(await ask(weir, weir.key)).toMatchObject({ status: 200, text: expect.stringContaining('one') })
    expect(first.bill.at(-1)!.authorization).toBe(`Bearer ${labKey}`)

    const { json } = await operator.do('GET', 'config')
    expect(json).toMatchObject({ revision: 1, can_undo: true, takes_keys: true, unreadable: [] })
    expect(json['providers']).toContainEqual(
      expect.objectContaining({
        id: 'lab',
        state: 'in_service',
        settings: expect.arrayContaining([
          { setting: 'api_key', value: ['****4711'], source: 'console', origin: 'console' },
        ]),
      }),
    )
    const [act] = await operator.acts()
    expect(act).toMatchObject({
      what: 'config.change',
      subject: 'revision 1',
      after: { 'providers.lab.base_url': first.url },
    })
    const files = readdirSync(weir.dataDir).map((name) => readFileSync(join(weir.dataDir, name), 'latin1'))
    for (const text of [JSON.stringify(json), JSON.stringify(act), weir.output(), ...files])
      expect(text).not.toContain(labKey)
  })

  test('that another process makes is in force soon, and one with a fault is not', async () => {
    const store = await openStore(weir.dataDir, { clock: Date.now })
    const add = async (change: Json) => {
      const latest = (await store.settings.latest())!
      const settings = JSON.stringify({ ...(JSON.parse(latest.settings) as Json), ...change })
      const row = { ...latest, revision: latest.revision + 1, before: latest.revision, settings }
      const act = { at: 0, operator: 'other', what: 'config.change', subject: '', before: null, after: null }
      expect(await store.settings.append(row, act, 100)).toBe(true)
    }
    const isServed = () => ask(weir, weir.key, 'elsewhere')
    await add({ aliases: { elsewhere: 'sim/echo' } })
    expect((await eventually(isServed, ({ status }) => status === 200)).status).toBe(200)
    await expectPrinted(weir, 'the configuration was changed elsewhere')
    await add({ aliases: { elsewhere: 7 } })
    await expectPrinted(weir, 'what was changed of the configuration elsewhere is not in force here')
    expect((await isServed()).status).toBe(200)
    await add({ aliases: {} })
    expect((await eventually(isServed, ({ status }) => status !== 200)).status).toBe(400)
    await store.close()
  })

  test('adds a second key beside the first without repeating it', async () => {
    const { status } = await operator.change({
      providers: { lab: { api_key: [{ keep: 1 }, 'another-key-of-the-lab-815'] } },
    })
    expect(status).toBe(200)
    const seen = new Set<string>()
    for (let call = 0; call < 40 && seen.size < 2; call++) {
      await ask(weir, weir.key)
      seen.add(first.bill.at(-1)!.authorization!)
    }
    expect([...seen].toSorted()).toEqual([`Bearer another-key-of-the-lab-815`, `Bearer ${labKey}`])
    const wrong = await operator.change({ providers: { lab: { api_key: [{ keep: 3 }] } } })
    expect(wrong.error?.metadata.faults).toContainEqual({
      setting: 'providers.lab.api_key',
      problem: 'there is no key 3 to keep',
    })
  })

  test('of routes, aliases, offers and limits holds from then on', async () => {
    await operator.change({
      models: [{ id: 'fast', route: { to: ['lab/m', 'sim/echo'] } }],
      aliases: { quick: 'fast' },
      catalog: { hide: ['sim/long'] },
    })
    expect((await ask(weir, weir.key, 'quick')).headers.get('x-weir-model')).toContain('route="fast"')
    expect((await ask(weir, weir.key, 'sim/long')).status).toBe(404)
    await operator.change({ providers: { lab: { disabled: true } } })
    expect((await ask(weir, weir.key, 'quick')).text).not.toContain('one')
    await operator.change({
      providers: { lab: { disabled: null } },
      models: { fast: null },
      aliases: { quick: null },
      catalog: { hide: null },
    })
    expect((await ask(weir, weir.key)).status).toBe(200)
    expect((await ask(weir, weir.key, 'quick')).status).toBe(400)
    expect((await ask(weir, weir.key, 'sim/long')).status).toBe(200)

    await operator.change({ rate_limits: { key_requests_per_minute: 1 } })
    expect([(await ask(weir, weir.key)).status, (await ask(weir, weir.key)).status]).toContain(429)
    await operator.change({ rate_limits: null })
    expect((await ask(weir, weir.key)).status).toBe(200)
  })

  test('that would do something is shown before, and changes nothing', async () => {
    const before = (await operator.do('GET', 'config')).json
    const settings = { models: { fast: { route: { to: ['nowhere/x'] } } } }
    const { json } = await operator.do('POST', 'config/preview', { settings })
    expect(json).toMatchObject({
      revision: before['revision'],
      changes: [{ setting: 'models.fast', from: null, restart: false }],
      warnings: [{ setting: 'models: fast', problem: expect.stringContaining('none of nowhere/x is sold') }],
    })
    expect((await operator.do('GET', 'config')).json).toEqual(before)
    expect((await ask(weir, weir.key, 'fast')).status).toBe(400)
  })

  test('with faults changes nothing, and all of them are named', async () => {
    const before = (await operator.do('GET', 'config')).json
    const { status, error } = await operator.change({
      providers: {
        lab: { base_url: 'nonsense', protocl: 'x', api_key: 'file:/etc/passwd', deployments: [{}] },
        other: {},
        third: { name: 'x' },
      },
      models: [
        { id: 'a', route: { to: ['b'] } },
        { id: 'b', route: { to: ['a'] } },
        { id: 'c', price: 5 },
      ],
      catalog: { bare_names: 'perhaps' },
      server: { port: 1 },
      search: { backend: 'sim' },
      timeouts: 5,
    })
    expect({ status, code: error?.['code'] }).toEqual({ status: 400, code: 'invalid_request' })
    const faults = Object.fromEntries(
      error!.metadata.faults.map(({ setting, problem }) => [setting, problem]),
    )
    expect(faults).toMatchObject({
      'providers.lab.base_url': expect.stringContaining('must be a full address'),
      'providers.lab.protocl': 'unknown key; did you mean providers.lab.protocol?',
      'providers.lab.api_key': expect.stringContaining('is taken as it is here'),
      'providers.lab.deployments': 'is set in weir.yaml or the environment alone',
      'providers.third': expect.stringContaining('it needs protocol and base_url'),
      'models.a.route.to': expect.stringContaining('leads back to itself'),
      'models.c.price': expect.stringContaining('give at least input and output'),
      'catalog.bare_names': expect.stringContaining('must be true or false'),
      'server.port': 'is set in weir.yaml or the environment alone',
      'search.backend': 'is set in weir.yaml or the environment alone',
      timeouts: 'must be a mapping',
    })
    expect((await operator.do('GET', 'config')).json).toEqual(before)
  })

  test('of what a file says is refused with its place, of what a shared variable says it is not', async () => {
    const { error } = await operator.change({
      providers: { groq: { name: 'Theirs' } },
      models: { written: { route: { to: ['sim/long'] } } },
      aliases: { old: 'sim/long' },
    })
    expect(error?.metadata.faults).toEqual([
      {
        setting: 'providers.groq.name',
        problem: expect.stringMatching(/^is set by weir\.yaml:1, which wins/),
      },
      { setting: 'models.written', problem: expect.stringContaining('is set by weir.yaml:1') },
      { setting: 'aliases.old', problem: expect.stringContaining('is set by weir.yaml:1') },
    ])
    expect(await operator.change({ providers: { groq: { disabled: true } } })).toMatchObject({ status: 200 })
    const own = { providers: { mistral: { api_key: 'a-key-of-the-console-999' } } }
    expect(await operator.change(own)).toMatchObject({ status: 200 })
    await operator.change({ providers: { mistral: null } })
    const { json } = await operator.do('GET', 'config')
    expect(json['providers']).toContainEqual(
      expect.objectContaining({
        id: 'mistral',
        settings: [expect.objectContaining({ source: 'environment', origin: 'MISTRAL_API_KEY' })],
      }),
    )
  })

  test('sends no key of the file or the environment to another address', async () => {
    for (const id of ['groq', 'mistral'])
      expect(await operator.change({ providers: { [id]: { base_url: second.url } } })).toMatchObject({
        status: 400,
        error: { metadata: { faults: [{ setting: `providers.${id}.base_url` }] } },
      })
    // Nor a key that was entered for another address.
    expect(await operator.change({ providers: { lab: { base_url: second.url } } })).toMatchObject({
      status: 400,
      error: {
        metadata: {
          faults: [{ setting: 'providers.lab.base_url', problem: expect.stringContaining('again') }],
        },
      },
    })
    expect(second.bill).toHaveLength(0)
    const keyed = { providers: { lab: { base_url: second.url, api_key: labKey } } }
    expect(await operator.change(keyed)).toMatchObject({ status: 200 })
    expect((await ask(weir, weir.key)).text).toContain('two')
  })

  test('of settings that somebody else has changed is refused, and of two at once one holds', async () => {
    const { revision } = (await operator.do('GET', 'config')).json
    const both = await Promise.all(
      ['x', 'y'].map((name) => operator.change({ aliases: { [name]: 'sim/echo' } }, { revision })),
    )
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 409])
    expect(both.find(({ status }) => status === 409)!.error).toMatchObject({
      code: 'configuration_changed',
      metadata: { revision: Number(revision) + 1 },
    })
  })
})

describe('a test', () => {
  let weir: ServedWeir
  let operator: Operator
  beforeAll(async () => {
    weir = await serveWeir({
      config: configOf({ models: [{ id: 'pair', route: { to: ['lab/m', 'sim/echo'] } }] }),
    })
    operator = await operatorOf(weir)
    await operator.change({ ...lab(), aliases: { quick: 'lab/m' } })
  }, 30_000)
  afterAll(() => weir?.stop())

  const tryOut = async (body: object) => {
    const { status, json, error } = await operator.do('POST', 'config/test', body)
    return { status, json, error, calls: json['calls'] as Json[] | undefined }
  }

  test('calls a provider now: text, time, tokens and cost, on nobody’s account', async () => {
    const balance = async () => await runJson(weir, 'credits', 'show', '--account', 'owner@localhost')
    const before = await balance()
    const tested = await tryOut({ provider: 'lab' })
    expect(tested).toMatchObject({
      status: 200,
      json: { ok: true, left_out: 0 },
      calls: [{ provider: 'lab', model: 'lab/m', key: 1, text: 'one', problem: null, error: null }],
    })
    const [call] = tested.calls!
    const { prompt, completion } = call!['tokens'] as { prompt: number; completion: number }
    expect(call!['cost_usd']).toBe(String((prompt + 2 * completion) / 1_000_000))
    expect(Number(call!['latency_ms'])).toBeGreaterThanOrEqual(0)
    expect(first.bill.at(-1)!.authorization).toBe(`Bearer ${labKey}`)
    expect(await balance()).toEqual(before)
    expect((await operator.do('GET', 'requests')).json['data']).toEqual([])
    const [act] = await operator.acts()
    expect(act).toMatchObject({
      what: 'config.test',
      subject: 'lab',
      after: { proposed: false, calls: [{ provider: 'lab', cost_usd: call!['cost_usd'], problem: null }] },
    })
  })

  test('of a change calls what would be in force, and keeps nothing of it', async () => {
    const shown = (await operator.do('GET', 'config')).json
    const key = 'proposed-key-0123456789'
    const { settings } = { settings: lab(second.url, key) }
    expect(await tryOut({ provider: 'lab', settings, revision: 1 })).toMatchObject({
      status: 200,
      calls: [{ text: 'two' }],
    })
    expect(second.bill.at(-1)!.authorization).toBe(`Bearer ${key}`)
    const unnamed = { providers: { fresh: { ...settings.providers.lab } } }
    // A model that nobody has entered yet has no price.
    expect(await tryOut({ provider: 'fresh', model: 'fresh/m', settings: unnamed })).toMatchObject({
      calls: [{ model: 'fresh/m', upstream: 'm', text: 'two', cost_usd: null }],
    })
    const nowhere = { providers: { lab: { base_url: 'http://127.0.0.1:1/v1', api_key: key } } }
    expect(await tryOut({ provider: 'lab', settings: nowhere })).toMatchObject({
      json: { ok: false },
      calls: [{ text: null, problem: 'unreachable', error: expect.stringContaining('nothing listens') }],
    })
    expect((await operator.do('GET', 'config')).json).toEqual(shown)
    expect((await ask(weir, weir.key)).text).toContain('one')
    expect(JSON.stringify(await operator.acts()) + weir.output()).not.toContain(key)
    // Nor is a key sent elsewhere by a test.
    const moved = { providers: { lab: { base_url: second.url } } }
    expect((await tryOut({ provider: 'lab', settings: moved })).status).toBe(400)
    expect((await tryOut({ provider: 'lab', settings, revision: 0 })).status).toBe(409)
  })

  test('calls an alias, and every member of a route', async () => {
    expect((await tryOut({ model: 'quick' })).calls).toMatchObject([{ model: 'lab/m', text: 'one' }])
    expect((await tryOut({ model: 'pair' })).calls).toMatchObject([
      { provider: 'lab', text: 'one' },
      { provider: 'sim', model: 'sim/echo', text: 'Say yes.' },
    ])
    expect(await tryOut({ provider: 'sim', model: 'sim/error-429' })).toMatchObject({
      calls: [{ problem: 'rate_limited', error: expect.stringContaining('HTTP 429') }],
    })
    expect((await tryOut({ provider: 'openai' })).calls).toMatchObject([
      { problem: 'no_key', error: expect.stringContaining('OPENAI_API_KEY'), latency_ms: null },
    ])
  })

  test('of what does not exist is refused, and so are too many', async () => {
    expect(await tryOut({ provider: 'labb' })).toMatchObject({
      status: 404,
      error: { code: 'not_found', message: expect.stringContaining('lab') },
    })
    expect((await tryOut({ model: 'lab/none' })).error).toMatchObject({ code: 'model_not_found' })
    expect((await tryOut({})).status).toBe(400)
    let last = await tryOut({ provider: 'sim' })
    for (let more = 0; more < 30 && last.status === 200; more++) last = await tryOut({ provider: 'sim' })
    expect(last.error).toMatchObject({
      code: 'rate_limit_exceeded',
      message: expect.stringContaining('30 tests in a minute'),
    })
  })
})

test('each change is taken back, one after the other, by the API and by the command', async () => {
  const weir = await serveWeir({ config: configOf() })
  const operator = await operatorOf(weir)
  const config = async () => (await operator.do('GET', 'config')).json
  expect(await operator.do('POST', 'config/undo', {})).toMatchObject({ status: 404 })
  await operator.change(lab())
  await operator.change({ providers: { lab: { base_url: second.url, api_key: labKey } } })
  expect((await ask(weir, weir.key)).text).toContain('two')
  expect(await operator.do('POST', 'config/undo', { revision: 1 })).toMatchObject({ status: 409 })
  const undone = await operator.do('POST', 'config/undo', { revision: 2 })
  expect(undone.json).toMatchObject({
    revision: 3,
    changes: [{ setting: 'providers.lab.base_url', to: first.url }],
  })
  expect((await ask(weir, weir.key)).text).toContain('one')
  expect(first.bill.at(-1)!.authorization).toBe(`Bearer ${labKey}`)
  const command = await runJson<{ revision: number }>(weir, 'config', 'undo')
  expect(command.revision).toBe(4)
  expect((await ask(weir, weir.key)).status).toBe(404)
  expect(await config()).toMatchObject({ revision: 4, can_undo: false })
  expect(await operator.do('POST', 'config/undo', {})).toMatchObject({ status: 404 })
  expect((await operator.acts()).map(({ what }) => what)).toEqual([
    'config.undo',
    'config.undo',
    'config.change',
    'config.change',
  ])
  await weir.stop()
}, 30_000)

test('without a master key no key is taken, and everything else is', async () => {
  const weir = await serveWeir({ config: JSON.stringify({ local_servers: { discover: false } }) })
  const operator = await operatorOf(weir)
  expect(await operator.change(lab())).toMatchObject({
    status: 400,
    error: { code: 'unsupported_parameter', message: expect.stringContaining('secrets.master_key') },
  })
  expect((await ask(weir, weir.key)).status).toBe(404)
  expect(await operator.change({ aliases: { quick: 'sim/echo' } })).toMatchObject({ status: 200 })
  expect((await ask(weir, weir.key, 'quick')).status).toBe(200)
  await weir.stop()
}, 30_000)

test('changes outlive the gateway; with another master key their keys are named, and lost with nothing else', async () => {
  const data = tempDir('weir-kept-')
  const begun = await serveWeir({ config: configOf(), dataDir: data.path })
  const { key } = begun
  await (await operatorOf(begun)).change({ ...lab(), aliases: { quick: 'lab/m' } })
  await begun.stop()

  const again = await serveWeir({ config: configOf(), dataDir: data.path })
  expect((await ask(again, key, 'quick')).text).toContain('one')
  expect(first.bill.at(-1)!.authorization).toBe(`Bearer ${labKey}`)
  await again.stop()

  const config = configOf({ secrets: { master_key: 'another-master-key-0123456789-xyz' } })
  const other = await serveWeir({ config, dataDir: data.path })
  await expectPrinted(other, 'providers.lab.api_key')
  const operator = await operatorOf(other)
  expect((await operator.do('GET', 'config')).json['unreadable']).toEqual(['providers.lab.api_key'])
  // A change of something else must not drop them for good.
  expect(await operator.change({ aliases: { slow: 'lab/m' } })).toMatchObject({
    status: 400,
    error: { metadata: { faults: [{ setting: 'providers.lab.api_key' }] } },
  })
  const entered = { providers: { lab: { api_key: 'entered-again-0123456789' } } }
  expect(await operator.change(entered)).toMatchObject({ status: 200 })
  expect((await ask(other, key, 'quick')).status).toBe(200)
  expect(first.bill.at(-1)!.authorization).toBe('Bearer entered-again-0123456789')
  await other.stop()
  data.remove()
}, 60_000)

test('what does not fit the file any more keeps the gateway from starting, until it is taken back', async () => {
  const data = tempDir('weir-kept-')
  const begun = await serveWeir({ config: configOf(), dataDir: data.path })
  await (await operatorOf(begun)).change({ models: { fast: { route: { to: ['quick'] } } } })
  await begun.stop()
  const looping = configOf({ aliases: { quick: 'fast' } })
  await expect(serveWeir({ config: looping, dataDir: data.path })).rejects.toThrow(
    /console: models\.fast\.route\.to: leads back to itself/,
  )
  const undone = await run({ cwd: data.path, now: Date.now() }, 'config', 'undo', '--data-dir', data.path)
  expect(undone).toMatchObject({ code: 0, out: expect.stringContaining('in force at the next start') })
  const mended = await serveWeir({ config: looping, dataDir: data.path })
  await mended.stop()
  data.remove()
}, 60_000)
