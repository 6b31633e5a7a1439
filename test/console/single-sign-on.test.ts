// Single sign-on in the settings: linked at the issuer's own pages, shown, and unlinked.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startIssuer } from '../support/oidc-issuer.ts'
import { freePort } from '../support/run-weir.ts'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { accessibilityFaults, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('single sign-on in the settings', () => {
  let address = ''
  let issuer: { close(): void } | undefined
  beforeAll(async () => {
    address = `http://localhost:${await freePort()}`
  })
  const console = openedConsole(() => ({
    config: JSON.stringify({
      accounts: {
        oidc: {
          issuer: address,
          client_id: 'weir',
          client_secret: 'secret',
          label: 'Staff',
        },
      },
    }),
  }))
  afterAll(() => issuer?.close())

  test('is linked, shown, kept while it is the only way to sign in, and unlinked', async () => {
    issuer = startIssuer(address, `${console.origin}/console/api/oidc/callback`)
    const visit = await console.visit()
    const { context, page } = visit
    // The issuer's pages want a font of somebody else.
    await context.route(/googleapis/, (route) => route.abort())
    await console.enter(page)
    await page.goto('/console/settings')
    const section = page.locator('section').filter({ hasText: 'Single sign-on' })
    await section.getByText('Not linked.').waitFor()
    await section.getByRole('button', { name: 'Link Staff' }).click()
    await page.locator('input[name=login]').fill('olga')
    await page.locator('input[name=password]').fill('any')
    await page.locator('button[type=submit]').click()
    await page.locator('button[type=submit]', { hasText: 'Continue' }).click()

    await page.waitForURL(`${console.origin}/console/settings`)
    await section.getByText('olga').waitFor()
    await section.getByText('This is the only way to sign in to the account.').waitFor()
    const unlink = section.getByRole('button', { name: 'Unlink Staff' })
    expect(await unlink.isDisabled()).toBe(true)
    const faults = await accessibilityFaults(page)

    await page.getByLabel('New password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Set a password' }).click()
    await page.getByText('The password is changed.').waitFor()
    await unlink.click()
    await section.getByText('Not linked.').waitFor()
    await page.goto('/console/settings#error=invalid_request')
    await page.reload()
    await section.getByText('This identity is linked to another account.').waitFor()
    expect({ faults, complaints: seen(visit).complaints }).toEqual({ faults: [], complaints: [] })
    await visit.leave()
  }, 30_000)
})
