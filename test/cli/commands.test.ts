// The command-line contract: machine output, exit codes, and what each command does to the store.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Glob } from 'bun'
import { readFileSync, writeFileSync } from 'node:fs'
import type { CatalogFile, CatalogRow } from '../../src/catalog/row.ts'
import { type TempDir, tempDir } from '../support/tmp.ts'
import { json, type Machine, moment, run } from './run.ts'

let home: TempDir
let machine: Machine

beforeAll(async () => {
  home = tempDir('weir-cli-')
  machine = { cwd: home.path }
  await json(machine, 'accounts', 'create', '--email', 'ada@example.org')
})
afterAll(() => home.remove())

const keyForm = /^sk-weir-(live|test)-[0-9A-Za-z]{12}-[0-9A-Za-z]{39}$/

describe('accounts', () => {
  test('create answers with id and email, list and show find it', async () => {
    const created = await json(machine, 'accounts', 'create', '--email', 'grace@example.org')
    expect(created).toEqual({
      id: expect.any(String),
      email: 'grace@example.org',
      created_at: '2026-11-21T12:00:00.000Z',
      suspended: false,
      role: 'user',
      email_verified: true,
      verified: true,
    })
    const unused = { balance_usd: '0', spent_usd: '0', last_call_at: null }
    expect(await json(machine, 'accounts', 'list')).toContainEqual({
      ...Object(created),
      ...unused,
      available: '0',
    })
    expect(await json(machine, 'accounts', 'show', 'grace@example.org')).toMatchObject({
      ...Object(created),
      keys: [],
    })
  })

  test('an address that is taken, and one that is none', async () => {
    expect(await run(machine, 'accounts', 'create', '--email', 'ada@example.org')).toMatchObject({
      code: 1,
      out: '',
    })
    for (const wrong of ['nobody', 'x,nobody@example.org', 'nobody@example.org.'])
      expect(await run(machine, 'accounts', 'create', '--email', wrong)).toMatchObject({ code: 2, out: '' })
    expect(await run(machine, 'accounts', 'show', 'ghost@example.org')).toMatchObject({
      code: 1,
      err: 'weir: there is no account "ghost@example.org" (weir accounts list)\n',
    })
  })
})

