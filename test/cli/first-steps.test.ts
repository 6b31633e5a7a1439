// From nothing to a gateway that answers: weir alone says what to do next, weir init writes the configuration, weir status
// shows what there is.

import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { runCli } from '../../src/cli/program.ts'
import { post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { weirCommand } from '../support/run-weir.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { json, run } from './run.ts'

/** No server of the machine that runs the tests is found. */
const alone = { WEIR_LOCAL_SERVERS_DISCOVER: 'false' }

/** Runs `weir init` at a terminal where a person gives these answers. */
async function initWith(cwd: string, answers: readonly string[], ...argv: string[]) {
  const asked: { question: string; shows: string }[] = []
  const waiting = [...answers]
  let err = ''
  const code = await runCli(['init', ...argv], {
    out: () => undefined,
    err: (text) => void (err += text),
    cwd,
    clock: Date.now,
    environment: async () => alone,
    input: async () => '',
    ask: async (question, shows) => {
      asked.push({ question, shows })
      return waiting.shift() ?? ''
    },
  })
  return { code, err, asked }
}

describe('weir alone', () => {
  test('says what to do next, and makes nothing', async () => {
    using home = tempDir()
    const ran = await run({ cwd: home.path }, '--json')
    expect(ran).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(ran.out)).toMatchObject({
      running: false,
      next: ['weir init', 'weir serve', expect.stringContaining('weir chat')],
    })
    expect((await run({ cwd: home.path })).out).toContain('1. weir init')
    expect(existsSync(home.join('weir-data'))).toBe(false)
    writeFileSync(home.join('weir.yaml'), '')
    expect((await run({ cwd: home.path })).out).toContain('1. weir doctor')
    expect((await run({ cwd: home.path }, 'kyes')).err).toContain('Did you mean keys?')
  })

  test('is the status where a server runs', async () => {
    await using weir = await serveWeir()
    const ran = await weir.command()
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    expect(ran.stdout).toContain(`runs at ${weir.baseUrl}`)
  })
})

describe('weir init', () => {
  test('writes a configuration with what is found, and never over one', async () => {
    using home = tempDir()
    const machine = { cwd: home.path, env: { ...alone, OPENAI_API_KEY: 'sk-secret' } }
    const done = await run(
      machine,
      'init',
      '--yes',
      '--port',
      '9001',
      '--public-url',
      'https://a.example.org',
    )
    expect(done).toMatchObject({ code: 0 })
    expect(done.err).toContain('found openai: its key is in OPENAI_API_KEY')
    const text = readFileSync(home.join('weir.yaml'), 'utf8')
    expect(text).toContain('openai: its key is in OPENAI_API_KEY')
    expect(text).not.toContain('sk-secret')
    expect(await json(machine, 'config', 'check')).toMatchObject({ ok: true, warnings: [] })
    const { settings } = (await json(machine, 'config', 'show')) as {
      settings: { path: string; value: unknown }[]
    }
    const valueOf = (path: string) => settings.find((one) => one.path === path)?.value
    expect(valueOf('server.port')).toBe(9001)
    expect(valueOf('server.public_url')).toBe('https://a.example.org')

    const again = await run(machine, 'init', '--yes', '--port', '9002')
    expect(again).toMatchObject({ code: 1, out: '', err: expect.stringContaining('exists') })
    expect(readFileSync(home.join('weir.yaml'), 'utf8')).toBe(text)
  })

  test('what it leaves as comments is configuration, too', async () => {
    using home = tempDir()
    const { out } = await run({ cwd: home.path, env: alone }, 'init', '--print')
    expect(existsSync(home.join('weir.yaml'))).toBe(false)
    const [head = '', ...rest] = out.split('\n\n')
    expect(head).toStartWith('#')
    const uncommented = rest.join('\n\n').replace(/^( *)# (?=[a-z_]+:|  )/gm, '$1')
    expect(uncommented).toContain('\nmodels:\n')
    writeFileSync(home.join('key'), 'k')
    writeFileSync(home.join('weir.yaml'), uncommented.replace('/run/secrets/openai', home.join('key')))
    const checked = await run({ cwd: home.path, env: alone }, 'config', 'check')
    expect({ code: checked.code, text: checked.err }).toEqual({ code: 0, text: '' })
  })

  test('finds a model server of this machine', async () => {
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => Response.json({ data: [{ id: 'tiny' }] }),
    })
    using home = tempDir()
    const env = {
      ...alone,
      WEIR_PROVIDERS_LAB_BASE_URL: `http://127.0.0.1:${server.port}/v1`,
      WEIR_PROVIDERS_LAB_PROTOCOL: 'openai-chat',
      WEIR_PROVIDERS_LAB_PRICE: 'free',
    }
    expect(await run({ cwd: home.path, env }, 'init', '--yes')).toMatchObject({
      code: 0,
      err: `found lab: it answers at http://127.0.0.1:${server.port}/v1, with 1 model\n`,
    })
  })

  test('asks at a terminal, and keeps a typed key in a file that others cannot read', async () => {
    using home = tempDir()
    const answers = ['', '9003', '', 'opnai', 'openai', 'sk-typed', '']
    const { code, err, asked } = await initWith(home.path, answers)
    expect(code).toBe(0)
    expect(err).toContain('There is no provider "opnai". Did you mean openai')
    expect(asked.filter(({ shows }) => shows === 'secret').map(({ question }) => question)).toEqual([
      'The key of OpenAI (it is not shown): ',
    ])
    const key = home.join('weir-keys', 'openai.key')
    expect(statSync(key).mode & 0o777).toBe(0o600)
    expect(statSync(home.join('weir-keys')).mode & 0o777).toBe(0o700)
    expect(readFileSync(home.join('weir.yaml'), 'utf8')).not.toContain('sk-typed')
    const doctor = await run({ cwd: home.path, env: alone }, 'doctor')
    expect(doctor.out).toMatch(/^ok +provider openai +a key/m)
  })

  test.each([
    [['--port', 'eight'], 2],
    [['--port', '99999'], 78],
    [['--public-url', 'models.example.org'], 78],
  ])('%p writes nothing', async (words, code) => {
    using home = tempDir()
    const ran = await run({ cwd: home.path, env: alone }, 'init', '--yes', ...words)
    expect(ran).toMatchObject({ code, out: '' })
    expect(existsSync(home.join('weir.yaml'))).toBe(false)
  })

  test('a key that cannot be kept leaves no configuration that names it', async () => {
    using home = tempDir()
    writeFileSync(home.join('weir-keys'), 'a file where the folder would be')
    const { code, err } = await initWith(home.path, ['', '', '', 'openai', 'sk-typed', ''])
    expect(code).toBe(1)
    expect(err).toContain('nothing was written')
    expect(existsSync(home.join('weir.yaml'))).toBe(false)
  })
})

