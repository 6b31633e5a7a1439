// Payments in the console: what a top-up costs is shown before it is paid, its page waits and says for what, and the
// receipt can be printed.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { deliver, fx } from '../journeys/payments/top-ups-lab.ts'
import { FakeRazorpay } from '../support/fake-razorpay.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

let razorpay: FakeRazorpay
beforeAll(() => {
  razorpay = new FakeRazorpay()
})
afterAll(() => razorpay.stop())

const settings = () => `local_servers: { discover: false }
payments:
  ${fx}
  seller: { name: Example Models Pvt Ltd, address: "12 Lake Road, Pune 411001", gstin: 27AAAAA0000A1Z5 }
  currencies:
    EUR: { per_usd: '0.8', min: '5', max: '500', as_of: 2026-11-20, source: ECB }
    JPY: { per_usd: '150', min: '750', max: '75000', processors: [stripe] }
  razorpay: ${razorpay.settings}
`

describe.skipIf(browserPath === null)('payments', () => {
  const console = openedConsole(() => ({ config: settings() }))

  const typed = async (page: Page, amount: string) => {
    await page.getByLabel('Amount in INR').fill(amount)
    await page.getByLabel('Amount in INR').blur()
  }
  const purchased = (page: Page) =>
    page.evaluate(async () => {
      const { data } = await (await fetch('/console/api/credits')).json()
      return data.pools.find(({ type }: { type: string }) => type === 'purchased').remaining as string
    })

  test('the built-in simulator shows the whole flow, marked as a test, and credits nothing', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    const before = await purchased(page)
    await page.goto('/console/credits')
    await page.getByRole('link', { name: 'Top up', exact: true }).click()
    await page.getByText('$5.617030837499').waitFor()
    await page.getByText('RBI reference rate, of Nov 20, 2026').waitFor()
    await page.getByText(/if it is paid now/).waitFor()
    const said: Record<string, string> = {}
    for (const amount of ['99.99', '50001', '100.005', 'a lot', ''])
      said[amount] = await typed(page, amount).then(() => page.locator('p[id$=-error]').innerText())
    expect(said).toEqual({
      '99.99': 'A top-up is at least ₹100.',
      '50001': 'A top-up is at most ₹50,000.',
      '100.005': 'Amounts in INR have at most 2 decimals.',
      'a lot': 'Type an amount as digits, such as 500.',
      '': 'Type an amount.',
    })
    await typed(page, '250.50')
    await page.getByText('$2.814132449587').waitFor()
    await page.getByLabel('Paid with').selectOption('sim')
    await page.getByText('This is a test mode').waitFor()
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: 'Simulated payment of ₹250.50' }).waitFor()
    await page.getByRole('button', { name: 'Pay', exact: true }).click()
    await page.getByText('The test is finished: no money moved').waitFor()
    await page.getByRole('link', { name: 'Credits', exact: true }).first().click()
    const row = page.getByRole('row').filter({ hasText: '₹250.50' })
    expect(await row.innerText()).toContain('test')
    expect(await purchased(page)).toBe(before)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 40_000)

  test('a payment is waited for, credited when its message comes, and has a receipt to print', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    const before = Number(await purchased(page))
    await page.route(`${new URL(razorpay.baseUrl).origin}/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>Razorpay</title><h1>Pay here</h1>' }),
    )
    await page.goto('/console/credits/top-up')
    await page.getByRole('button', { name: 'Pay with Razorpay' }).click()
    await page.getByRole('heading', { name: 'Pay here' }).waitFor()
    const link = [...razorpay.links.values()].at(-1)!
    expect(link.amount).toBe(50_000)

    const address = `credits/top-ups/${link.reference}`
    await page.goto(`/console/${address}`)
    await page.getByText('Waiting for Razorpay to say that it was paid.').waitFor()
    expect(await faultsOf(page, address)).toEqual([])
    const payment = razorpay.pay(link.id)
    expect((await deliver(console.weir, razorpay.paid(payment))).status).toBe(200)
    await page.getByText('$5.617030837499 was added.').waitFor()
    expect(Number(await purchased(page)) - before).toBeCloseTo(5.617030837499, 9)

    const number = `WR-${new Date().getUTCFullYear()}-1`
    await page.getByRole('link', { name: `Receipt ${number}` }).click()
    await page.getByLabel('Your name on it').fill('Asha Rao')
    const receipt = page.getByRole('article')
    const text = await receipt.innerText()
    for (const part of [number, 'Asha Rao', '₹500', '$5.617030837499', 'Example Models Pvt Ltd', payment.id])
      expect(text).toContain(part)
    await page.emulateMedia({ media: 'print' })
    expect(await page.getByRole('button', { name: 'Print' }).isVisible()).toBe(false)
    expect(await page.getByRole('navigation').first().isVisible()).toBe(false)
    expect(await receipt.isVisible()).toBe(true)
    await page.emulateMedia({ media: 'screen' })
    expect(await faultsOf(page, `${address}/receipt`)).toEqual([])
    expect(seen(visit).complaints).toEqual([])
    await visit.leave()
  }, 60_000)

  test('it is paid in another currency, at its own rate', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/credits/top-up')
    await page.getByLabel('Currency').selectOption('EUR')
    await page.getByText('€0.8 for $1').waitFor()
    await page.getByLabel('Amount in EUR').fill('20')
    await page.getByText('$25.00', { exact: true }).waitFor()
    expect(await faultsOf(page, 'credits/top-up')).toEqual([])
    // Only Stripe takes yen, and it is not set up: the simulator is left.
    await page.getByLabel('Currency').selectOption('JPY')
    await page.getByText('$5.00', { exact: true }).waitFor()
    expect(await page.getByLabel('Paid with').count()).toBe(0)
    await page.getByLabel('Amount in JPY').fill('1500.5')
    await page.getByLabel('Amount in JPY').blur()
    await page.getByText('Amounts in JPY have no decimals.').waitFor()
    await page.getByLabel('Amount in JPY').fill('1500')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: /Simulated payment of .*1,500/ }).waitFor()
    await page.getByRole('button', { name: 'Pay', exact: true }).click()
    await page.getByText('The test is finished: no money moved').waitFor()
    await page.getByRole('heading', { name: 'Top-up of ¥1,500' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 40_000)

  test('a rate that has changed while the page was open is shown before anything is paid', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.route(`${new URL(razorpay.baseUrl).origin}/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>Razorpay</title><h1>Pay here</h1>' }),
    )
    // What the gateway said before its operator changed the rate.
    await page.route('**/console/api/top-up-terms', async (route) => {
      const response = await route.fetch()
      const { data } = (await response.json()) as { data: { currencies: object[] } }
      const [rupees, ...others] = data.currencies
      const currencies = [{ ...rupees, rate: '50' }, ...others]
      await route.fulfill({ response, json: { data: { ...data, currencies } } })
    })
    const before = razorpay.links.size
    await page.goto('/console/credits/top-up')
    await page.getByText('$10.00', { exact: true }).waitFor()
    await page.unroute('**/console/api/top-up-terms')
    await page.getByRole('button', { name: 'Pay with Razorpay' }).click()
    await page.getByText('The rate has changed while this page was open.').waitFor()
    await page.getByText('$5.617030837499').waitFor()
    await page.getByRole('button', { name: 'Pay with Razorpay' }).click()
    await page.getByRole('heading', { name: 'Pay here' }).waitFor()
    expect(razorpay.links.size).toBe(before + 1)
    expect(seen(visit).complaints).toEqual([])
    await visit.leave()
  }, 40_000)

  test('the receipt of somebody else is as one that there is not', async () => {
    const visit = await console.visit()
    await console.weir.command('accounts', 'create', '--email', 'other@example.org')
    await console.enter(visit.page, 'other@example.org')
    const link = [...razorpay.links.values()].at(-1)!
    await visit.page.goto(`/console/credits/top-ups/${link.reference}/receipt`)
    await visit.page.getByRole('alert').filter({ hasText: 'There is no such receipt.' }).waitFor()
    await visit.leave()
  }, 30_000)

  test('a voucher becomes credit once, and its code is forgotten', async () => {
    const made = await console.weir.command('vouchers', 'create', '--usd', '10', '--json')
    const [{ code }] = JSON.parse(made.stdout) as [{ code: string }]
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    const before = Number(await purchased(page))
    await page.goto('/console/credits/top-up')
    await page.getByLabel('Code').fill(code.toLowerCase())
    await page.getByRole('button', { name: 'Redeem' }).click()
    await page.getByText('$10.00 was added.').waitFor()
    expect(Number(await purchased(page)) - before).toBeCloseTo(10, 9)
    expect((await page.content()).toLowerCase()).not.toContain(code.toLowerCase())
    await page.getByLabel('Code').fill(code)
    await page.getByRole('button', { name: 'Redeem' }).click()
    await page.locator('p[id$=-error]').waitFor()
    expect(Number(await purchased(page)) - before).toBeCloseTo(10, 9)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('a credit line is shown where the account has one', async () => {
    await console.weir.command('accounts', 'set', '--account', 'owner@localhost', '--credit-line', '500')
    const visit = await console.visit()
    await console.enter(visit.page)
    await visit.page.goto('/console/credits')
    await visit.page.getByText('Without credit this account may owe up to $500.00.').waitFor()
    await visit.leave()
  }, 30_000)
})