describe('keys', () => {
  test('create shows the key this once', async () => {
    const created = await json(machine, 'keys', 'create', '--account', 'ada@example.org', '--name', 'laptop')
    const { id, key } = created as { id: string; key: string }
    expect(created).toMatchObject({
      id: expect.any(String),
      key: expect.stringMatching(keyForm),
      name: 'laptop',
      mode: 'live',
    })
    const listed = await run(machine, 'keys', 'list', '--json')
    expect(listed.out).toContain(id)
    expect(listed.out).not.toContain(key.slice(-20))
  })

  test('in words, the key is the whole standard output and the rest is told beside it', async () => {
    const { out, err } = await run(machine, 'keys', 'create', '--account', 'ada@example.org')
    expect(out.trimEnd()).toMatch(keyForm)
    expect(err).toContain('shown once')
  })

  test.each([[[]], [['--management']]])(
    'in words, create %j names the id that revoke takes',
    async (more) => {
      await run(machine, 'accounts', 'create', '--email', 'keeper@example.org')
      await run(machine, 'accounts', 'role', 'keeper@example.org', 'operator')
      const { err } = await run(machine, 'keys', 'create', '--account', 'keeper@example.org', ...more)
      const [, id = ''] = /^The key (\S+) is shown once/.exec(err) ?? []
      const revoked = await run(machine, 'keys', 'revoke', id)
      expect(revoked).toMatchObject({ code: 0, out: expect.stringContaining(`revoked ${id}`) })
    },
  )

  test('rights are kept', async () => {
    const created = await json(
      machine,
      'keys',
      'create',
      '--account',
      'ada@example.org',
      '--test',
      '--expires',
      '2027-01-31',
      '--limit-usd',
      '2.50',
      '--limit-window',
      'day',
      '--models',
      'openai/gpt-5, sim/*',
    )
    expect(created).toMatchObject({
      key: expect.stringMatching(/^sk-weir-test-/),
      mode: 'test',
      expires_at: '2027-01-31T00:00:00.000Z',
      limit_usd: '2.5',
      limit_window: 'day',
      models: ['openai/gpt-5', 'sim/*'],
    })
  })

  test.each([
    [['--expires', 'tomorrow']],
    [['--expires', '2020-01-01']],
    [['--expires', '2027-02-30']],
    [['--limit-usd', '-1']],
    [['--limit-usd', '1e3']],
    [['--limit-window', 'day']],
    [['--limit-usd', '1', '--limit-window', 'year']],
    [['--models', '/gpt']],
  ])('create with %p is a usage fault', async (args) => {
    expect(await run(machine, 'keys', 'create', '--account', 'ada@example.org', ...args)).toMatchObject({
      code: 2,
      out: '',
    })
  })

  test('revoke ends a key, and again changes nothing', async () => {
    const { id } = (await json(machine, 'keys', 'create', '--account', 'ada@example.org')) as { id: string }
    const first = await json({ ...machine, now: moment + 5 }, 'keys', 'revoke', id)
    expect(first).toMatchObject({ id, state: 'revoked', revoked_at: '2026-11-21T12:00:00.005Z' })
    expect(await json({ ...machine, now: moment + 9 }, 'keys', 'revoke', id)).toEqual(first)
    expect(await run(machine, 'keys', 'revoke', 'nosuchkey')).toMatchObject({ code: 1 })
  })

  test.each([
    [[], 'revoked', '2026-11-21T12:00:00.000Z'],
    [['--overlap', '24h'], 'active', '2026-11-22T12:00:00.000Z'],
    [['--overlap', '30m'], 'active', '2026-11-21T12:30:00.000Z'],
  ])('rotate with %p leaves the old key %s until %s', async (args, state, until) => {
    const old = await json(
      machine,
      'keys',
      'create',
      '--account',
      'ada@example.org',
      '--name',
      'ci',
      '--limit-usd',
      '3',
    )
    const { id } = old as { id: string }
    const successor = await json(machine, 'keys', 'rotate', id, ...args)
    expect(successor).toMatchObject({ name: 'ci', limit_usd: '3', replaces: id, replaced_works_until: until })
    const now = (await json(machine, 'keys', 'list', '--account', 'ada@example.org')) as {
      id: string
      state: string
    }[]
    expect(now.find((key) => key.id === id)?.state).toBe(state)
    const later = { ...machine, now: Date.parse(until) + 1 }
    const then = (await json(later, 'keys', 'list', '--account', 'ada@example.org')) as {
      id: string
      state: string
    }[]
    expect(then.find((key) => key.id === id)?.state).not.toBe('active')
  })

  test('a key that has ended cannot be rotated, and an overlap must be a time', async () => {
    const { id } = (await json(machine, 'keys', 'create', '--account', 'ada@example.org')) as { id: string }
    expect(await run(machine, 'keys', 'rotate', id, '--overlap', 'soon')).toMatchObject({ code: 2 })
    await json(machine, 'keys', 'revoke', id)
    expect(await run(machine, 'keys', 'rotate', id)).toMatchObject({
      code: 1,
      err: expect.stringContaining('is revoked'),
    })
  })
})

const dailyFault = 'Daily credit ends with the UTC day at the latest'
const subscriptionFault = 'Subscription credit needs an expiry'

