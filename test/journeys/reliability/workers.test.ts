// Several processes serve one port, and one keeps the ledger: clients notice nothing, no call is charged twice or lost.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { codeIn, type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

// Each test runs several processes, and waits for them.
setDefaultTimeout(30_000)

const ask = { messages: [{ role: 'user', content: 'Where does it run?' }] }

let cheapIsDown = false
let mock: MockProvider
let paced: Provider
let lab: Lab

beforeAll(async () => {
  mock = await startMockProvider({
    fault: (_, { model }) => {
      if (model === 'cheap' && cheapIsDown) return { kind: 'status', status: 503 }
      return model === 'hang' ? { kind: 'hang', at: 'before-headers' } : undefined
    },
  })
  paced = startPacedProvider(
    Array.from({ length: 40 }, () => 'word '),
    20,
  )
  lab = await startLab(
    {
      providers: { mock: mock.url, paced: paced.url },
      models: {
        'mock/m': ['mock/m'],
        'mock/hang': ['mock/hang'],
        'paced/m': ['paced/m'],
        'two/offers': ['mock/cheap', 'mock/dear'],
      },
    },
    { args: ['--workers', '2'] },
  )
})
afterAll(async () => {
  await lab.weir.kill()
  await lab.weir.stop()
  await mock.stop()
  paced.stop()
})

/** The workers that have served so far, by process id, and those that have ended. */
function workersOf({ weir }: Lab): { served: number[]; alive: number[] } {
  const served = [...weir.output().matchAll(/"a worker serves"[^\n]*"pid":(\d+)/g)].map(([, pid]) =>
    Number(pid),
  )
  return { served, alive: served.filter(isAlive) }
}

