// server.processes: several equal gateways on one port and one PostgreSQL. Clients notice nothing, no call is charged twice
// or lost, and what operators do to one is done to all.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { creditsOf, postAs, runJson } from '../../support/call-gateway.ts'
import { type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'
import { CutProxy } from '../../support/cut-proxy.ts'
import { authority, describeOnPostgres, emptyDatabase } from '../../support/postgres.ts'
import { runWeir, weirCommand } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

// Each test waits for several processes.
setDefaultTimeout(30_000)

const ask = { messages: [{ role: 'user', content: 'Where does it run?' }] }
const words = 40
/** Of a call of either provider, US dollars: so many tokens of the prompt at 1 and of the answer at 2 a million. */
const priceOf = (prompt: number, completion: number) => (prompt + completion * 2) / 1_000_000

let mock: MockProvider
let paced: Provider
let lab: Lab
/** Between the processes and their database. */
let between: CutProxy

function isAlive(pid: number): boolean {
  try {
    // A process that nobody has waited for yet is none any more.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** The processes that have served so far, in their order. */
const served = () =>
  [...lab.weir.output().matchAll(/"a process serves"[^\n]*"process":(\d+),"pid":(\d+)/g)].map(
    ([, number, pid]) => ({ number: Number(number), pid: Number(pid) }),
  )

/** Posts on a connection of its own, which any of them may get. */
const post = (model: string, more: object = {}, key = lab.weir.key) =>
  postAs(`${lab.weir.origin}/v1/chat/completions`, key, { model, ...ask, ...more }, { keepalive: false })

async function statusOf(answer: Promise<Response>): Promise<number> {
  const response = await answer
  await response.text()
  return response.status
}

const many = (model: string, key?: string) =>
  Promise.all(Array.from({ length: 24 }, () => statusOf(post(model, {}, key))))

/** Begins streams, of which each has delivered its first words. */
const begin = (count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const response = await post('paced/m', { stream: true })
      const reader = response.body!.getReader()
      return { reader, begun: new TextDecoder().decode((await reader.read()).value) }
    }),
  )

/** How a stream ends. */
async function endOf({ reader, begun }: Awaited<ReturnType<typeof begin>>[number]) {
  let text = begun
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read())
      text += new TextDecoder().decode(next.value)
  } catch {
    return 'broken'
  }
  return text.endsWith('data: [DONE]\n\n') && wordsIn(text) === 'word '.repeat(words) ? 'whole' : 'broken'
}

const audit = async () => (await lab.weir.command('ledger', 'audit', '--json')).code

const describeOnLinux = process.platform === 'linux' ? describeOnPostgres : () => undefined