describe('credits', () => {
  test('grant and show tell balances as decimal strings', async () => {
    await json(machine, 'accounts', 'create', '--email', 'rich@example.org')
    const grant = [
      'credits',
      'grant',
      '--account',
      'rich@example.org',
      '--pool',
      'purchased',
      '--usd',
      '10.50',
    ]
    expect(await json(machine, ...grant)).toMatchObject({
      granted: true,
      pool: 'purchased',
      usd: '10.5',
      expires_at: '2027-11-21T12:00:00.000Z',
      credits: { available: '10.5', held: '0', total_purchased: '10.5', total_used: '0' },
    })
    expect(await json(machine, 'credits', 'show', '--account', 'rich@example.org')).toMatchObject({
      currency: 'USD',
      available: '10.5',
      app_available: '11',
      pools: [
        { type: 'purchased', remaining: '10.5', api_spendable: true, lots: [{ remaining: '10.5' }] },
        { type: 'welcome', remaining: '0.5', api_spendable: false, lots: [{ expires_at: null }] },
        { type: 'daily', remaining: '0', api_spendable: false, lots: [] },
        { type: 'subscription', remaining: '0', api_spendable: false, lots: [] },
      ],
    })
  })

  test('the same id grants once in the whole ledger; another account, pool, amount or end is a conflict', async () => {
    const command = ['credits', 'grant', '--pool', 'welcome', '--id', 'invoice-7', '--account']
    const grant = (account: string) => json(machine, ...command, account, '--usd', '1')
    await json(machine, 'accounts', 'create', '--email', 'twice@example.org')
    const first = await grant('twice@example.org')
    expect(first).toMatchObject({ granted: true, credits: { available: '0', app_available: '1.5' } })
    expect(await grant('twice@example.org')).toEqual({ ...Object(first), granted: false })
    const has = 'weir: nothing granted: The source operator:invoice-7 has granted 1 USD (welcome) to'
    const { id } = (await json(machine, 'accounts', 'show', 'twice@example.org')) as { id: string }
    expect(await run(machine, ...command, 'ada@example.org', '--usd', '1')).toMatchObject({
      code: 1,
      out: '',
      err: `${has} the account ${id} before. That lot never expires.\n`,
    })
    expect(await run(machine, ...command, 'twice@example.org', '--usd', '2')).toMatchObject({
      code: 1,
      out: '',
      err: `${has} this account before. That lot never expires.\n`,
    })
    const ending = ['--usd', '1', '--expires', '2027-01-31']
    expect(await run(machine, ...command, 'twice@example.org', ...ending)).toMatchObject({
      code: 1,
      err: `${has} this account before. That lot never expires.\n`,
    })
  })

  test('credit that is granted to never expire does not', async () => {
    const args = ['--account', 'ada@example.org', '--pool', 'purchased', '--usd', '1', '--expires', 'never']
    expect(await json(machine, 'credits', 'grant', ...args)).toMatchObject({
      granted: true,
      expires_at: null,
    })
  })

  test.each([
    // pool          --expires              what is granted ends, or the fault (now is 2026-11-21, noon)
    ['purchased', undefined, '2027-11-21T12:00:00.000Z'],
    ['purchased', 'never', null],
    ['purchased', '2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['welcome', undefined, null],
    ['welcome', 'never', null],
    ['welcome', '2027-01-31', '2027-01-31T00:00:00.000Z'],
    ['daily', undefined, '2026-11-22T00:00:00.000Z'],
    ['daily', '2026-11-21T18:00:00Z', '2026-11-21T18:00:00.000Z'],
    ['daily', '2026-11-22', '2026-11-22T00:00:00.000Z'],
    ['daily', 'never', dailyFault],
    ['daily', '2026-11-23', dailyFault],
    ['subscription', undefined, subscriptionFault],
    ['subscription', 'never', subscriptionFault],
    ['subscription', '2027-01-31', '2027-01-31T00:00:00.000Z'],
  ] as const)('of %s credit with --expires %s ends %p', async (pool, expires, ends) => {
    const args = ['--account', 'ada@example.org', '--pool', pool, '--usd', '0.1']
    if (expires !== undefined) args.push('--expires', expires)
    const { code, out, err } = await run(machine, 'credits', 'grant', ...args, '--json')
    if (ends === dailyFault || ends === subscriptionFault) {
      expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(ends) })
    } else expect(JSON.parse(out)).toMatchObject({ granted: true, expires_at: ends })
  })

  test.each([
    [['--pool', 'gold', '--usd', '1']],
    [['--pool', 'purchased', '--usd', '0']],
    [['--pool', 'purchased', '--usd', 'ten']],
    [['--pool', 'purchased', '--usd', '1000001']],
    [['--pool', 'purchased', '--usd', '0.0000000000001']],
    [['--pool', 'subscription', '--usd', '1']],
    [['--pool', 'subscription', '--usd', '1', '--expires', '2027-02-29']],
    [['--pool', 'purchased', '--usd', '1', '--id', '']],
    [['--pool', 'purchased']],
  ])('grant with %p is a usage fault', async (args) => {
    expect(await run(machine, 'credits', 'grant', '--account', 'ada@example.org', ...args)).toMatchObject({
      code: 2,
      out: '',
    })
  })
})

