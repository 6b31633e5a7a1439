// Calls as they go and after, and the ways around the console by keyboard.

import { describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('requests', () => {
  const console = openedConsole()

  const call = (model: string, stream: boolean) =>
    fetch(`${console.weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${console.weir.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'One two three four' }] }),
    }).then((response) => response.text())

  test('a call is seen in flight, with what it reserves, and then in the list with a receipt that adds up', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/requests')
    const running = call('sim/slow', true)
    const live = page.getByRole('region', { name: 'In flight' })
    await live.getByText('sim/slow').waitFor()
    expect(await live.getByText(/reserves \$0\.\d+/).count()).toBe(1)
    await running
    await live.waitFor({ state: 'detached' })
    const row = page.getByRole('row').filter({ hasText: 'sim/slow' })
    await row.getByRole('link').click()
    await page.getByRole('button', { name: 'Check it' }).click()
    await page.getByText('It adds up').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('the filter of the list stands in the address, and outlives a reload', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await Promise.all([call('sim/echo', false), call('sim/error-500', false)])
    await page.goto('/console/requests')
    await page.getByPlaceholder('Model, the whole id').fill('sim/error-500')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.waitForURL(/model=sim%2Ferror-500/)
    await page.reload()
    await page.getByRole('row').filter({ hasText: 'sim/error-500' }).first().waitFor()
    expect(await page.getByRole('row').filter({ hasText: 'sim/echo' }).count()).toBe(0)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('two keys lead to a page, one to its search, and one lists them all', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.signIn(page)
    for (const [keys, name] of [
      ['gk', 'Keys'],
      ['gm', 'Models'],
    ] as const) {
      await page.keyboard.type(keys)
      await page.getByRole('heading', { level: 1, name }).waitFor()
    }
    await page.keyboard.press('/')
    await page.keyboard.type('echo')
    await page.getByRole('row').filter({ hasText: 'sim/echo' }).waitFor()
    await page.getByRole('searchbox').evaluate((field) => (field as HTMLElement).blur())
    await page.keyboard.press('?')
    const list = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
    await list.getByText('g k').waitFor()
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'detached' })
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)
})
