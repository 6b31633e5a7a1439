// What an operator reads in lists: accounts by what they spend, and usage from a sum down to the calls.

import { describe, expect, test } from 'bun:test'
import { accountWith, eventually, getAs, post } from '../support/call-gateway.ts'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { show } from './page-faults.ts'
import { clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('the lists of operators', () => {
  const console = openedConsole()
  const messages = [{ role: 'user', content: 'Hello, river.' }]

  async function shops() {
    const { weir } = console
    const big = await accountWith(weir, 'big@example.org', { purchased: '50' }, '--name', 'till')
    await accountWith(weir, 'small@example.org', { purchased: '5' })
    const { requestId } = await post(weir, { model: 'sim/echo', messages }, { key: big.key })
    await eventually(
      () => getAs(`${weir.baseUrl}/requests/${requestId}`, big.key),
      ({ status }) => status === 200,
    )
  }

  test('lead from accounts and sums to people and calls, and stand in the address', async () => {
    await shops()
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)

    await page.goto('/console/operator/accounts')
    await page.getByRole('button', { name: 'This month' }).click()
    const rows = page.getByRole('row').filter({ hasText: '@' })
    await rows.first().filter({ hasText: 'big@example.org' }).waitFor()
    expect(page.url()).toContain('sort=spent')
    await page.getByRole('button', { name: 'Balance' }).click()
    await page.getByRole('button', { name: 'Balance' }).click()
    await page.waitForURL(/sort=balance&order=asc/)
    expect(await page.getByRole('columnheader', { name: 'Balance' }).getAttribute('aria-sort')).toBe(
      'ascending',
    )

    await show(page, 'operator/usage?by=account')
    await page.getByRole('link', { name: 'big@example.org' }).click()
    await page.getByText(/^Account:/).waitFor()
    await page.getByRole('link', { name: 'till' }).click()
    await page.getByRole('row').filter({ hasText: 'sim/echo' }).waitFor()
    expect(page.url()).toMatch(/operator\/requests\?.*key=/)

    // The chart is read by keyboard.
    await show(page, 'operator/usage?by=provider&show=calls')
    const chart = page.getByRole('slider', { name: 'Calls of each day' })
    await chart.focus()
    await page.keyboard.press('End')
    expect(await chart.getAttribute('aria-valuetext')).toMatch(/^\w+ \d+, 20\d\d: 1$/)
    await page.getByText('The days as a table').click()
    await page.getByRole('link', { name: 'sim', exact: true }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)

  test('answer a support case with one search and one page', async () => {
    const { weir } = console
    const shop = await accountWith(weir, 'shop@example.org', { purchased: '5' }, '--name', 'broken')
    const { requestId } = await post(weir, { model: 'sim/error-500', messages }, { key: shop.key })
    await eventually(
      () => getAs(`${weir.baseUrl}/requests/${requestId}`, shop.key),
      ({ status }) => status === 200,
    )
    await weir.command('keys', 'revoke', shop.keyId)
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator')
    const box = page.getByLabel('Find an account, a key, a call, a payment, a voucher or a group')

    // "My key does not work": its end leads to the account, with the key, its state, and what became of its calls.
    await box.fill(shop.key.slice(-4))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'shop@example.org' }).waitFor()
    await page
      .getByRole('row')
      .filter({ hasText: 'broken' })
      .getByText('revoked')
      .filter({ visible: true })
      .waitFor()
    await page
      .getByRole('group', { name: 'Requests' })
      .getByRole('row')
      .filter({ hasText: 'sim/error-500' })
      .getByRole('cell', { name: 'upstream_error' })
      .waitFor()

    // Who did what to it, by its address.
    await show(page, 'operator/acts?subject=shop@example.org')
    const acts = page.getByRole('table')
    await acts.getByText('account.create').waitFor()
    await acts.getByRole('link', { name: 'shop@example.org' }).first().waitFor()
    await page.locator('select[name="what"]').selectOption('voucher')
    await page.getByText('No entry matches.').waitFor()
    expect(page.url()).toContain('what=voucher')
    await show(page, 'operator/payments?state=credited&account=shop@example.org')
    await page.getByText('No payment matches.').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)
})
