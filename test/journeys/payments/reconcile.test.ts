// The provider's bill beside a running gateway: what was charged is what is billed, and what is not is named.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { usualColumns } from '../../../src/cli/usage-export.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const dir = tempDir('weir-reconcile-')
let weir: ServedWeir
const receipts: { upstream_id: string; charged: string; ended_at: string }[] = []

beforeAll(async () => {
  weir = await serveWeir()
  for (const content of ['one', 'two', 'three']) receipts.push(await ask(content))
}, 30_000)
afterAll(async () => {
  await weir?.stop()
  dir.remove()
})

async function ask(content: string): Promise<(typeof receipts)[number]> {
  const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
  const response = await fetch(`${weir.baseUrl}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: 'sim/echo', messages: [{ role: 'user', content }], max_tokens: 9 }),
  })
  await response.text()
  const id = response.headers.get('x-request-id')
  const receipt = await fetch(`${weir.baseUrl}/generation?id=${id}`, { headers })
  return ((await receipt.json()) as { data: (typeof receipts)[number] }).data
}

async function reconciled(text: string, ...more: string[]) {
  const file = dir.join('export')
  writeFileSync(file, text)
  const { code, stdout, stderr } = await weir.command(
    'ledger',
    'reconcile',
    '--provider',
    'sim',
    file,
    ...more,
  )
  return { code, stdout, stderr }
}

async function reported(text: string, ...more: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await reconciled(text, ...more, '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as Record<string, unknown>
}

const csv = (rows: readonly (readonly string[])[]) =>
  ['"generation, id",usd', ...rows.map(([id, cost]) => `"${id}",${cost}`)].join('\n')
const map = ['--map', 'upstream_id=generation; id,cost=usd']

describe('an invoice by model and day', () => {
  const today = () => receipts[0]!.ended_at.slice(0, 10)
  const total = () => receipts.reduce((sum, { charged }) => sum + Math.round(Number(charged) * 1e12), 0)
  const invoice = (pico: number) =>
    `date,model,cost\n${today()},sim/echo,0.${String(pico).padStart(12, '0')}\n`

  test('that is what was charged agrees; one that is not says by how much, and why that may be', async () => {
    expect(await reported(invoice(total()))).toMatchObject({
      ok: true,
      drift: '0',
      days: [{ day: today(), model: 'echo', calls: 3, reasons: [] }],
    })
    expect(await reported(invoice(total() * 2))).toMatchObject({
      ok: false,
      days: [{ drift_picodollars: String(total()), reasons: [{ code: 'tier' }] }],
    })
    const { stdout } = await reconciled(invoice(total() + 7_001))
    expect(stdout).toContain(`${today()} echo: billed`)
    expect(stdout).toContain('in 3 calls: nothing that the ledger knows explains it')
    expect((await reconciled(invoice(1), '--model', 'nonsense')).code).toBe(2)
  })
})

describe('a bill', () => {
  test('that is what was charged agrees', async () => {
    const lines = receipts.map(({ upstream_id, charged }) => ({ id: upstream_id, cost: charged }))
    expect(await reported(JSON.stringify(lines))).toMatchObject({
      ok: true,
      lines: 3,
      matched: { ids: 3 },
      billed_only: { ids: 0 },
      booked_only: { ids: 0 },
      drift: '0',
      drift_picodollars: '0',
      drift_to_the_cent: '0.00',
    })
  })

  test('that is not is reported on both sides, to the picodollar', async () => {
    const [first, second, third] = receipts
    const dearer = (BigInt(Math.round(Number(second!.charged) * 1e12)) + 20_000_000_001n).toString()
    const cost = `0.${dearer.padStart(12, '0')}`
    const rows = [
      [first!.upstream_id, first!.charged],
      [second!.upstream_id, cost],
      ['stranger', '0.05'],
    ]
    const report = await reported(csv(rows).replace('generation, id', 'generation; id'), ...map)
    expect(report).toMatchObject({
      ok: false,
      drifts: [
        { upstream_id: second!.upstream_id, drift: '0.020000000001', drift_picodollars: '20000000001' },
      ],
      billed_only: { ids: 1, billed: '0.05', lines: [{ upstream_id: 'stranger', billed: '0.05' }] },
      booked_only: { ids: 1, charged: third!.charged, calls: [{ upstream_id: third!.upstream_id }] },
      drift_to_the_cent: '0.07',
    })
  })

  test('of another period leaves our calls out', async () => {
    expect(await reported('id,cost\nx,1', '--until', '2020-01-01')).toMatchObject({
      booked_only: { ids: 0 },
      booked: '0',
    })
    expect(await reported('id,cost\nx,1', '--since', '2020-01-01')).toMatchObject({ booked_only: { ids: 3 } })
  })

  test('reads as text, too', async () => {
    const { code, stdout } = await reconciled('id,cost\nstranger,1.005')
    expect(code).toBe(0)
    expect(stdout).toContain('sim bills 1.005 USD on 1 line;')
    expect(stdout).toContain('stranger: 1.005')
  })

  test.each([
    ['id,cost\nx,many', [], 1, 'line 2, column cost'],
    ['id,cost\nx,1', ['--map', 'price=cost'], 2, '--map takes'],
    ['id,cost\nx,1', ['--since', 'yesterday'], 2, '--since takes a date'],
  ] as [string, string[], number, string][])('%j with %j ends with %p', async (text, more, code, fault) => {
    const ended = await reconciled(text, ...more)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toContain(fault)
  })

  test('the help describes the columns', async () => {
    const { stdout } = await weir.command('ledger', 'reconcile', '--help')
    expect(stdout).toContain('--map names the columns')
    for (const [meaning, names] of Object.entries(usualColumns)) {
      const line = stdout.split('\n').find((text) => text.trim().startsWith(`${meaning} `))
      for (const name of names) expect(line).toContain(name)
    }
  })
})
