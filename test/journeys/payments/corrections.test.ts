// An operator corrects beside a running gateway: what the command line books, the next request sees.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

let weir: RunningWeir

beforeAll(async () => {
  weir = await startWeir({ config: 'ledger: { sweep_ms: 50 }' })
}, 30_000)
afterAll(() => weir?.stop())

const owner = ['--account', 'owner@localhost']

/** Runs a command as a process of its own; it must succeed. */
const cli = <T>(...args: string[]) => runJson<T>(weir, ...args)

async function available(): Promise<string> {
  const response = await getAs(`${weir.baseUrl}/credits`, weir.key)
  const { data } = (await response.json()) as { data: { available: string } }
  return data.available
}

async function ask(): Promise<{ status: number; code: string | null }> {
  const response = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
    max_tokens: 9,
  })
  const body = (await response.json()) as { error?: { code: string } }
  return { status: response.status, code: body.error?.code ?? null }
}

interface Shown {
  readonly pools: readonly { readonly type: string; readonly lots: readonly { readonly id: string }[] }[]
  readonly history: readonly { readonly kind: string; readonly pool: string; readonly usd: string }[]
}

test('a refund is in the next answer, and the calls after it are refused; a top-up repays what was spent', async () => {
  expect((await ask()).status).toBe(200)
  const { pools } = await cli<Shown>('credits', 'show', ...owner)
  const lot = pools.find(({ type }) => type === 'purchased')!.lots[0]!.id
  const refund = ['credits', 'refund', ...owner, '--lot', lot, '--usd', '100', '--id', 'chargeback-1']
  const done = await cli<{ debt: string; taken: string }>(...refund)
  expect(Number(done.debt)).toBeGreaterThan(0)
  expect(await available()).toBe('0')
  expect(await ask()).toEqual({ status: 402, code: 'purchased_credits_required' })
  expect(await cli<object>(...refund)).toMatchObject({ refunded: false, debt: done.debt })
  await cli('credits', 'grant', ...owner, '--pool', 'purchased', '--usd', '5')
  expect(Number(await available())).toBe(5 - Number(done.debt))
  expect((await ask()).status).toBe(200)
}, 20_000)

test('a running server books the expiry of credit by itself', async () => {
  const soon = new Date(Date.now() + 1500).toISOString()
  await cli('credits', 'grant', ...owner, '--pool', 'subscription', '--usd', '3', '--expires', soon)
  const deadline = performance.now() + 10_000
  let history: Shown['history'] = []
  while (!history.some(({ kind }) => kind === 'expire') && performance.now() < deadline) {
    history = (await cli<Shown>('credits', 'show', ...owner, '--history')).history
  }
  expect(history).toContainEqual(expect.objectContaining({ kind: 'expire', pool: 'subscription', usd: '-3' }))
  expect(await cli<object>('ledger', 'audit')).toMatchObject({ ok: true })
}, 20_000)
