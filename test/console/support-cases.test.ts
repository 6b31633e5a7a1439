// An operator's support case in the console: one search, one page; and everybody's requests, narrowed down in the address.

import { describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import { accountWith, eventually, getAs, post } from '../support/call-gateway.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { clean, seen } from './visitor.ts'

/** Where it is: what lies above it takes the click. */
async function clickOn(page: Page, place: Locator): Promise<void> {
  const { x, y, width, height } = (await place.boundingBox())!
  await page.mouse.click(x + width / 2, y + height / 2)
}

describe.skipIf(browserPath === null)('a support case', () => {
  const console = openedConsole()
  const messages = [{ role: 'user', content: 'Hello, river.' }]

  async function shop() {
    const { weir } = console
    const made = await accountWith(weir, 'shop@example.org', { purchased: '5' }, '--name', 'till')
    const headers = { 'x-weir-tags': 'feature=till' }
    const served = await post(weir, { model: 'sim/echo', messages }, { key: made.key, headers })
    const failed = await post(weir, { model: 'sim/error-500', messages }, { key: made.key })
    for (const { requestId } of [served, failed])
      await eventually(
        () => getAs(`${weir.baseUrl}/requests/${requestId}`, made.key),
        ({ status }) => status === 200,
      )
    return { ...made, served: served.requestId, failed: failed.requestId }
  }

  test('is found by what the customer has, and a row leads to its page wherever it is clicked', async () => {
    const { key, keyId, served, failed } = await shop()
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.goto('/console/operator')
    const box = page.getByLabel('Find an account, a key, a call, a payment, a voucher or a group')

    // The request id, as a client's log has it.
    await box.fill(served)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'sim/echo' }).waitFor()
    expect(new URL(page.url()).pathname).toBe(`/console/operator/requests/${served}`)
    await page.getByText('till', { exact: true }).waitFor()
    await page.getByRole('link', { name: 'shop@example.org' }).waitFor()

    // The key as a whole finds it; its secret is in no address.
    await box.fill(key)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'shop@example.org' }).waitFor()
    expect(new URL(page.url()).searchParams.get('key')).toBe(keyId)
    expect(page.url()).not.toContain(key.slice(-20))

    // Several are called that: a row leads to its page wherever it is clicked.
    await accountWith(console.weir, 'shopper@example.org', {})
    await box.fill('shop')
    await page.keyboard.press('Enter')
    const found = page.getByRole('row').filter({ hasText: 'shopper@example.org' })
    await clickOn(page, found.getByText('active', { exact: true }))
    await page.getByRole('heading', { level: 1, name: 'shopper@example.org' }).waitFor()

    await box.fill('nobody-knows-this')
    await page.keyboard.press('Enter')
    await page.getByText('Nothing is called that.').waitFor()

    // Everybody's requests: a part of a model, an outcome, and the view stands in the address.
    await page.getByRole('link', { name: 'All calls' }).click()
    await page.getByRole('row').filter({ hasText: 'shop@example.org' }).nth(1).waitFor()
    await page.getByPlaceholder('a part of its name').fill('ERROR')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.waitForURL(/model=\*ERROR\*/)
    await page.getByRole('combobox', { name: 'Outcome' }).selectOption('failed')
    await page.waitForURL(/outcome=failed/)
    await page.reload()
    const rows = page.getByRole('row').filter({ hasText: 'shop@example.org' })
    await rows.first().waitFor()
    expect(await rows.count()).toBe(1)
    expect(await page.getByPlaceholder('a part of its name').inputValue()).toBe('ERROR')
    // The time is that of the call, and not how long ago it was.
    expect(await rows.first().getByRole('link').textContent()).toMatch(/\d{1,2}:\d\d/)

    const download = page.waitForEvent('download')
    await page.getByRole('link', { name: 'CSV' }).click()
    const file = await (await download).createReadStream()
    let text = ''
    for await (const piece of file) text += String(piece)
    const lines = text.trimEnd().split('\r\n')
    expect(lines.length).toBe(2)
    expect(lines[1]).toContain(failed)

    await clickOn(page, rows.first().getByRole('cell', { name: 'upstream_error' }))
    await page.getByRole('heading', { level: 1, name: 'sim/error-500' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await context.close()
  }, 60_000)
})