test('the ledger that all this made is sound', async () => {
  const report = await json(machine, 'ledger', 'audit')
  expect(report).toMatchObject({
    ok: true,
    journal_entries: expect.any(Number),
    head_hash: expect.any(String),
  })
  const { checks } = report as { checks: { ok: boolean }[] }
  expect(checks.length).toBeGreaterThan(10)
  expect(checks.filter(({ ok }) => !ok)).toEqual([])
})

describe('the catalog', () => {
  test('models lists what is sold, prices as decimal strings', async () => {
    const models = (await json(machine, 'models', 'sim/echo')) as unknown[]
    expect(models).toEqual([
      expect.objectContaining({
        id: 'sim/echo',
        access: 'open',
        flash_class: true,
        pricing: expect.objectContaining({ prompt: '0.0000005', completion: '0.000002' }),
      }),
    ])
  })

  test('models lists fees and the rates of longer prompts, as the API does', async () => {
    const listed = async (id: string) => (await json(machine, 'models', id)) as { id: string }[]
    expect((await listed('perplexity/sonar')).find(({ id }) => id === 'perplexity/sonar')).toMatchObject({
      pricing: { request: '0.012' },
    })
    expect((await listed('gemini-2.5-pro')).find(({ id }) => id === 'gemini/gemini-2.5-pro')).toMatchObject({
      pricing: { tiers: [{ above_prompt_tokens: 200_000, prompt: '0.0000025' }] },
    })
  })

  test('a catalog file may begin with a byte order mark', async () => {
    using other = tempDir()
    const there = { cwd: other.path }
    await json(there, 'catalog', 'export', 'mine.json')
    const path = other.join('mine.json')
    writeFileSync(path, `\uFEFF${readFileSync(path, 'utf8')}`)
    expect(await json(there, 'catalog', 'diff', 'mine.json')).toMatchObject({ added: [], removed: [] })
  })

  test('what is exported can be compared and imported again', async () => {
    using other = tempDir()
    const there = { cwd: other.path }
    await json(there, 'catalog', 'export', 'mine.json')
    expect(await json(there, 'catalog', 'diff', 'mine.json')).toMatchObject({
      added: [],
      removed: [],
      changed: [],
    })
    const path = other.join('mine.json')
    const file = (await Bun.file(path).json()) as CatalogFile
    const [dropped, changed] = file.models.filter((row) => row.price && !row.retires_on) as [
      CatalogRow,
      CatalogRow,
    ]
    const kept = file.models.filter((row) => row !== dropped && row !== changed)
    const priced = { ...changed, price: { input: '99', output: '99' } }
    file.models = [...kept, priced, { ...dropped, id: 'openai/brand-new' }]
    writeFileSync(path, JSON.stringify(file))
    const differences = {
      added: ['openai/brand-new'],
      removed: [dropped.id],
      changed: [
        { id: changed.id, fields: { price: { from: changed.price, to: { input: '99', output: '99' } } } },
      ],
    }
    expect(await json(there, 'catalog', 'diff', 'mine.json')).toMatchObject(differences)
    expect(await json(there, 'catalog', 'import', 'mine.json')).toMatchObject(differences)
    expect(await json(there, 'models', 'openai/brand-new')).toHaveLength(1)
    expect(await json(there, 'catalog', 'diff', 'mine.json')).toMatchObject({
      added: [],
      removed: [],
      changed: [],
    })
  })

  test.each([
    ['{', 'is not JSON'],
    ['{"models":[]}', 'is not a catalog'],
    [
      '{"date":"2026-01-01","sources":[],"unpriced":[],"models":[{"id":"a/b","price":{"input":"-1","output":"1"},"source":"x","date":"2026-01-01"}]}',
      'is not a catalog',
    ],
  ])('the file %s is refused and nothing changes', async (text, reason) => {
    using other = tempDir()
    writeFileSync(other.join('bad.json'), text)
    const ran = await run({ cwd: other.path }, 'catalog', 'import', 'bad.json')
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining(reason) })
    expect(await Bun.file(other.join('weir-data/catalog.json')).exists()).toBe(false)
  })
})

