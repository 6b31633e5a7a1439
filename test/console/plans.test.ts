// Plans in the console: bought, run, renewed early, left to end, and what an operator sees of them.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { monthsAfter } from '../../src/credits/calendar.ts'
import { deliver, fx, sound } from '../journeys/payments/top-ups-lab.ts'
import { browserPath } from '../support/browser.ts'
import { FakeRazorpay } from '../support/fake-razorpay.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { hi } from '../../src/console/strings/hi.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'
import { Walk } from './walk.ts'

let razorpay: FakeRazorpay
beforeAll(() => {
  razorpay = new FakeRazorpay()
})
afterAll(() => razorpay.stop())

const settings = () => `local_servers: { discover: false }
brand: { name: Brook & Sons, colors: { accent: "#7a1fa2", accent_dark: "#e0a0ff" }, support: help@brook.example }
payments:
  ${fx}
  plans:
    basic: { title: Basic, about: For a chat now and then, credit_usd: "5", models: [sim/premium], prices: { INR: "499", EUR: "5.99" } }
    pro: { title: Pro, credit_usd: "20", prices: { INR: "1799" } }
  razorpay: ${razorpay.settings}
`

describe.skipIf(browserPath === null)('plans', () => {
  const console = openedConsole(() => ({ config: settings() }))
  const shots = process.env['SHOTS']
  const shoot = async (page: Page, name: string) => {
    if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true })
  }

  test('one is bought, renewed early, and left to end; a receipt and an operator say so', async () => {
    const email = 'asha@example.org'
    await console.weir.command('accounts', 'create', '--email', email)
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page, email)
    await page.route(`${new URL(razorpay.baseUrl).origin}/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>Razorpay</title><h1>Pay here</h1>' }),
    )
    const callable = () =>
      page.evaluate(async () => {
        const { data } = await (await fetch('/console/api/models?fields=id,callable')).json()
        return data.find(({ id }: { id: string }) => id === 'sim/premium').callable
      })
    expect(await callable()).toEqual({ api: 'plan_required', app: 'plan_required' })

    await page.goto('/console/credits')
    await page.getByRole('link', { name: 'Plans' }).click()
    const basic = page.getByRole('listitem').filter({ hasText: 'For a chat now and then' })
    await basic.getByText('₹499').first().waitFor()
    await shoot(page, 'plans')
    expect(await faultsOf(page, 'credits/plans')).toEqual([])
    const pay = async (button: string) => {
      await page.goto('/console/credits/plans')
      await page.getByRole('button', { name: button }).click()
      await page.getByRole('heading', { name: 'Pay here' }).waitFor()
      const link = [...razorpay.links.values()].at(-1)!
      expect(link.amount).toBe(49_900)
      const payment = razorpay.pay(link.id)
      expect((await deliver(console.weir, razorpay.paid(payment))).status).toBe(200)
      return link.reference
    }
    const first = await pay('Buy Basic')
    await page.goto(`/console/credits/top-ups/${first}`)
    await page.getByRole('heading', { level: 1, name: 'Basic for ₹499' }).waitFor()
    await page.getByText(/Basic, .* to .*: \$5\.00 of credit for chats\./).waitFor()
    await shoot(page, 'paid')
    expect(await callable()).toEqual({ api: 'plan_required', app: null })

    await pay('Renew Basic')
    await page.goto('/console/credits/plans')
    await page.getByText('to come').waitFor()
    // Its credit comes with its period.
    const credits = await page.evaluate(async () => (await (await fetch('/console/api/credits')).json()).data)
    const { remaining } = credits.pools.find(({ type }: { type: string }) => type === 'subscription')
    expect(remaining).toBe('5')
    const own = await page.evaluate(
      async () => (await (await fetch('/console/api/plans')).json()).data.periods,
    )
    expect(own.map(({ state }: { state: string }) => state)).toEqual(['running', 'coming'])
    expect(own[1].from).toBe(own[0].to)
    expect(Date.parse(own[1].to)).toBe(monthsAfter(Date.parse(own[0].to), 1))
    await page.getByRole('button', { name: 'Do not renew' }).click()
    await page.getByText('you will not be reminded').waitFor()
    await shoot(page, 'own')

    await page.goto(`/console/credits/top-ups/${first}/receipt`)
    const receipt = await page.getByRole('article').innerText()
    for (const part of [`WR-${new Date().getUTCFullYear()}-1`, '₹499', 'Basic', '$5.00 of credit for chats'])
      expect(receipt).toContain(part)
    await shoot(page, 'receipt')
    expect(seen(visit).complaints).toEqual([])
    await visit.leave()

    const operator = await console.visit()
    await console.enter(operator.page)
    await operator.page.goto('/console/operator/payments/plans')
    const holders = operator.page.getByRole('link', { name: email })
    await holders.nth(1).waitFor()
    expect(await holders.count()).toBe(2)
    expect(await faultsOf(operator.page, 'operator/payments/plans')).toEqual([])
    await shoot(operator.page, 'operator')
    await operator.page.getByRole('button', { name: 'Grant a plan' }).click()
    await operator.page.getByLabel('Account', { exact: true }).fill(email)
    await operator.page.getByLabel('Plan', { exact: true }).selectOption('pro')
    await operator.page.getByRole('button', { name: 'Grant', exact: true }).click()
    await holders.nth(2).waitFor()
    expect(seen(operator)).toEqual(clean)
    await operator.leave()
    const listed = await console.weir.command('plans', 'subscribers', '--account', email, '--json')
    const found = JSON.parse(listed.stdout) as { plan: string; state: string }[]
    expect(found.map(({ plan, state }) => `${plan} ${state}`).toSorted()).toEqual([
      'basic coming',
      'basic running',
      'pro running',
    ])
    await sound(console.weir)
  }, 90_000)

  test('a customer of a reseller buys one in Hindi, in rupees, under its name', async () => {
    const { weir } = console
    const made = await weir.command('accounts', 'invite', '--email', 'deepa@example.org', '--json')
    const visit = await console.visitAlone({ locale: 'hi-IN' })
    const { page } = visit
    await page.route(`${new URL(razorpay.baseUrl).origin}/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<title>Razorpay</title><h1>Pay here</h1>' }),
    )
    await page.goto((JSON.parse(made.stdout) as { url: string }).url)
    await page.getByRole('heading', { name: hi['Welcome']! }).waitFor()
    await page.getByText('Brook & Sons', { exact: true }).waitFor()

    const menu = page.getByRole('navigation')
    const buying = await Walk.from(page, 'customer of a reseller: a plan, in Hindi')
    await buying.click(page.getByRole('link', { name: hi['Not now']! }))
    await buying.click(menu.getByRole('link', { name: hi['Credits']!, exact: true }))
    await buying.click(page.getByRole('link', { name: hi['Plans']!, exact: true }))
    const basic = page.getByRole('listitem').filter({ hasText: 'For a chat now and then' })
    await basic.getByText('₹499').first().waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await shoot(page, 'hindi')
    await buying.click(basic.getByRole('button'))
    await page.getByRole('heading', { name: 'Pay here' }).waitFor()
    // On a page of the processor, the console is gone: its history begins anew behind that.
    const link = [...razorpay.links.values()].at(-1)!
    const payment = razorpay.pay(link.id)
    expect((await deliver(weir, razorpay.paid(payment))).status).toBe(200)
    await page.goto(`/console/credits/top-ups/${link.reference}`)
    await page
      .getByRole('status')
      .getByText(/^Basic, /)
      .waitFor()
    faults.push(...(await accessibilityFaults(page)))
    await shoot(page, 'hindi-paid')
    await buying.click(menu.getByRole('link', { name: hi['Credits']!, exact: true }))
    await buying.click(page.getByRole('link', { name: hi['Plans']!, exact: true }))
    const own = page.getByRole('listitem').filter({ hasText: hi['running']! })
    await own.getByText('Basic').waitFor()
    expect(await own.innerText()).toMatch(/जन॰|फ़र॰|मार्च|अप्रैल|मई|जून|जुल॰|अग॰|सित॰|अक्तू॰|नव॰|दिस॰/)
    await shoot(page, 'hindi-own')
    expect(await buying.end()).toEqual({ clicks: 6, entries: 0, pages: 7 })
    // Nothing of its pages is English but the names that the reseller has given.
    const words = await page.locator('main').innerText()
    expect(
      words
        .match(/[A-Za-z]{3,}/g)
        ?.filter(
          (word) => !/^(Basic|Pro|INR|EUR|Razorpay|For|chat|now|and|then|sim|premium|API|USD)$/.test(word),
        ) ?? [],
    ).toEqual([])
    expect(faults).toEqual([])
    expect(seen(visit).complaints).toEqual([])
    await visit.leave()
  }, 60_000)

  test.skipIf(shots === undefined)(
    'as they look',
    async () => {
      for (const theme of ['light', 'dark'] as const)
        for (const width of [1280, 360]) {
          const visit = await console.visit({ theme, width })
          await console.enter(visit.page, 'asha@example.org')
          for (const [name, path] of [
            ['plans', 'credits/plans'],
            ['credits', 'credits'],
            ['top-up', 'credits/top-up'],
          ] as const) {
            await visit.page.goto(`/console/${path}`)
            await visit.page.waitForLoadState('networkidle')
            await shoot(visit.page, `${name}-${theme}-${width}`)
          }
          await visit.leave()
        }
    },
    60_000,
  )
})
