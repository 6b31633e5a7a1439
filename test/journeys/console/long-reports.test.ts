// Reports of an installation with many keys, as programs ask for them: the dearest and the rest, and files of everything.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { fill, type Filled } from '../../scale/fill.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const dir = tempDir('weir-long-reports-')
let filled: Filled
let weir: ServedWeir
let management: string

beforeAll(async () => {
  const scale = { calls: 12_000, keys: 1_500, accounts: 30, keysOfCustomer: 600, days: 6 }
  filled = await fill(dir.join('data'), scale)
  weir = await serveWeir({ dataDir: dir.join('data') })
  await weir.command('accounts', 'invite', '--email', 'operator@example.org', '--role', 'operator')
  const of = ['--management', '--account', 'operator@example.org', '--json']
  management = (JSON.parse((await weir.command('keys', 'create', ...of)).stdout) as { key: string }).key
}, 60_000)
afterAll(async () => {
  await weir.stop()
  dir.remove()
})

const ask = (path: string, key: string, signal?: AbortSignal) =>
  fetch(`${weir.origin}${path}`, {
    headers: { authorization: `Bearer ${key}` },
    ...(signal ? { signal } : {}),
  })

interface Row {
  readonly group: string
  readonly calls: number
}
interface Answer {
  readonly data: readonly Row[]
  readonly totals: { readonly calls: number }
  readonly rest: { readonly groups: number; readonly data: readonly { readonly calls: number }[] } | null
}

const callsOf = (rows: readonly { readonly calls: number }[]) =>
  rows.reduce((sum, { calls }) => sum + calls, 0)

describe('usage of many keys', () => {
  test.each([
    ['everybody', () => '/admin/v1/usage', () => management],
    ['a customer', () => '/v1/usage', () => filled.customerKeyText],
  ])('of %s has rows for those that cost most, and the rest', async (_, path, key) => {
    const answer = (await (await ask(`${path()}?by=key&limit=5`, key())).json()) as Answer
    expect(new Set(answer.data.map(({ group }) => group)).size).toBe(5)
    expect(answer.rest!.groups).toBeGreaterThan(500)
    expect(callsOf(answer.data) + callsOf(answer.rest!.data)).toBe(answer.totals.calls)
    const file = await (await ask(`${path()}.csv?by=key`, key())).text()
    const rows = file.trimEnd().split('\r\n').slice(1)
    expect(callsOf(rows.map((row) => ({ calls: Number(row.split(',')[3]) })))).toBe(answer.totals.calls)
    expect(new Set(rows.map((row) => row.split(',')[1])).size).toBe(answer.rest!.groups + 5)
  })

  test('has at most ten thousand rows, however many are asked for', async () => {
    const asked = '/admin/v1/usage?by=key&limit=1000&from=2026-01-01&to=2026-12-31'
    const { data, rest } = (await (await ask(asked, management)).json()) as Answer
    expect(new Set(data.map(({ group }) => group)).size).toBe(27)
    expect(rest).not.toBeNull()
    expect(await ask('/v1/usage?limit=1001', filled.customerKeyText)).toMatchObject({ status: 400 })
  })

  test('ends with the client that asked for it, and others are served after many that left', async () => {
    for (let n = 0; n < 40; n++) {
      const left = new AbortController()
      const answer = await ask('/v1/usage.csv?by=key', filled.customerKeyText, left.signal)
      expect(answer.status).toBe(200)
      left.abort()
      await answer.text().catch(() => undefined)
    }
    // The gateway hears of the last of them a moment later.
    let status = 429
    while (status === 429) status = (await ask('/v1/usage.csv?by=key', filled.customerKeyText)).status
    expect(status).toBe(200)
  })
})

test('lists of keys are paged and searched', async () => {
  const path = `/admin/v1/accounts/${filled.customer}/keys`
  const page = async (query: string) =>
    (await (await ask(`${path}?${query}`, management)).json()) as {
      data: readonly { readonly name: string; readonly created_at: string }[]
      has_more: boolean
      next_cursor: string | null
    }
  const first = await page('')
  expect({ keys: first.data.length, more: first.has_more }).toEqual({ keys: 50, more: true })
  const second = await page(`cursor=${first.next_cursor}`)
  expect(second.data[0]!.created_at < first.data.at(-1)!.created_at).toBe(true)
  expect((await page('q=program%20599')).data.map(({ name }) => name)).toEqual(['program 599'])
  expect(await ask(`${path}?cursor=nothing`, management)).toMatchObject({ status: 400 })
})
