// A gateway that sells under a name of its own: its customers see that name, its colours, its terms and its help.

import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { tempDir } from '../support/tmp.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('a brand', () => {
  const home = tempDir('weir-brand-')
  writeFileSync(
    home.join('logo.svg'),
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 4"><rect width="4" height="4" fill="#7a1fa2"/></svg>',
  )
  const console = openedConsole(() => ({
    config: `brand:
  name: Brook & Sons
  logo: ${home.join('logo.svg')}
  colors: { accent: "#7a1fa2", accent_dark: "#e0a0ff" }
  terms_url: https://brook.example/terms
  support: help@brook.example
`,
  }))

  test('stands on the sign-in, in the menu and on the simulated payment', async () => {
    const visit = await console.visit()
    const { page } = visit
    await page.goto('/console')
    await page.getByText('Brook & Sons', { exact: true }).waitFor()
    expect(await page.getByRole('link', { name: 'Terms' }).getAttribute('href')).toBe(
      'https://brook.example/terms',
    )
    expect(await page.getByRole('link', { name: 'Support' }).getAttribute('href')).toBe(
      'mailto:help@brook.example',
    )
    expect(await page.getByRole('link', { name: 'Privacy' }).count()).toBe(0)
    await console.signIn(page)
    expect(await page.title()).toBe('Overview · Brook & Sons')
    const image = page.locator('aside img')
    expect(await image.evaluate((img: HTMLImageElement) => img.naturalWidth)).toBeGreaterThan(0)

    // A long name takes no room from the buttons beside it.
    const right = (name: string) =>
      page.getByRole('button', { name }).evaluate((button) => button.getBoundingClientRect().right)
    const menu = await page.locator('aside').evaluate((aside) => aside.getBoundingClientRect().right)
    expect(await right('Fold the menu')).toBeLessThan(menu)

    await page.goto('/console/credits/top-up')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: /^Simulated payment of ₹/ }).waitFor()
    await page.getByText('Brook & Sons').waitFor()
    const pay = page.getByRole('button', { name: 'Pay', exact: true })
    // The style of the page is allowed by its hash.
    expect(await pay.evaluate((button) => getComputedStyle(button).backgroundColor)).toBe('rgb(122, 31, 162)')
    await pay.click()
    await page.waitForURL(/credits\/top-ups\//)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)
})