describe('config', () => {
  test('check tells all faults, in words and as JSON, with exit code 78', async () => {
    using other = tempDir()
    writeFileSync(other.join('weir.yaml'), 'prot: 1\nserver: { port: x }\n')
    const words = await run({ cwd: other.path }, 'config', 'check')
    expect(words).toMatchObject({ code: 78, out: '' })
    expect(words.err).toContain('weir.yaml:1: prot: unknown key')
    expect(words.err).toContain('weir.yaml:2: server.port: must be a number')
    const machineOutput = await run({ cwd: other.path }, 'config', 'check', '--json')
    expect(machineOutput.code).toBe(78)
    expect(JSON.parse(machineOutput.out)).toMatchObject({
      ok: false,
      faults: [
        { path: 'server.port', origin: 'weir.yaml:2' },
        { path: 'prot', nearest: null, origin: 'weir.yaml:1' },
      ],
    })
    for (const command of [['models'], ['accounts', 'list'], ['config', 'show'], ['serve'], ['doctor']]) {
      expect(await run({ cwd: other.path }, ...command)).toMatchObject({ code: 78, out: '' })
    }
  })

  test('check of a good one names the file and passes warnings on', async () => {
    using other = tempDir()
    writeFileSync(other.join('my.yaml'), '')
    const env = { WEIR_SERVER_PROT: '1' }
    expect(
      await run({ cwd: other.path, env }, 'config', 'check', '--config', 'my.yaml', '--json'),
    ).toMatchObject({
      code: 0,
      out: expect.stringContaining('my.yaml'),
    })
    expect((await run({ cwd: other.path, env }, 'config', 'check')).err).toContain('WEIR_SERVER_PROT')
  })

  test('show tells value and origin of a setting', async () => {
    const env = { WEIR_LOG_LEVEL: 'debug', OPENAI_API_KEY: 'sk-0123456789-0123456789' }
    const shown = (await json({ ...machine, env }, 'config', 'show')) as { settings: unknown[] }
    expect(shown.settings).toContainEqual({
      path: 'log.level',
      value: 'debug',
      origin: 'WEIR_LOG_LEVEL',
      env: 'WEIR_LOG_LEVEL',
    })
    expect(shown.settings).toContainEqual({
      path: 'providers.openai.api_key',
      value: ['****6789'],
      origin: 'OPENAI_API_KEY',
      env: 'WEIR_PROVIDERS_OPENAI_API_KEY',
    })
  })
})

