// Every page in both themes, on a screen and on a phone: accessible, no wider than the screen, without a fault, and
// without asking anybody else for anything.

import { describe, expect, test } from 'bun:test'
import type { Locator } from 'playwright-core'
import { eventually, post } from '../support/call-gateway.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

const own = [
  '',
  'keys',
  'credits',
  'credits/top-up',
  'usage',
  'requests',
  'models',
  'chat',
  'mcp',
  'connect',
  'settings',
  'settings/webhooks',
  'nowhere',
]
const payments = ['/payments', '/payments/messages', '/payments/vouchers', '/payments/subscriptions']
const operators = [
  '',
  '/accounts',
  '/requests',
  '/usage?by=account',
  '/requests?outcome=served&model=*echo*',
  '/search?q=owner',
  ...payments,
  '/providers',
  '/catalog',
  '/ledger',
  '/keys',
  '/acts',
  '/settings',
]

describe.skipIf(browserPath === null)('every page', () => {
  const console = openedConsole()

  test.each([
    ['of an account', own],
    ['of an operator', operators.map((path) => `operator${path}`)],
  ] as const)(
    '%s is accessible in both themes and both widths',
    async (_, addresses) => {
      const visit = await console.visit()
      await console.enter(visit.page)
      const faults: string[] = []
      for (const address of addresses) faults.push(...(await faultsOf(visit.page, address)))
      expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
      await visit.leave()
    },
    150_000,
  )

  test('names the models of a phone in full', async () => {
    const visit = await console.visit({ width: 360 })
    const { page } = visit
    await console.enter(page)
    const cutIn = async (list: Locator): Promise<readonly (string | null)[]> => {
      const ids = list.locator('.font-mono')
      await ids.nth(9).waitFor()
      return ids.evaluateAll((all) =>
        all
          .slice(0, 10)
          .filter((id) => id.scrollHeight > id.clientHeight + 1 || id.scrollWidth > id.clientWidth)
          .map((id) => id.textContent),
      )
    }
    await page.goto('/console/models')
    const cut = [...(await cutIn(page.getByRole('row')))]
    await page.goto('/console/chat')
    await page.locator('button[aria-haspopup=dialog]').click()
    await page.getByLabel('Search models').fill('openrouter anthropic')
    await page
      .getByRole('option', { name: /openrouter/ })
      .first()
      .waitFor()
    cut.push(...(await cutIn(page.getByRole('dialog').getByRole('option'))))
    expect({ cut, ...seen(visit) }).toEqual({ cut: [], ...clean })
    await visit.leave()
  }, 30_000)

  test('with a name that is long and has no space is no wider than the screen', async () => {
    const visit = await console.visit({ width: 360 })
    await console.enter(visit.page)
    const { weir } = console
    const address = `${'a'.repeat(60)}@${'b'.repeat(60)}.${'c'.repeat(60)}.example.org`
    const made = await weir.command('accounts', 'create', '--email', address, '--json')
    const model = `sim/${'d'.repeat(180)}`
    const refused = await post(weir, { model, messages: [{ role: 'user', content: 'Hello' }] })
    const { id } = JSON.parse(made.stdout) as { id: string }
    await eventually(
      async () =>
        (await post(weir, undefined, { method: 'GET', path: `/requests/${refused.requestId}` })).status,
      (status) => status === 200,
    )
    const faults: string[] = []
    for (const page of [`operator/accounts/${id}`, `requests/${refused.requestId}`])
      faults.push(...(await faultsOf(visit.page, page)))
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)
})
