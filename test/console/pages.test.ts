// Every page in both themes, on a screen and on a phone: accessible, no wider than the screen, without a fault, and
// without asking anybody else for anything.

import { describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, browserPath, clean, seen } from './visitor.ts'

const themes = ['light', 'dark'] as const
const widths = [1280, 390] as const

const own = ['', 'keys', 'credits', 'usage', 'requests', 'models', 'chat', 'connect', 'settings']
const operators = ['', '/accounts', '/providers', '/catalog', '/ledger', '/acts', '/settings']

async function faultsOf(page: Page, address: string): Promise<readonly string[]> {
  await page.goto(`/console/${address}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.locator('[role=status][aria-label=Loading]').first().waitFor({ state: 'detached' })
  const faults: string[] = []
  for (const theme of themes)
    for (const width of widths) {
      await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height: 860 })
      const found = [...(await accessibilityFaults(page))]
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      if (wider > 0) found.push(`${wider} pixels wider than the screen`)
      faults.push(...found.map((fault) => `${address}, ${theme}, ${width}: ${fault}`))
    }
  const errors = await page.getByRole('alert').allInnerTexts()
  return [...faults, ...errors.map((text) => `${address} says ${text}`)]
}

describe.skipIf(browserPath === null)('every page', () => {
  const console = openedConsole()

  test.each([
    ['of an account', own],
    ['of an operator', operators.map((path) => `operator${path}`)],
  ] as const)(
    '%s is accessible in both themes and both widths',
    async (_, addresses) => {
      const visit = await console.visit()
      await console.signIn(visit.page)
      const faults: string[] = []
      for (const address of addresses) faults.push(...(await faultsOf(visit.page, address)))
      expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
      await visit.context.close()
    },
    90_000,
  )
})
