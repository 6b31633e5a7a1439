// An operator's payments in the console: a top-up with its messages, a refund after a proof, vouchers shown once.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { deliver, fx, Payer } from '../journeys/payments/top-ups-lab.ts'
import { FakeRazorpay } from '../support/fake-razorpay.ts'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { clean, pressInVain, seen } from './visitor.ts'

let razorpay: FakeRazorpay
beforeAll(() => {
  razorpay = new FakeRazorpay()
})
afterAll(() => razorpay.stop())

describe.skipIf(browserPath === null)('payments of all accounts', () => {
  const console = openedConsole(() => ({
    config: `local_servers: { discover: false }
payments:
  ${fx}
  razorpay: ${razorpay.settings}
subscriptions: { products: { premium_month: { credit_usd: "5", months: 1 } } }
`,
  }))

  test('a payment is asked about, given back, and recorded', async () => {
    const anna = await Payer.of(console.weir, 'anna')
    const { id } = await anna.open('500')
    const link = [...razorpay.links.values()].at(-1)!
    const payment = razorpay.pay(link.id)
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator/payments')
    await page.getByRole('row').filter({ hasText: '₹500' }).getByRole('link').first().click()
    await page.getByText('waits for the payment').waitFor()
    await page.getByRole('button', { name: 'Ask the processor now' }).click()
    await page.getByText(/^WR-\d{4}-1$/).waitFor()
    await deliver(console.weir, razorpay.paid(payment))
    await page.reload()
    await page.getByRole('cell', { name: 'razorpay payment_link.paid' }).waitFor()
    await page.getByRole('button', { name: 'Refund' }).click()
    await page.getByLabel('Amount in INR').fill('600')
    await page.getByRole('button', { name: 'Give it back' }).click()
    await page.getByText('At most 500 INR can be refunded.').waitFor()
    await page.getByLabel('Amount in INR').fill('200')
    await page.getByRole('button', { name: 'Give it back' }).click()
    await page.getByText('refunded in part').waitFor()
    expect(payment.refunded).toBe(20_000)
    expect(await faultsOf(page, `operator/payments/${String(id)}`)).toEqual([])
    await page.goto('/console/operator/acts')
    await page.getByText('top_up.refund').first().waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)

  test('vouchers are shown once, revoked, and not made again when their answer was lost', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator/payments/vouchers')
    await page.getByRole('button', { name: 'Make vouchers' }).click()
    await page.getByLabel('US dollars each').fill('10')
    await page.getByLabel('How many').fill('2')
    await page.getByRole('button', { name: 'Make them' }).click()
    const codes = (await page.getByLabel('Codes').innerText()).split('\n')
    expect(codes).toHaveLength(2)
    expect(codes[0]).toMatch(/^WEIR(-[0-9A-Z]{4}){4}$/)
    await page.getByRole('button', { name: 'I have stored the codes' }).click()
    expect(await page.content()).not.toContain(codes[0]!)
    expect(await faultsOf(page, 'operator/payments/vouchers')).toEqual([])
    await page
      .getByRole('button', { name: /^Revoke voucher_/ })
      .first()
      .click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    await page.getByText('revoked', { exact: true }).filter({ visible: true }).waitFor()

    // Those whose answer was lost are not made again, and are listed.
    await page.getByRole('button', { name: 'Make vouchers' }).click()
    await page.getByLabel('US dollars each').fill('10')
    await page.getByLabel('How many').fill('2')
    await page.getByLabel('Note').fill('for the fair')
    const make = page.getByRole('button', { name: 'Make them' })
    await pressInVain(page, make, '**/console/api/admin/vouchers')
    await make.click()
    await page.getByText('This request has made vouchers before').waitFor()
    const rows = page.getByRole('row', { includeHidden: true }).filter({ hasText: 'for the fair' })
    await rows.nth(1).waitFor({ state: 'attached' })
    expect(await rows.count()).toBe(2)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)

  test('a grant whose answer was lost is booked once, and told of when another one is granted', async () => {
    const emil = await Payer.of(console.weir, 'emil')
    const { page, leave } = await console.visit()
    await console.enter(page)
    await page.goto(`/console/operator/accounts/${emil.account}`)
    const path = `**/console/api/admin/accounts/${emil.account}/grant`
    const grant = page.getByRole('button', { name: 'Grant', exact: true })
    const amount = page.getByLabel('US dollars', { exact: true })
    await amount.fill('3')
    await pressInVain(page, grant, path)
    await amount.fill('4')
    await grant.click()
    await page.getByText('has granted 3 USD (purchased) to this account before').waitFor()
    await page.getByText('An earlier grant of this form was booked').waitFor()
    expect(await emil.purchased()).toBe('3')
    await grant.click()
    await page.getByText('$4.00 granted.').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
    expect(await emil.purchased()).toBe('7')
    // The same amount again is the same grant.
    await amount.fill('3')
    await pressInVain(page, grant, path)
    await grant.click()
    await page.getByText('$3.00 was granted before').waitFor()
    expect(await page.getByText('$3.00 granted.').count()).toBe(0)
    expect(await emil.purchased()).toBe('10')
    // The form is another grant now.
    await amount.fill('3')
    await grant.click()
    await page.getByText('$3.00 granted.').waitFor()
    expect(await emil.purchased()).toBe('13')
    // With another end it is not the grant whose answer was lost.
    await amount.fill('3')
    await pressInVain(page, grant, path)
    await page.getByLabel('Expires', { exact: true }).fill('2999-01-01')
    await grant.click()
    await page.getByText('An earlier grant of this form was booked').waitFor()
    expect(await emil.purchased()).toBe('16')
    await leave()
  }, 60_000)

  test('a subscription is granted once, also when its answer was lost, and taken back', async () => {
    const bert = await Payer.of(console.weir, 'bert')
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator/payments/subscriptions')
    await page.getByRole('button', { name: 'Grant a period' }).click()
    const grant = page.getByRole('button', { name: 'Grant', exact: true })
    await page.getByLabel('Account', { exact: true }).fill('nobody@example.org')
    await grant.click()
    await page.getByText('There is no account of this address.').waitFor()
    await page.getByLabel('Account', { exact: true }).fill('bert@')
    await page.locator('datalist option[value="bert@example.org"]').waitFor({ state: 'attached' })
    await page.getByLabel('Account', { exact: true }).fill('bert@example.org')
    await page.getByLabel('Product').selectOption({ label: 'premium_month, a month: $5.00' })
    await grant.click()
    const row = page.getByRole('row').filter({ hasText: bert.account })
    await row.getByText('active').filter({ visible: true }).waitFor()
    expect(await faultsOf(page, 'operator/payments/subscriptions')).toEqual([])
    await row.getByRole('button', { name: /^End/ }).click()
    await page.getByRole('button', { name: 'Take it back' }).click()
    await row.getByText('refunded').filter({ visible: true }).waitFor()

    // One whose answer was lost is granted once when it is sent again.
    const dora = await Payer.of(console.weir, 'dora')
    await page.getByRole('button', { name: 'Grant a period' }).click()
    await page.getByLabel('Account', { exact: true }).fill('dora@example.org')
    const path = '**/console/api/admin/subscriptions'
    await pressInVain(page, grant, path)
    await grant.click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('row').filter({ hasText: dora.account }).waitFor()
    expect(await page.getByRole('row').filter({ hasText: dora.account }).count()).toBe(1)
    await page.goto(`/console/operator/accounts/${dora.account}`)
    await page.getByText('$5.00', { exact: true }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)

  test('an account may owe; its statement says what it owes and adds up, for its operator and for its holder', async () => {
    const carl = await Payer.of(console.weir, 'carl')
    await carl.open('500')
    await deliver(console.weir, razorpay.paid(razorpay.pay([...razorpay.links.keys()].at(-1)!)))
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto(`/console/operator/accounts/${carl.account}`)
    await page.getByLabel('It may owe').selectOption('limited')
    await page.getByLabel('At most, US dollars').fill('20')
    await page.getByRole('button', { name: 'Set the line' }).click()
    await page.getByText('It may owe up to $20.00').waitFor()
    await page.getByRole('link', { name: 'Statements' }).click()
    const adds = page.getByText('Opening and all movements add up to closing, to the last digit.')
    await adds.waitFor()
    await page.getByText('It owes $0.00 of a credit line of $20.00.').waitFor()
    const closing = page.getByRole('row').filter({ hasText: 'Closing' })
    expect(await closing.getByRole('cell').allInnerTexts()).toEqual([
      '$6.317030837499',
      '–',
      '$6.317030837499',
    ])
    expect(await faultsOf(page, `operator/accounts/${carl.account}/statements`)).toEqual([])
    await page.getByRole('link', { name: 'carl@example.org' }).click()
    await page.getByRole('heading', { level: 1, name: 'carl@example.org' }).waitFor()
    await visit.leave()
    const own = await console.visit()
    await console.enter(own.page, 'carl@example.org')
    await own.page.goto('/console/credits')
    await own.page.getByRole('link', { name: 'Statements' }).click()
    await own.page.getByRole('cell', { name: '₹500' }).waitFor()
    await own.page.getByRole('cell', { name: /^WR-\d{4}-\d+$/ }).waitFor()
    const [file] = await Promise.all([
      own.page.waitForEvent('download'),
      own.page.getByRole('link', { name: 'Every entry as CSV' }).click(),
    ])
    expect(file.suggestedFilename()).toMatch(/^credits-\d{4}-\d\d\.csv$/)
    expect(await faultsOf(own.page, 'credits/statements')).toEqual([])
    await own.page.goto('/console/credits/statements/2020-01')
    await own.page.getByText('Statement for January 2020').waitFor()
    await own.page.goto('/console/credits/statements/never')
    await own.page.getByText('month takes a month such as 2026-11.').waitFor()
    expect([seen(visit), seen(own)]).toEqual([clean, clean])
    await own.leave()
  }, 60_000)
})
