// Whole journeys through the console in a real browser, against the running gateway: in, a key, its first call, out.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'
import { accessibilityFaults, browserPath, launchBrowser, visitor } from './visitor.ts'

let weir: RunningWeir
let browser: Browser
let origin: string

describe.skipIf(browserPath === null)('the console in a browser', () => {
  beforeAll(async () => {
    weir = await startWeir()
    origin = `http://localhost:${weir.port}`
    browser = await launchBrowser()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await weir?.stop()
  })

  async function linkFor(email: string): Promise<string> {
    const made = await weir.command('accounts', 'link', '--account', email, '--json')
    expect(made).toMatchObject({ code: 0 })
    return (JSON.parse(made.stdout) as { url: string }).url
  }

  async function signedInAsOwner(page: Page): Promise<void> {
    await page.goto(await linkFor('owner@localhost'))
    await page.getByRole('link', { name: 'Not now' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  }

  test('a link signs in once, and its secret leaves the address', async () => {
    const { context, page, foreign, complaints } = await visitor(browser, origin)
    const url = await linkFor('owner@localhost')
    await page.goto(url)
    await page.getByRole('heading', { name: 'Welcome' }).waitFor()
    expect(page.url()).toBe(`${origin}/console/welcome`)
    await page.getByRole('link', { name: 'Not now' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.goBack()
    await page.goBack()
    expect(page.url()).not.toContain(url.slice(url.indexOf('#') + 1))

    await page.goto('about:blank')
    await page.goto(url)
    await page.getByRole('alert').getByText('invalid_ticket').waitFor()
    expect({ foreign, complaints }).toEqual({ foreign: [], complaints: [] })
    await context.close()
  }, 30_000)

  test('an account is created, signed out of and signed in to; a wrong password is refused', async () => {
    const { context, page, foreign, complaints } = await visitor(browser, origin)
    await page.goto('/console')
    await page.getByRole('link', { name: 'Create an account' }).click()
    await page.getByLabel('E-mail').fill('asha@example.org')
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()

    await page.getByLabel('E-mail').fill('asha@example.org')
    await page.getByLabel('Password').fill('some other rivers')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('alert').getByText('wrong_credentials').waitFor()
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect({ foreign, complaints }).toEqual({ foreign: [], complaints: [] })
    await context.close()
  }, 30_000)

  test.each(['light', 'dark'] as const)(
    'what is shown to who is signed out is accessible: %s',
    async (theme) => {
      const { context, page, foreign, complaints } = await visitor(browser, origin, { theme, width: 390 })
      const faults: string[] = []
      for (const address of ['', '/create-account', '/reset', '/link']) {
        await page.goto(`/console${address}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        faults.push(...(await accessibilityFaults(page)).map((fault) => `${address} ${fault}`))
      }
      expect({ faults, foreign, complaints }).toEqual({ faults: [], foreign: [], complaints: [] })
      await context.close()
    },
    30_000,
  )

  const addresses = ['/keys', '/connect', '/settings']
  const looks = [
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
    ['dark', 390],
  ] as const

  test.each(looks)(
    'every page is accessible, as wide as the screen, and asks nobody else: %s, %p pixels',
    async (theme, width) => {
      const { context, page, foreign, complaints } = await visitor(browser, origin, { theme, width })
      await signedInAsOwner(page)
      const faults: string[] = []
      for (const address of addresses) {
        await page.goto(`/console${address}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('[role=status][aria-label=Loading]').first().waitFor({ state: 'detached' })
        faults.push(...(await accessibilityFaults(page)).map((fault) => `${address} ${fault}`))
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        if (wider > 0) faults.push(`${address} is ${wider} pixels wider than the screen`)
        const errors = await page.getByRole('alert').allInnerTexts()
        faults.push(...errors.map((text) => `${address} says ${text}`))
      }
      expect({ faults, foreign, complaints }).toEqual({ faults: [], foreign: [], complaints: [] })
      await context.close()
    },
    60_000,
  )
})