describe('weir status', () => {
  test('of a folder without anything is a failure that says what to do', async () => {
    using home = tempDir()
    const ran = await run({ cwd: home.path }, 'status')
    expect(ran).toMatchObject({ code: 1, err: expect.stringContaining('no server runs on') })
    expect(ran.out).toContain('no database yet')
  })

  test('shows the server, its providers, the credit, what today came to, and that it holds', async () => {
    await using weir = await serveWeir()
    await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
    const ran = await weir.command('status', '--json')
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    const status = JSON.parse(ran.stdout) as {
      ledger: { pools: { type: string; credit: string }[]; today: { charged: string } }
    }
    expect(status).toMatchObject({
      ok: true,
      server: { running: true, pid: process.pid, base_url: weir.baseUrl, version: '0.1.0', ready: true },
      providers: [{ id: 'sim', state: 'healthy', success_rate: 1, last_error: null }],
      ledger: { accounts: 1, debt: '0', today: { calls: 1, errors: 0 }, audit: { ok: true, broken: [] } },
    })
    const purchased = status.ledger.pools.find(({ type }) => type === 'purchased')!.credit
    expect(Number(purchased) + Number(status.ledger.today.charged)).toBeCloseTo(100, 9)
    // The key with which it has asked is gone.
    expect((await weir.command('keys', 'list', '--management', '--json')).stdout).toBe('[]\n')
  })
})

describe('the first key', () => {
  /** Starts the program with its output in a file, until the banner is there, and gives what was printed. */
  async function firstOutput(
    home: TempDir,
    env: (output: string) => Record<string, string>,
  ): Promise<string> {
    const output = home.join('output')
    writeFileSync(output, '')
    const child = Bun.spawn([...weirCommand, 'serve', '--port', '0', '--data-dir', home.join('data')], {
      cwd: home.path,
      env: { PATH: process.env['PATH'] ?? '', HOME: home.path, BUN_OPTIONS: '--no-orphans', ...env(output) },
      stdin: 'ignore',
      stdout: Bun.file(output),
      stderr: Bun.file(output),
    })
    try {
      const deadline = performance.now() + 20_000
      for (;;) {
        const text = readFileSync(output, 'utf8')
        if (text.includes('  catalog ')) return text
        if (child.exitCode !== null || performance.now() > deadline)
          throw new Error(`it did not start:\n${text}`)
        await Bun.sleep(10)
      }
    } finally {
      child.kill('SIGTERM')
      await child.exited
    }
  }

  test('goes into a file that others cannot read where a journal keeps the output', async () => {
    using home = tempDir()
    const journal = (output: string) => {
      const { dev, ino } = statSync(output)
      return { JOURNAL_STREAM: `${dev}:${ino}` }
    }
    const text = await firstOutput(home, journal)
    expect(text).not.toMatch(/sk-weir-|wt-weir-/)
    const file = home.join('data', 'first-key.txt')
    expect(text).toContain(file)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readFileSync(file, 'utf8')).toMatch(/sk-weir-live-[^]*\/console\/link#wt-weir-/)
  }, 30_000)

  test('is printed elsewhere, also where another stream of the session is a journal', async () => {
    using home = tempDir()
    const text = await firstOutput(home, () => ({ JOURNAL_STREAM: '1:1' }))
    expect(text).toMatch(/sk-weir-live-/)
    expect(existsSync(home.join('data', 'first-key.txt'))).toBe(false)
  }, 30_000)
})
