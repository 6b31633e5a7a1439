// A page looked at in both themes, on a screen and on a phone: accessible, no wider than the screen, without an error.
// Contrast depends on the theme and not on the width, what has room on the width alone: two looks see all.

import type { Page } from 'playwright-core'
import { accessibilityFaults } from './visitor.ts'

const looks = [
  { theme: 'light', width: 1280 },
  { theme: 'dark', width: 360 },
] as const

/** What is wrong with a page in either look: one line each. */
export async function faultsOf(page: Page, address: string): Promise<readonly string[]> {
  await page.goto(`/console/${address}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
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
