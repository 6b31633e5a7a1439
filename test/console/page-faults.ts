// A page looked at in both themes, on a screen and on a phone: accessible, no wider than the screen, without an error.
// Contrast depends on the theme and not on the width, what has room on the width alone: two looks see all.

import type { Page } from 'playwright-core'
import { accessibilityFaults } from './visitor.ts'

const looks = [
  { theme: 'light', width: 1280 },
  { theme: 'dark', width: 360 },
] as const

/** Where there is no page. Between two pages that are alike it shows that the second one has come. */
const nowhere = { address: 'nowhere', says: 'There is no such page.' }

/** Shows a page as a link within the console does: to load the console anew takes as long as to look at a page. */
export async function show(page: Page, address: string): Promise<void> {
  const heading = page.getByRole('heading', { level: 1 })
  const isOpen = await page.evaluate('document.querySelector("#root h1") !== null')
  const go = (to: string) => page.evaluate((path) => history.pushState(null, '', path), `/console/${to}`)
  if (!isOpen) {
    await page.goto(`/console/${address}`)
    return heading.waitFor()
  }
  await go(nowhere.address)
  await heading.filter({ hasText: nowhere.says }).waitFor()
  if (address === nowhere.address) return
  await go(address)
  await heading.filter({ hasNotText: nowhere.says }).waitFor()
}

/** What is wrong with a page in either look: one line each. */
export async function faultsOf(page: Page, address: string): Promise<readonly string[]> {
  await show(page, address)
  await page.locator('[role=status][aria-label=Loading]').first().waitFor({ state: 'detached' })
  const faults: string[] = []
  for (const { theme, width } of looks) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
    await page.setViewportSize({ width, height: 860 })
    const found = [...(await accessibilityFaults(page))]
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    if (wider > 0) found.push(`${wider} pixels wider than the screen`)
    const scrolled = await page
      .getByRole('group')
      .evaluateAll((groups) =>
        groups
          .filter((group) => group.querySelector(':scope > table') && group.scrollWidth > group.clientWidth)
          .map((group) => group.getAttribute('aria-label')),
      )
    if (width < 640) found.push(...scrolled.map((label) => `the table ${label} scrolls sideways`))
    faults.push(...found.map((fault) => `${address}, ${theme}, ${width}: ${fault}`))
  }
  const errors = await page.getByRole('alert').allInnerTexts()
  return [...faults, ...errors.map((text) => `${address} says ${text}`)]
}
