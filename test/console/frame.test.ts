// The frame of the console: the command palette, the theme, and what is folded. All is remembered by the browser.

import { describe, expect, test } from 'bun:test'
import { findByName } from '../../src/console/palette.tsx'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

test.each([
  ['ke', ['Keys', 'Management keys', 'Tokens kept']],
  ['  KEYS ', ['Keys', 'Management keys']],
  ['key man', ['Management keys']],
  ['', ['Keys', 'Management keys', 'Tokens kept']],
  ['nothing', []],
])('%p finds %p', (typed, names) => {
  const all = ['Management keys', 'Tokens kept', 'Keys'].map((name) => ({
    id: name,
    name,
    run: () => undefined,
  }))
  const found = findByName(all, typed).map(({ name }) => name)
  expect(typed.trim() === '' ? found.toSorted() : found).toEqual(names)
})

describe.skipIf(browserPath === null)('the frame', () => {
  const console = openedConsole()

  test('finds pages, models and actions by Ctrl-K, and keeps the theme and what is folded', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    const palette = page.getByRole('dialog', { name: 'Find' })
    const take = async (typed: string) => {
      await page.keyboard.press('Control+k')
      await palette.waitFor()
      await page.keyboard.type(typed)
      // Models and conversations are loaded when they are first wanted.
      await palette.getByRole('option').first().waitFor()
      await page.keyboard.press('Enter')
      await palette.waitFor({ state: 'detached' })
    }
    await take('usage')
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor()
    await take('sim/hang')
    await page.locator('button[aria-haspopup=dialog]', { hasText: 'sim/hang' }).waitFor()
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Message')

    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
    const light = await paper()
    await take('dark')
    const dark = await paper()
    expect(dark).not.toBe(light)
    await page.reload()
    await page.getByLabel('Message').waitFor()
    expect(await paper()).toBe(dark)
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.getByRole('complementary').getByLabel('Theme').selectOption('light')
    expect(await paper()).toBe(light)
    await page.getByRole('complementary').getByLabel('Theme').selectOption('system')
    expect(await paper()).toBe(dark)

    const menu = page.getByRole('complementary')
    const wide = (await menu.boundingBox())!.width
    await take('fold the menu')
    await page.getByRole('button', { name: 'Fold the conversations' }).click()
    await page.reload()
    await page.getByRole('button', { name: 'Unfold the conversations' }).waitFor()
    expect((await menu.boundingBox())!.width).toBeLessThan(wide / 3)
    expect(await page.getByRole('link', { name: 'Keys', exact: true }).isVisible()).toBe(true)
    await page.keyboard.press('Control+k')
    await palette.waitFor()
    const faults = [...(await accessibilityFaults(page))]
    await page.keyboard.press('Escape')
    await palette.waitFor({ state: 'detached' })
    faults.push(...(await accessibilityFaults(page)))
    await page.getByRole('button', { name: 'Unfold the menu' }).click()
    expect((await menu.boundingBox())!.width).toBe(wide)
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await context.close()
  }, 30_000)
})