describe('doctor', () => {
  // Nothing on this machine is to be asked whether it is an inference server.
  const env = { WEIR_LOCAL_SERVERS_DISCOVER: 'no' }

  test('finds a healthy installation healthy, and tells keys and unsold models', async () => {
    using other = tempDir()
    writeFileSync(
      other.join('weir.yaml'),
      'models: [{ id: openai/unpriced-by-me }]\nproviders: { openai: { api_key: abcdefgh } }',
    )
    await json({ cwd: other.path }, 'accounts', 'create', '--email', 'a@b.c')
    const report = (await json({ cwd: other.path, env }, 'doctor')) as { ok: boolean; findings: unknown[] }
    expect(report.ok).toBe(true)
    expect(report.findings).toContainEqual({
      check: 'provider openai',
      state: 'ok',
      detail: 'a key, https://api.openai.com/v1',
    })
    expect(report.findings).toContainEqual({
      check: 'provider groq',
      state: 'info',
      detail: 'no key (GROQ_API_KEY)',
    })
    expect(report.findings).toContainEqual({
      check: 'database',
      state: 'ok',
      detail: expect.stringMatching(/^1 account, [1-9]\d* kB( \(and [1-9]\d* kB of write-ahead log\))?$/),
    })
    expect(report.findings).toContainEqual({
      check: 'request log',
      state: 'info',
      detail: 'none yet; kept for 90 days (retention.requests)',
    })
    expect(report.findings).toContainEqual(
      expect.objectContaining({
        check: 'not sold',
        detail: expect.stringContaining('openai/unpriced-by-me'),
      }),
    )
  })

  test('says what is wrong first, and what is merely absent in a line', async () => {
    using other = tempDir()
    writeFileSync(other.join('weir.yaml'), 'models: [{ id: openai/unpriced-by-me }]')
    const { out } = await run({ cwd: other.path, env: { ...env, OPENAI_API_KEY: 'sk-of-nobody' } }, 'doctor')
    const lines = out.trim().split('\n')
    const states = lines.map((line) => line.split(' ')[0]!)
    expect(states).toEqual(states.toSorted((a, b) => 'bwoi'.indexOf(a[0]!) - 'bwoi'.indexOf(b[0]!)))
    expect(lines[0]).toMatch(/^warn +not sold +openai\/unpriced-by-me/)
    expect(out.match(/groq/g)).toHaveLength(1)
    expect(out).toMatch(/^info +no key +anthropic, gemini, .*weir doctor --provider NAME/m)
  })

  test('asks a local server that the operator names, and says where nothing answers', async () => {
    using other = tempDir()
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => Response.json({ data: [] }) })
    const lab = (port: number | undefined) => ({
      base_url: `http://127.0.0.1:${port}/v1`,
      protocol: 'openai-chat',
      price: 'free',
    })
    writeFileSync(
      other.join('weir.yaml'),
      JSON.stringify({ providers: { lab: lab(server.port), gone: lab(9) } }),
    )
    const { findings } = (await json({ cwd: other.path, env }, 'doctor')) as { findings: unknown[] }
    await server.stop(true)
    expect(findings).toContainEqual(expect.objectContaining({ check: 'provider lab', state: 'ok' }))
    expect(findings).toContainEqual(expect.objectContaining({ check: 'provider gone', state: 'warn' }))
  })

  test('fails when the database cannot be opened', async () => {
    using other = tempDir()
    writeFileSync(other.join('weir-data'), 'a file where a folder should be')
    const ran = await run({ cwd: other.path, env }, 'doctor', '--json')
    expect(ran.code).toBe(1)
    expect(JSON.parse(ran.out)).toMatchObject({ ok: false })
  })

  test('asks the search backend a question, and says why it does not answer', async () => {
    using other = tempDir()
    let status = 200
    const found = { results: [{ url: 'https://a.example/', title: 'A', content: 'a' }] }
    const searxng = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => Response.json(found, { status }),
    })
    const finding = async (search: string) => {
      writeFileSync(other.join('weir.yaml'), search)
      const { out } = await run({ cwd: other.path, env }, 'doctor', '--json')
      const { findings } = JSON.parse(out) as { findings: { check: string }[] }
      return findings.find(({ check }) => check === 'web search')
    }
    const settings = `search: { backend: searxng, base_url: http://127.0.0.1:${searxng.port} }`
    expect(await finding('')).toMatchObject({
      state: 'info',
      detail: expect.stringContaining('search.backend'),
    })
    expect(await finding('search: { backend: sim }')).toMatchObject({ state: 'ok' })
    expect(await finding(settings)).toMatchObject({
      state: 'ok',
      detail: expect.stringMatching(/^searxng answered in \d+ ms, 0 USD a search$/),
    })
    status = 403
    expect(await finding(settings)).toMatchObject({
      state: 'bad',
      detail: expect.stringContaining('HTTP 403'),
    })
    await searxng.stop(true)
    expect(await finding(settings)).toMatchObject({
      state: 'bad',
      detail: expect.stringContaining('cannot be reached'),
    })
  })

  test('leaves nothing behind', async () => {
    using other = tempDir()
    expect((await run({ cwd: other.path, env }, 'doctor')).code).toBe(0)
    expect(
      await Array.fromAsync(new Bun.Glob('**').scan({ cwd: other.path, onlyFiles: false, dot: true })),
    ).toEqual([])
  })
})

