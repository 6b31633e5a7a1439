// An account of a user becomes one of an operator: by a link alone, whoever had a way into it before.

import { describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { accessibilityFaults, clean, seen, withAuthenticator } from './visitor.ts'

describe.skipIf(browserPath === null)('a new operator', () => {
  const console = openedConsole()

  test('signs in by the link that the console shows; a passkey of before is of no use', async () => {
    const email = 'asha@example.org'
    const made = await console.weir.command('accounts', 'create', '--email', email, '--json')
    const { id } = JSON.parse(made.stdout) as { id: string }
    const before = await console.visit()
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
    for (const { context } of [before, operator, owner]) await context.close()
  }, 60_000)
})
