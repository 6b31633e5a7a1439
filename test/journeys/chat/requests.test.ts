// The request log as an account and its operator read it: served, failed and refused calls, and nobody else's.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { accountWith, post, getAs } from '../../support/call-gateway.ts'
import { weirCommand } from '../../support/run-weir.ts'

const silent = { local_servers: { discover: false } }
let lab: Lab
let other: { key: string; keyId: string }
let poor: { key: string }
const made: string[] = []
/** When they had been made: what is refused later has a row as well. */
let madeBefore = ''

interface Logged {
  readonly id: string
  readonly model: string
  readonly code: string | null
  readonly status: number
  readonly detail: Readonly<Record<string, unknown>> | null
}

interface Page {
  readonly data: readonly Logged[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

async function read<T>(path: string, key = lab.weir.key): Promise<{ status: number; body: T }> {
  const response = await getAs(lab.weir.baseUrl + path, key)
  return { status: response.status, body: (await response.json()) as T }
}

const listed = async (query = '', key = lab.weir.key) => (await read<Page>(`/requests${query}`, key)).body
const ids = ({ data }: Page) => data.map(({ id }) => id)

beforeAll(async () => {
  lab = await startLab({ providers: {}, models: {}, settings: silent })
  other = await accountWith(lab.weir, 'other@example.org', { purchased: '1' })
  poor = await accountWith(lab.weir, 'poor@example.org', {})
  for (const model of ['sim/echo', 'sim/error-500', 'sim/echo', 'sim/ecko', 'sim/echo'])
    made.unshift((await lab.ask(model)).requestId)
  await until(
    () => listed(),
    ({ data }) => data.length === made.length,
  )
  madeBefore = new Date().toISOString()
})
afterAll(() => lab?.weir.stop())

describe('an account', () => {
  test('finds its calls, the newest first, in pages', async () => {
    expect(ids(await listed())).toEqual(made)
    const found: string[] = []
    let cursor = ''
    for (;;) {
      const page = await listed(`?limit=2${cursor}`)
      found.push(...ids(page))
      if (page.next_cursor === null) break
      cursor = `&cursor=${page.next_cursor}`
    }
    expect(found).toEqual(made)
  })

  test.each([
    ['model=sim/echo', [0, 2, 4]],
    ['model=sim/echo&limit=1', [0]],
    ['code=model_not_found', [1]],
    ['code=none', []],
    ['until=2020-01-01', []],
    ['from=2020-01-01', [0, 1, 2, 3, 4]],
  ])('filters by %s', async (query, wanted) => {
    expect(ids(await listed(`?${query}`))).toEqual(wanted.map((at) => made[at]!))
  })

  test.each([
    ['limit=0', 'limit'],
    ['limit=many', 'limit'],
    ['cursor=yesterday', 'cursor'],
    ['from=tomorrow', 'from'],
    [`model=${'x'.repeat(201)}`, 'model'],
    ['modell=sim/echo', 'modell'],
    ['model=sim/echo&model=sim/tools', 'model'],
  ])('is told which filter is wrong: %s', async (query, param) => {
    const { status, body } = await read<{ error: object }>(`/requests?${query}`)
    expect(status).toBe(400)
    expect(body.error).toMatchObject({ code: 'invalid_request', param })
  })

  test('reads one call with its receipt, and finds no words of it', async () => {
    const failed = await read<{ data: Logged }>(`/requests/${made[3]}`)
    expect(failed.body.data).toMatchObject({
      id: made[3],
      code: 'upstream_error',
      receipt: { state: 'voided', attempts: [{ provider: 'sim', code: 'upstream_error' }] },
      contents: null,
    })
    expect(JSON.stringify(failed.body)).not.toContain('Where does it run?')
  })

  test('reads why it was refused: the figures of that moment', async () => {
    const { requestId, error } = await post(
      lab.weir,
      { model: 'sim/echo', messages: [{ role: 'user', content: 'x' }] },
      { key: poor.key },
    )
    expect(error?.code).toBe('purchased_credits_required')
    const { data } = await until(
      () => listed('', poor.key),
      (page) => page.data.length > 0,
    )
    expect(data).toHaveLength(1)
    expect(data[0]).toMatchObject({
      id: requestId,
      status: 402,
      code: 'purchased_credits_required',
      model: 'sim/echo',
      provider: null,
      attempts: 0,
      cost: '0',
      detail: { model: 'sim/echo', message: expect.any(String) },
    })
    expect(await read(`/requests/${requestId}`, poor.key)).toMatchObject({
      body: { data: { receipt: null } },
    })
  })

  test('never sees a call of another account', async () => {
    const theirs = await read<object>(`/requests/${made[0]}`, other.key)
    const nobodys = await read<object>('/requests/req_00000000000000000000000000000000', other.key)
    expect([theirs.status, nobodys.status]).toEqual([404, 404])
    expect(withoutId(theirs.body)).toEqual(withoutId(nobodys.body))
    expect(ids(await listed('', other.key))).toEqual([])
    expect((await read('/requests', 'sk-weir-live-nobody')).status).toBe(401)
  })
})

function withoutId(body: object): string {
  return JSON.stringify(body).replace(/req_[0-9a-f]{32}/g, 'req')
}

describe('the operator', () => {
  const weir = async (...args: string[]) => {
    const { code, stdout, stderr } = await lab.weir.command('requests', ...args)
    return { code, stdout, stderr }
  }

  test('lists, filters and pages on the command line', async () => {
    const owner = ['--account', 'owner@localhost', '--until', madeBefore, '--json']
    const { stdout } = await weir('list', ...owner, '--limit', '3')
    const page = JSON.parse(stdout) as Page
    expect(ids(page)).toEqual(made.slice(0, 3))
    const rest = await weir('list', ...owner, '--cursor', page.next_cursor!)
    expect(ids(JSON.parse(rest.stdout) as Page)).toEqual(made.slice(3))
    const code = await weir('list', '--code', 'model_not_found', '--json')
    expect(ids(JSON.parse(code.stdout) as Page)).toEqual([made[1]!])
    const words = await weir('list', '--model', 'sim/ecko')
    expect(words.stdout).toContain('model_not_found')
    expect(words.stdout).toContain(made[1]!)
  })

  test('shows one call with every attempt', async () => {
    const json = JSON.parse((await weir('show', made[3]!, '--json')).stdout) as {
      receipt: { attempts: object[] }
    }
    expect(json.receipt.attempts).toHaveLength(1)
    expect((await weir('show', made[3]!)).stdout).toContain('upstream_error')
    expect(await weir('show', 'req_0')).toMatchObject({ code: 1, stdout: '' })
  })

  test.each([
    ['--limit', '0'],
    ['--since', 'tomorrow'],
    ['--cursor', 'x'],
  ])('is told of a wrong %s', async (option, value) => {
    expect(await weir('list', option, value)).toMatchObject({ code: 2, stdout: '' })
  })
})

test('where log.prompts allows it, and only there, a call is kept with its words', async () => {
  const open = await startLab({ providers: {}, models: {}, settings: { ...silent, log: { prompts: true } } })
  try {
    for (const stream of [false, true]) {
      const { requestId } = await open.ask('sim/echo', { stream })
      const seen = await until(
        () => open.get(`/v1/requests/${requestId}`),
        (body) => body['data'] !== undefined,
      )
      const { contents } = seen['data'] as { contents: { request: string; answer: string } }
      expect(contents.request).toContain('Where does it run?')
      expect(contents.answer).toContain('"content"')
    }
  } finally {
    await open.weir.stop()
  }
})

test('tail prints calls as they end, failures too, and stops when it is interrupted', async () => {
  const tail = Bun.spawn([...weirCommand, 'requests', 'tail', '--json', '--data-dir', lab.weir.dataDir], {
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const printed: Logged[] = []
  const reading = (async () => {
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of tail.stdout) {
      text += decoder.decode(bytes, { stream: true })
      const lines = text.split('\n')
      text = lines.pop()!
      printed.push(...lines.map((line) => JSON.parse(line) as Logged))
    }
  })()
  // It begins with what comes after it: calls are made until it shows one.
  const asked: string[] = []
  await until(
    async () => {
      asked.push((await lab.ask('sim/ecko')).requestId)
      await Bun.sleep(100)
      return printed.length
    },
    (count) => count > 1,
    10_000,
  )
  tail.kill('SIGINT')
  expect(await tail.exited).toBe(0)
  await reading
  const seen = printed.map(({ id }) => id)
  expect(asked.join()).toContain(seen.join())
  expect(printed[0]).toMatchObject({ status: 404, code: 'model_not_found' })
}, 20_000)
