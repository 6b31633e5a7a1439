// A gateway without a process: it listens nowhere, and its time is what it is told.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { issueKey, type KeyRights, unlimited } from '../../src/accounts/account.ts'
import { loadConfig, rereadConfig } from '../../src/config/config.ts'
import { usd } from '../../src/credits/money.ts'
import { createGateway, type Gateway } from '../../src/serve/gateway/gateway.ts'
import { liveOf } from '../../src/serve/gateway/catalog.ts'
import { consoleSettingsOf } from '../../src/serve/gateway/configuration.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { tempDir } from '../support/tmp.ts'

const home = tempDir('weir-gateway-')
const started = Date.UTC(2026, 10, 22, 12)
let now = started
let store: Store
let gateway: Gateway
let key: string
let isWarming = false
let account: string
/** How long the connections of requests were allowed to be idle, seconds, one after the other. */
const idle: number[] = []

beforeAll(async () => {
  const loaded = loadConfig({
    flags: { data_dir: home.path },
    env: {},
    cwd: home.path,
    readFile: () => undefined,
  })
  if (loaded.kind === 'faulty') throw new Error('the default configuration is faulty')
  const { config } = loaded
  const quiet = () => undefined
  store = await openStore(home.path, {
    clock: () => now,
    clockBackMs: 0,
    notice: quiet,
    serveAs: 'gateway_test',
  })
  account = (await store.accounts.createAccount('someone@example.org', { role: 'user' })).id
  await store.ledger.grant({
    source: 'test',
    account,
    pool: 'purchased',
    amount: usd('1'),
    expiresAt: 'never',
    from: 'grant',
  })
  const expiresAt = started + 60_000
  const rights: KeyRights = {
    ...unlimited,
    account,
    name: 'short',
    mode: 'live',
    group: null,
    sees: 'own',
    expiresAt,
  }
  key = (await issueKey(store.accounts, rights, now)).text
  gateway = createGateway({
    config,
    store,
    live: liveOf(config, []),
    reread: rereadConfig(loaded, { flags: {}, env: {}, cwd: home.path }),
    kept: consoleSettingsOf(counted(store.settings), config),
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet, hide: quiet },
    clock: () => now,
    owner: 'gateway_test',
    traces: undefined,
    warming: () => isWarming,
    server: () => ({
      port: 8787,
      timeout: (_, seconds) => void idle.push(seconds),
      requestIP: () => null,
      upgrade: () => false,
    }),
  })
})

/** How often the settings that are kept were read, and so decrypted. */
let readings = 0
const counted = (settings: Store['settings']): Store['settings'] => ({
  revision: () => settings.revision(),
  latest: () => {
    readings++
    return settings.latest()
  },
  find: (revision) => settings.find(revision),
  append: (...given) => settings.append(...given),
})

afterAll(async () => {
  await store?.close()
  home.remove()
})

const ask = (more: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  gateway.fetch(
    new Request('http://weir.example/v1/chat/completions', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        host: 'weir.example',
        ...headers,
      },
      body: JSON.stringify({
        model: 'sim/echo',
        messages: [{ role: 'user', content: 'over the river' }],
        ...more,
      }),
    }),
  )

test('a call is answered and charged, though nothing listens', async () => {
  const response = await ask()
  expect(await response.json()).toMatchObject({ choices: [{ message: { content: 'over the river' } }] })
  const id = response.headers.get('x-request-id') ?? ''
  expect(await store.ledger.call(account, id)).toMatchObject({ state: 'settled' })
})

test.each([
  ['a whole answer', {}, {}],
  ['a refusal', { model: 'sim/none' }, {}],
  ['a kept answer', {}, { 'idempotency-key': 'once' }],
  ['the same again', {}, { 'idempotency-key': 'once' }],
])('the connection of %s may be idle for ever until it is there, and no longer', async (_, more, headers) => {
  idle.length = 0
  await ask(more, headers)
  expect(idle).toEqual([0, 255])
})

test.each([
  ['a stream', {}],
  ['a stream that is kept', { 'idempotency-key': 'streamed' }],
])('the connection of %s may be idle for ever until it ends', async (_, headers) => {
  idle.length = 0
  const response = await ask({ stream: true }, headers)
  expect(idle).toEqual([0])
  // After its end the runtime does not listen.
  for await (const bytes of response.body!) if (Buffer.from(bytes).includes('[DONE]')) break
  expect(idle).toEqual([0, 255])
})

test('a key expires by the clock of the gateway', async () => {
  now = started + 60_001
  const response = await ask()
  expect(response.status).toBe(401)
  expect(await response.json()).toMatchObject({ error: { code: 'api_key_expired' } })
  now = started
})

test('settings that are kept are read again only when somebody has changed them', async () => {
  const { configuration } = gateway
  const before = readings
  for (let times = 0; times < 3; times++) expect(await configuration.follow()).toBe(false)
  expect(readings).toBe(before)
  const settings = JSON.stringify({ aliases: { echo: 'sim/echo' } })
  const act = { at: now, operator: 'op', what: 'config.change', subject: '1', before: null, after: null }
  const row = { revision: 1, at: now, operator: 'op', before: 0, settings, sealed: null }
  expect(await store.settings.append(row, act, 9)).toBe(true)
  expect(await configuration.follow()).toBe(true)
  expect((await ask({ model: 'echo' })).status).toBe(200)
  expect(await configuration.follow()).toBe(false)
  expect(readings).toBe(before + 1)
})

test('a gateway that warms up takes calls, and says that it is not ready', async () => {
  const ready = () =>
    gateway.fetch(new Request('http://weir.example/readyz', { headers: { host: 'weir.example' } }))
  isWarming = true
  expect((await ask()).status).toBe(200)
  expect((await ready()).status).toBe(503)
  isWarming = false
  expect(await (await ready()).json()).toEqual({
    status: 'ready',
    store: 'writable',
    warming: false,
    draining: false,
  })
})

test('a gateway that drains takes no new call', async () => {
  gateway.drain()
  expect((await ask()).status).toBe(503)
  expect(gateway.inFlight.size).toBe(0)
})