describeOnLinux('two processes of one gateway', () => {
  const home = tempDir('weir-processes-')
  beforeAll(async () => {
    mock = await startMockProvider()
    paced = startPacedProvider(
      Array.from({ length: words }, () => 'word '),
      20,
    )
    const url = new URL(await emptyDatabase('processes'))
    const [program, ...script] = weirCommand
    copyFileSync(program!, home.join('weir'))
    between = new CutProxy(Number(url.port))
    url.host = `localhost:${between.port}`
    lab = await startLab(
      {
        providers: { mock: mock.url, paced: paced.url },
        models: { 'mock/m': ['mock/m'], 'paced/m': ['paced/m'] },
        settings: {
          server: { processes: 2 },
          store: { url: url.href, ca: authority },
          ledger: { sweep_ms: 100 },
        },
      },
      { command: [home.join('weir'), ...script] },
    )
  }, 60_000)
  afterAll(async () => {
    await lab?.weir.kill()
    await lab?.weir.stop()
    between?.stop()
    await mock.stop()
    paced.stop()
    home.remove()
  })

  test('start as one, and are seen as one', async () => {
    // A process gathers its log lines and writes them after it has told its parent.
    await until(() => served().length === 2, 9_000)
    expect(served().map(({ number }) => number)).toEqual([1, 2])
    expect(lab.weir.output().match(/is ready/g)).toHaveLength(1)
    expect(await runJson(lab.weir, 'status')).toMatchObject({
      ok: true,
      server: { pid: lab.weir.pid, processes: 2, ready: true },
    })
    const second = await runWeir(['serve', '--data-dir', lab.weir.dataDir, '--port', '0'])
    expect([second.code, second.stderr]).toEqual([
      1,
      expect.stringContaining(`process ${lab.weir.pid} serves`),
    ])
  })

  test('say why none of them can start', async () => {
    using home = tempDir()
    const env = { ...process.env, WEIR_STORE_URL: 'postgres://weir@127.0.0.1:1/weir' } as Record<
      string,
      string
    >
    const args = ['serve', '--processes', '2', '--port', '0', '--data-dir', home.path]
    const { code, stderr } = await runWeir(args, { env })
    expect([code, stderr.split('\n').at(-2)]).toEqual([
      1,
      expect.stringMatching(/^weir: .* cannot be reached/),
    ])
  })

  test('charge what was used, once, whichever of them serves, and count it together', async () => {
    const before = Number((await creditsOf(lab.weir)).total_used)
    const statuses = [...(await many('mock/m')), ...(await many('mock/m'))]
    expect(new Set(statuses)).toEqual(new Set([200]))
    const { total_used } = await until(
      () => creditsOf(lab.weir),
      ({ held }) => held === '0',
    )
    expect(mock.bill).toHaveLength(statuses.length)
    expect(Number(total_used) - before).toBeCloseTo(statuses.length * priceOf(12, 6), 12)
    const made = ['keys', 'create', '--account', 'owner@localhost', '--management']
    const { key } = await runJson<{ key: string }>(lab.weir, ...made)
    const counts = await until(
      async () => {
        const answer = await fetch(`${lab.weir.origin}/metrics`, {
          headers: { authorization: `Bearer ${key}` },
        })
        const series = /^weir_calls_total\{process="(\d)",provider="mock",model="mock\/m",code=""\} (\d+)$/gm
        return [...(await answer.text()).matchAll(series)].map(([, number, count]) => [number, Number(count)])
      },
      (found) => found.reduce((sum, [, count]) => sum + Number(count), 0) === statuses.length,
    )
    expect(counts.map(([number]) => number)).toEqual(['1', '2'])
    const lines = lab.weir.output().match(/"message":"call"[^\n]*"process":\d/g)!
    expect(new Set(lines.map((line) => line.at(-1)))).toEqual(new Set(['1', '2']))
    expect(await audit()).toBe(0)
  })

  test('a reload that reaches one of them reaches all', async () => {
    const { file } = await runJson<{ file: string }>(lab.weir, 'config', 'show')
    const config = JSON.parse(readFileSync(file, 'utf8')) as object
    expect(await statusOf(post('quick'))).toBe(400)
    writeFileSync(file, JSON.stringify({ ...config, aliases: { quick: 'mock/m' } }))
    await runJson(lab.weir, 'config', 'reload')
    expect(new Set(await many('quick'))).toEqual(new Set([200]))
  })

  test('a revoked key is refused by each of them within a second', async () => {
    const made = ['keys', 'create', '--account', 'owner@localhost', '--name', 'short']
    const { id, key } = await runJson<{ id: string; key: string }>(lab.weir, ...made)
    expect(new Set(await many('mock/m', key))).toEqual(new Set([200]))
    await runJson(lab.weir, 'keys', 'revoke', id)
    const at = performance.now()
    let servedAfter = 0
    await until(
      async () => {
        const began = performance.now() - at
        const statuses = await many('mock/m', key)
        if (statuses.includes(200)) servedAfter = began
        return statuses
      },
      (statuses) => statuses.every((status) => status === 401),
    )
    expect(servedAfter).toBeLessThan(1_000)
  })

  test('one that is killed is replaced, and its calls are ended at once while the other goes on', async () => {
    const before = Number((await creditsOf(lab.weir)).total_used)
    const streams = await begin(12)
    const [first] = served()
    // An upgrade puts a new program into its place: those that run stay of one version until all are started again.
    writeFileSync(home.join('newer'), '#!/bin/sh\nexit 3\n', { mode: 0o755 })
    renameSync(home.join('newer'), home.join('weir'))
    process.kill(first!.pid, 'SIGKILL')
    const endings = await Promise.all(streams.map(endOf))
    expect(new Set(endings)).toEqual(new Set(['whole', 'broken']))
    const { total_used } = await until(
      () => creditsOf(lab.weir),
      ({ held }) => held === '0',
      9_000,
    )
    const used = Number(total_used) - before
    const whole = endings.filter((ending) => ending === 'whole').length
    // One that was cut before its first checkpoint costs nothing, and none more than it delivered.
    expect(used).toBeGreaterThanOrEqual(whole * priceOf(12, words) - 1e-9)
    expect(used).toBeLessThanOrEqual(streams.length * priceOf(12, words) + 1e-9)
    await until(() => served().length === 3, 9_000)
    expect(served().at(-1)!.number).toBe(first!.number)
    expect(await audit()).toBe(0)
  })

  test('what a call has cost while the database was away is charged, though its process is killed', async () => {
    const before = Number((await creditsOf(lab.weir)).total_used)
    const streams = await begin(2)
    between.carriage = 'lose-requests'
    between.cut()
    // Its last words are passed on when its charge is certain.
    const endings = Promise.all(streams.map(endOf))
    const spillOf = (number: number) =>
      readFileSync(join(lab.weir.dataDir, `settles.${number}.spill`), 'latin1')
    // One that is empty begins with a zero.
    const settles = () =>
      [1, 2]
        .map(spillOf)
        .filter((text) => !text.startsWith('\0'))
        .flatMap((text) => text.match(/"kind":"settle"/g) ?? [])
    await until(() => settles().length === streams.length, 9_000)
    const alive = served().filter(({ pid }) => isAlive(pid))
    expect(alive).toHaveLength(2)
    for (const { pid } of alive) process.kill(pid, 'SIGKILL')
    await endings
    between.carriage = 'pass'
    const { total_used } = await until(
      () => creditsOf(lab.weir).catch(() => ({ held: '', total_used: '' })),
      ({ held }) => held === '0',
      20_000,
    )
    expect(Number(total_used) - before).toBeCloseTo(streams.length * priceOf(12, words), 12)
    await until(() => served().filter(({ pid }) => isAlive(pid)).length === 2, 20_000)
    expect(settles()).toEqual([])
    expect(await audit()).toBe(0)
  })

  test('one that is told to stop finishes its streams, and is replaced as well', async () => {
    const before = served().length
    const streams = await begin(8)
    const [one] = served().filter(({ pid }) => isAlive(pid))
    process.kill(one!.pid, 'SIGTERM')
    expect(new Set(await Promise.all(streams.map(endOf)))).toEqual(new Set(['whole']))
    await until(() => served().length > before, 20_000)
    expect(served().at(-1)!.number).toBe(one!.number)
  })

  test('a stop finishes the streams of both, and leaves no process behind', async () => {
    const streams = await begin(12)
    const stopped = lab.weir.stop()
    expect(new Set(await Promise.all(streams.map(endOf)))).toEqual(new Set(['whole']))
    expect(await stopped).toBe(0)
    expect(served().filter(({ pid }) => isAlive(pid))).toEqual([])
  })
})