describe('usage', () => {
  test.each([
    [[], 0],
    [['nonsense'], 2],
    [['keys'], 2],
    [['keys', 'nonsense'], 2],
    [['keys', 'create'], 2],
    [['keys', 'revoke'], 2],
    [['models', '--nonsense'], 2],
    [['version', 'superfluous'], 2],
    [['--help'], 0],
    [['keys', 'create', '--help'], 0],
    [['--version'], 0],
    [['version'], 0],
  ])('%p ends with %p', async (argv, code) => {
    expect((await run(machine, ...argv)).code).toBe(code)
  })

  test('the common options are taken before and after the command', async () => {
    using other = tempDir()
    await json({ cwd: other.path }, '--data-dir', 'elsewhere', 'accounts', 'create', '--email', 'a@b.org')
    expect(await json({ cwd: other.path }, '--data-dir', 'elsewhere', 'accounts', 'list')).toHaveLength(1)
    expect(await json({ cwd: other.path }, 'accounts', 'list', '--data-dir', 'elsewhere')).toHaveLength(1)
    expect(await Bun.file(other.join('weir-data')).exists()).toBe(false)
  })

  test.each([
    [['accounts', 'list']],
    [['keys', 'list']],
    [['credits', 'debts']],
    [['ledger', 'audit']],
    [['ledger', 'audit', '--day', 'today']],
    [['backup', 'copy.db']],
  ])('%p of a folder without a database fails and makes none', async (argv) => {
    using other = tempDir()
    const ran = await run({ cwd: other.path }, ...argv, '--data-dir', 'mistyped')
    expect(ran).toMatchObject({ code: 1, out: '', err: expect.stringContaining('there is no database in ') })
    expect(await Array.fromAsync(new Bun.Glob('**').scan({ cwd: other.path, onlyFiles: false }))).toEqual([])
  })

  test('every command is in the help', async () => {
    const { out } = await run(machine, '--help')
    for (const name of [
      'init',
      'serve',
      'status',
      'accounts',
      'keys',
      'credits',
      'models',
      'chat',
      'ledger',
      'catalog',
      'config',
      'doctor',
      'version',
    ]) {
      expect(out).toMatch(new RegExp(`^  ${name}\\b`, 'm'))
    }
  })
})

// knip does not see who uses these files: their actions are taken by name.
test('every action in a file of commands is that of a command', () => {
  const folder = new URL('../../src/cli/', import.meta.url).pathname
  const textOf = (file: string) => readFileSync(`${folder}${file}`, 'utf8')
  const called = `${textOf('program.ts')}${textOf('people-commands.ts')}`
  const actions = Array.from(new Glob('commands/*.ts').scanSync(folder)).flatMap((file) =>
    Array.from(
      textOf(file).matchAll(/^export async function (\w+)\(\s*(?:context|io)\b[^)]*\): Promise<void>/gm),
      ([, name]) => name!,
    ),
  )
  expect(actions.length).toBeGreaterThan(80)
  expect(actions.filter((name) => !new RegExp(`\\('${name}'\\)|\\.${name}\\(io\\b`).test(called))).toEqual([])
})