function isAlive(pid: number): boolean {
  try {
    // A process that nobody has waited for yet is none any more.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** How many connections of clients a process has. */
function connectionsOf(pid: number, port: number): number {
  const own = new Set(
    readdirSync(`/proc/${pid}/fd`).map((fd) => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${fd}`)
      } catch {
        return ''
      }
    }),
  )
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(
      ([, at, , state, , , , , , inode]) =>
        at?.endsWith(local) && state === '01' && own.has(`socket:[${inode}]`),
    ).length
}

/** Posts on a connection of its own, which any worker may get. */
function post(model: string, key: string, more: object = {}, origin = lab.weir.origin): Promise<Response> {
  return postAs(`${origin}/v1/chat/completions`, key, { model, ...ask, ...more }, { keepalive: false })
}

async function statusOf(answer: Promise<Response>): Promise<number> {
  const response = await answer
  await response.text()
  return response.status
}

function countsOf(statuses: readonly number[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(statuses, String)].map(([status, all]) => [status, all.length]))
}

const command = (...args: string[]) => runJson<{ key: string }>(lab.weir, ...args)

/** A key of a new account with so much credit. */
async function client(usd: string): Promise<string> {
  const email = `${crypto.randomUUID()}@example.org`
  await command('accounts', 'create', '--email', email)
  await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', usd)
  return (await command('keys', 'create', '--account', email)).key
}

/** Another key of the owner. */
async function ownKey(...options: string[]): Promise<string> {
  return (await command('keys', 'create', '--account', 'owner@localhost', ...options)).key
}

async function creditsOf(key: string) {
  const response = await getAs(`${lab.weir.origin}/v1/credits`, key)
  const { data } = (await response.json()) as { data: Record<'available' | 'held' | 'total_used', string> }
  return data
}

describe('a gateway of two workers', () => {
  test('shares its connections out among them', async () => {
    const { port } = lab.weir
    const sockets = await Promise.all(
      Array.from(
        { length: 100 },
        () =>
          new Promise<Socket>((resolve, reject) => {
            const socket = connect(port, '127.0.0.1', () => resolve(socket))
            socket.on('error', reject)
          }),
      ),
    )
    const { alive } = workersOf(lab)
    expect(alive).toHaveLength(2)
    const shares = await until(
      () => alive.map((pid) => connectionsOf(pid, port)),
      (counts) => counts.reduce((sum, count) => sum + count) >= 100,
    )
    for (const socket of sockets) socket.destroy()
    // Five standard deviations off a half.
    expect(Math.min(...shares)).toBeGreaterThanOrEqual(25)
  })

  test('G4: lets exactly as many calls in as the credit holds, whichever worker they come to', async () => {
    const probe = lab.weir.key
    const leaving = new AbortController()
    const hang = (key: string, signal = leaving.signal) =>
      postAs(
        `${lab.weir.origin}/v1/chat/completions`,
        key,
        { model: 'mock/hang', max_tokens: 100, ...ask },
        { keepalive: false, signal },
      ).then(
        async (response) => [response.status, codeIn(await response.text())] as const,
        () => undefined,
      )
    void hang(probe)
    const { held } = await until(
      () => creditsOf(probe),
      (credits) => Number(credits.held) > 0,
    )
    const places = 10
    const key = await client((Number(held) * places).toFixed(12))
    const before = mock.bill.length
    const refused: (readonly [status: number, code: string | undefined])[] = []
    for (let number = 0; number < 64; number++)
      void hang(key).then((answer) => answer === undefined || refused.push(answer))
    await until(() => refused.length === 64 - places, 5_000)
    expect(countsOf(refused.map(([status]) => status))).toEqual({ 402: 64 - places })
    expect(new Set(refused.map(([, code]) => code))).toEqual(new Set(['credits_reserved']))
    expect(mock.bill.length - before).toBe(places)
    leaving.abort()
    const after = await until(
      () => creditsOf(key),
      (credits) => credits.held === '0',
    )
    // Each left a provider that had its prompt: eleven tokens at one dollar per million.
    expect(after.total_used).toBe('0.00011')
  })

  test('charges what was used, once, however many clients call at once', async () => {
    const key = await client('0.01')
    const before = mock.bill.length
    const statuses = await Promise.all(
      Array.from({ length: 120 }, (_, number) => statusOf(post('mock/m', key, { stream: number % 2 === 0 }))),
    )
    const { 200: served = 0, ...others } = countsOf(statuses)
    expect(Object.keys(others).filter((status) => status !== '402')).toEqual([])
    expect(served).toBeGreaterThan(0)
    expect(mock.bill.length - before).toBe(served)
    const credits = await until(
      () => creditsOf(key),
      ({ held }) => held === '0',
    )
    expect(credits.total_used).toBe(String((served * 24) / 1_000_000))
    const audit = await lab.weir.command('ledger', 'audit', '--json')
    expect(audit.code).toBe(0)
  })

  test('shows in every worker’s list of models how the providers of all have answered', async () => {
    const get = async (path: string) => (await getAs(`${lab.weir.origin}${path}`, lab.weir.key)).json()
    await Promise.all(Array.from({ length: 24 }, () => statusOf(post('mock/m', lab.weir.key))))
    const lists = Array.from({ length: 12 }, async () => {
      const url = `${lab.weir.origin}/v1/models?provider=mock`
      const { data } = (await (await fetch(url, { keepalive: false })).json()) as {
        data: { id: string; providers: object[] }[]
      }
      return data.find(({ id }) => id === 'mock/m')!.providers
    })
    const [mine, ...others] = await Promise.all(lists)
    const { data } = (await get('/v1/providers')) as {
      data: { id: string; answers: number; success_rate: number; p50_latency_ms: number }[]
    }
    const { answers, success_rate, p50_latency_ms } = data.find(({ id }) => id === 'mock')!
    expect(answers).toBeGreaterThanOrEqual(24)
    expect(mine).toEqual([{ id: 'mock', success_rate, p50_latency_ms }])
    for (const other of others) expect(other).toEqual(mine!)
  })

  test('counts the requests of a minute together', async () => {
    const key = await ownKey('--requests-per-minute', '10')
    const answers = await Promise.all(Array.from({ length: 30 }, () => post('mock/m', key)))
    await Promise.all(answers.map((answer) => answer.text()))
    expect(countsOf(answers.map(({ status }) => status))).toEqual({ 200: 10, 429: 20 })
    expect(answers.every(({ headers }) => headers.get('x-ratelimit-limit-requests') === '10')).toBe(true)
  })

  test('S6: a key that was revoked is refused by each of them within a second', async () => {
    const key = await ownKey()
    const all = () => Promise.all(Array.from({ length: 12 }, () => statusOf(post('mock/m', key))))
    expect(new Set(await all())).toEqual(new Set([200]))
    const revoked = await lab.weir.command('keys', 'revoke', key.split('-')[3]!)
    expect(revoked.code).toBe(0)
    const at = performance.now()
    await until(all, (statuses) => statuses.every((status) => status === 401), 1_500)
    expect(performance.now() - at).toBeLessThan(1_500)
    const refused = await post('mock/m', key)
    await refused.text()
    const shown = await until(
      () => lab.weir.command('requests', 'show', refused.headers.get('x-request-id')!, '--json'),
      ({ code }) => code === 0,
      5_000,
    )
    expect(JSON.parse(shown.stdout)).toMatchObject({ code: 'api_key_revoked', key: key.split('-')[3] })
  })

  test('G12: probe an offer that is down once a second together, and all return to it when it answers', async () => {
    const askedFor = (model: string) => mock.bill.filter((line) => line.model === model).length
    cheapIsDown = true
    const many = () =>
      Promise.all(Array.from({ length: 24 }, () => statusOf(post('two/offers', lab.weir.key))))
    // Until the breakers of both are open.
    let before = -1
    const began = performance.now()
    while (askedFor('cheap') !== before && performance.now() - began < 10_000) {
      before = askedFor('cheap')
      expect(new Set(await many())).toEqual(new Set([200]))
    }
    const at = performance.now()
    while (performance.now() - at < 3_000) expect(new Set(await many())).toEqual(new Set([200]))
    expect(askedFor('cheap') - before).toBeWithin(1, 3 + 2)
    cheapIsDown = false
    await until(
      async () => {
        const dear = askedFor('dear')
        await many()
        return askedFor('dear') - dear
      },
      (dear) => dear === 0,
      5_000,
    )
  })

  test('an Idempotency-Key is served once, whichever worker gets it', async () => {
    const before = mock.bill.length
    const once = () =>
      postAs(
        `${lab.weir.origin}/v1/chat/completions`,
        lab.weir.key,
        { model: 'mock/m', ...ask },
        { headers: { 'idempotency-key': 'across' }, keepalive: false },
      )
    const first = await (await once()).text()
    const again = await Promise.all(Array.from({ length: 10 }, once))
    for (const answer of again) {
      expect(answer.headers.get('idempotency-replayed')).toBe('true')
      expect(await answer.text()).toBe(first)
    }
    expect(mock.bill.length - before).toBe(1)
  })

  test('a response is continued by another worker than the one that gave it', async () => {
    const respond = async (previous?: string) => {
      const response = await postAs(
        `${lab.weir.origin}/v1/responses`,
        lab.weir.key,
        { model: 'mock/m', input: 'Go on.', previous_response_id: previous },
        { keepalive: false },
      )
      expect(response.status).toBe(200)
      return ((await response.json()) as { id: string }).id
    }
    const first = await respond()
    const others = await Promise.all(Array.from({ length: 8 }, () => respond(first)))
    expect(new Set(others).size).toBe(8)
  })

  test('when a worker is killed, its calls are ended within five seconds, those of the other go on, and another takes its place', async () => {
    const { key } = lab.weir
    const before = Number((await creditsOf(key)).total_used)
    const streams = await Promise.all(
      Array.from({ length: 12 }, async () => {
        const response = await post('paced/m', key, { stream: true })
        const reader = response.body!.getReader()
        const { value } = await reader.read()
        return { reader, text: new TextDecoder().decode(value) }
      }),
    )
    const { alive, served } = workersOf(lab)
    process.kill(alive[0]!, 'SIGKILL')
    const killedAt = performance.now()
    const endings = await Promise.all(
      streams.map(async ({ reader, text: begun }) => {
        let text = begun
        try {
          for (let next = await reader.read(); !next.done; next = await reader.read())
            text += new TextDecoder().decode(next.value)
        } catch {
          return 'broken'
        }
        return text.endsWith('data: [DONE]\n\n') && wordsIn(text) === 'word '.repeat(40) ? 'whole' : 'broken'
      }),
    )
    expect(new Set(endings)).toEqual(new Set(['whole', 'broken']))
    const credits = await until(
      () => creditsOf(key),
      ({ held }) => held === '0',
      5_000,
    )
    expect(performance.now() - killedAt).toBeLessThan(5_000)
    const whole = endings.filter((ending) => ending === 'whole').length
    const each = (12 + 40 * 2) / 1_000_000
    // Those that were cut before their first checkpoint cost nothing; none costs more than it delivered.
    const used = Number(credits.total_used) - before
    expect(used).toBeGreaterThanOrEqual(whole * each - 1e-9)
    expect(used).toBeLessThanOrEqual(streams.length * each + 1e-9)
    const now = await until(
      () => workersOf(lab),
      (workers) => workers.served.length > served.length,
      5_000,
    )
    expect(now.alive).toHaveLength(2)
    expect((await fetch(`${lab.weir.origin}/readyz`)).status).toBe(200)
    expect((await lab.weir.command('ledger', 'audit', '--json')).code).toBe(0)
  })

  test('when the process of the ledger is killed, the workers end at once: they could charge nothing', async () => {
    const { alive } = workersOf(lab)
    expect(alive).toHaveLength(2)
    await lab.weir.kill()
    await until(() => alive.filter(isAlive).length === 0, 2_000)
  })
})

test('a gateway of four workers that is told to stop finishes its streams, takes nothing new, and leaves no process behind', async () => {
  const four = await startLab(
    { providers: { paced: paced.url }, models: { 'paced/m': ['paced/m'] } },
    { args: ['--workers', '4'] },
  )
  const streams = await Promise.all(
    Array.from({ length: 16 }, async () => {
      const response = await post('paced/m', four.weir.key, { stream: true }, four.weir.origin)
      const reader = response.body!.getReader()
      return { reader, first: (await reader.read()).value! }
    }),
  )
  const { served } = workersOf(four)
  expect(served).toHaveLength(4)
  const stopped = four.weir.stop()
  const texts = await Promise.all(
    streams.map(async ({ reader, first }) => {
      let text = new TextDecoder().decode(first)
      for (let next = await reader.read(); !next.done; next = await reader.read())
        text += new TextDecoder().decode(next.value)
      return text
    }),
  )
  for (const text of texts) {
    expect(wordsIn(text)).toBe('word '.repeat(40))
    expect(text).toEndWith('data: [DONE]\n\n')
  }
  expect(await stopped).toBe(0)
  expect(served.filter(isAlive)).toEqual([])
})
