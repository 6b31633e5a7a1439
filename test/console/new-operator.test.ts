// An account of a user becomes one of an operator: by a link alone, whoever had a way into it before.
// And what operators do with the account of a user.

import { describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { faultsOf } from './page-faults.ts'
import { accessibilityFaults, clean, seen, withAuthenticator } from './visitor.ts'

describe.skipIf(browserPath === null)('a new operator', () => {
  const console = openedConsole()

  test('signs in by the link that the console shows; a passkey of before is of no use', async () => {
    const email = 'asha@example.org'
    const made = await console.weir.command('accounts', 'create', '--email', email, '--json')
    const { id } = JSON.parse(made.stdout) as { id: string }
    const before = await console.visitAlone()
    await before.page.goto('/console')
    await withAuthenticator(before.page)
    await console.enter(before.page, email)
    await before.page.goto('/console/settings')
    await before.page.getByRole('button', { name: 'Add a passkey' }).click()
    await before.page.getByRole('button', { name: /^Remove / }).waitFor()

    const operator = await console.visit()
    const { page } = operator
    await console.enter(page)
    await page.goto(`/console/operator/accounts/${id}`)
    await page.getByRole('button', { name: 'Make it an operator' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('signs in anew, by a link that you get').waitFor()
    const faults = await accessibilityFaults(page)
    await dialog.getByRole('button', { name: 'Make it an operator' }).click()
    await page.getByRole('heading', { name: `A link for ${email}` }).waitFor()
    const link = await dialog.locator('code, pre').first().innerText()
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('button', { name: 'Make it a user' }).waitFor()

    await before.page.goto('/console')
    await before.page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    await before.page.getByRole('button', { name: 'passkey' }).click()
    await before.page.getByRole('alert').getByText('wrong_credentials').waitFor()
    const owner = await console.visit()
    await owner.page.goto(link.trim())
    await owner.page.getByRole('heading', { name: 'Welcome' }).waitFor()
    await owner.page.getByLabel('Password').fill('nine bright rivers')
    await owner.page.getByRole('button', { name: 'Set the password' }).click()
    await owner.page.getByRole('link', { name: 'Accounts' }).waitFor()
    expect({ faults, ...seen(operator) }).toEqual({ faults: [], ...clean })
    for (const { leave } of [before, operator, owner]) await leave()
  }, 60_000)

  test('gives an account credit of each month, pauses its key, and deletes it', async () => {
    const { weir } = console
    expect((await weir.command('accounts', 'create', '--email', 'passing@example.org')).code).toBe(0)
    await weir.command('keys', 'create', '--account', 'passing@example.org', '--name', 'robot')
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/operator/accounts?q=passing')
    await page.getByRole('link', { name: 'passing@example.org' }).click()
    await page.getByLabel('Each month, US dollars').fill('12')
    await page.getByRole('button', { name: 'Set the credit' }).click()
    await page.getByText('$12.00').first().waitFor()
    await page.getByRole('button', { name: 'Pause robot' }).click()
    await page.getByRole('row', { name: 'robot' }).getByText('paused').filter({ visible: true }).waitFor()
    const address = new URL(page.url()).pathname.replace('/console/', '')
    const faults = await faultsOf(page, address)
    await page.goto(`/console/${address}`)
    await page.getByRole('button', { name: 'Delete the account' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Its address, to confirm').fill('another@example.org')
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
    expect(await dialog.count()).toBe(1)
    await dialog.getByLabel('Its address, to confirm').fill('passing@example.org')
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Accounts' }).waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 60_000)
})
