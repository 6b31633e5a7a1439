// What calls came to, by day: for an account over HTTP, for operators on the command line, and the same as the ledger.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { accountWith, getAs } from '../../support/call-gateway.ts'
import type { UsageView } from '../../../src/http/v1/usage.ts'

let lab: Lab
let other: { key: string; keyId: string }

beforeAll(async () => {
  lab = await startLab({ providers: {}, models: {}, settings: { local_servers: { discover: false } } })
  other = await accountWith(lab.weir, 'other@example.org', { purchased: '1' })
  for (const model of ['sim/echo', 'sim/error-500', 'sim/echo', 'sim/ecko']) await lab.ask(model)
  await until(
    () => usage(),
    ({ totals }) => totals.calls === 4,
  )
})
afterAll(() => lab?.weir.stop())

async function read(path: string, key = lab.weir.key): Promise<Response> {
  return getAs(lab.weir.baseUrl + path, key)
}

async function usage(query = '', key = lab.weir.key): Promise<UsageView> {
  const response = await read(`/usage${query}`, key)
  expect(response.status).toBe(200)
  return (await response.json()) as UsageView
}

async function printed(...args: string[]): Promise<string> {
  const { code, stdout } = await lab.weir.command(...args)
  expect(code).toBe(0)
  return stdout
}

async function totalUsed(): Promise<string> {
  const { data } = (await (await read('/credits')).json()) as { data: { total_used: string } }
  return data.total_used
}

test('an account reads its days; the sums are those of its credits', async () => {
  const byModel = await usage('?by=model')
  expect(byModel.data.map(({ group, calls, errors }) => ({ group, calls, errors }))).toEqual([
    { group: '', calls: 1, errors: 1 },
    { group: 'sim/echo', calls: 2, errors: 0 },
    { group: 'sim/error-500', calls: 1, errors: 1 },
  ])
  expect(byModel.totals.charged).toBe(await totalUsed())
  expect(byModel.totals).toEqual((await usage()).totals)
  expect((await usage('?by=channel')).data.map(({ group }) => group)).toEqual(['api'])
  expect((await usage('?by=key')).data).toMatchObject([{ label: expect.any(String), calls: 4 }])
  expect((await usage('?model=sim/echo')).totals.calls).toBe(2)
})

test('another account sees nothing of it, also with its key id', async () => {
  expect((await usage('', other.key)).data).toEqual([])
  const [own] = (await usage('?by=key')).data
  expect((await usage(`?key=${own!.group}`, other.key)).data).toEqual([])
})

test.each([
  ['?by=color', 'by'],
  ['?from=2026-02-30', 'from'],
  ['?from=yesterday', 'from'],
  ['?from=2026-02-02&to=2026-02-01', 'from'],
  ['?from=2020-01-01&to=2026-02-01', 'from'],
  ['?account=somebody', 'account'],
  ['?by=day&by=key', 'by'],
])('%s is refused by name', async (query, param) => {
  const response = await read(`/usage${query}`)
  expect(response.status).toBe(400)
  expect(await response.json()).toMatchObject({ error: { code: 'invalid_request', param } })
})

test('the CSV and the command have the same digits', async () => {
  const { data, totals } = await usage('?by=model')
  const csv = await (await read('/usage.csv?by=model')).text()
  const lines = csv.trimEnd().split('\r\n')
  expect(lines[0]).toBe('day,group,label,calls,errors,input_tokens,output_tokens,cost,charged,average_ms')
  expect(lines.slice(1)).toEqual(
    data.map((row) =>
      Object.values(row)
        .map((cell) => cell ?? '')
        .join(','),
    ),
  )
  const command = await printed('usage', '--by', 'model', '--json')
  expect(JSON.parse(command)).toMatchObject({ data, totals })
  expect(await printed('usage', '--by', 'model', '--csv')).toBe(csv)
})
