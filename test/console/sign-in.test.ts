// In and out of the console, in a real browser: by a link, by a password, and what is shown before.

import { afterAll, describe, expect, test } from 'bun:test'
import { eventually } from '../support/call-gateway.ts'
import { startSmtpSink } from '../support/smtp-sink.ts'
import { openedConsole } from './opened.ts'
import { browserPath } from '../support/browser.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('signing in', () => {
  const console = openedConsole()

  test('a link signs in once, and its secret leaves the address', async () => {
    const visit = await console.visit()
    const { page } = visit
    const url = await console.linkFor('owner@localhost')
    await page.goto(url)
    await page.getByRole('heading', { name: 'Welcome' }).waitFor()
    expect(page.url()).toBe(`${console.origin}/console/welcome`)
    await page.getByRole('link', { name: 'Not now' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.goBack()
    await page.goBack()
    expect(page.url()).not.toContain(url.slice(url.indexOf('#') + 1))

    await page.goto('about:blank')
    await page.goto(url)
    await page.getByRole('alert').getByText('invalid_ticket').waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('an account is created, signed out of and signed in to; a wrong password is refused', async () => {
    const visit = await console.visit()
    const { page } = visit
    await page.goto('/console')
    await page.getByRole('link', { name: 'Create an account' }).click()
    await page.getByLabel('E-mail').fill('asha@example.org')
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()

    await page.getByLabel('E-mail').fill('asha@example.org')
    await page.getByLabel('Password').fill('some other rivers')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('alert').getByText('wrong_credentials').waitFor()
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('the tabs of a deleted account come back to the sign-in', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await page.goto('/console/create-account')
    await page.getByLabel('E-mail').fill('gone@example.org')
    await page.getByLabel('Password').fill('nine bright rivers')
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    const other = await context.newPage()
    await other.goto('/console/keys')
    await other.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()

    await page.goto('/console/settings')
    await page.getByRole('button', { name: 'Delete the account' }).click()
    await page.getByRole('dialog').getByLabel('Type gone@example.org to confirm').fill('gone@example.org')
    await page.getByRole('button', { name: 'Delete for good' }).click()
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    // The dialog asks for the groups of the account, of which there is none any more.
    await other.getByRole('button', { name: 'Create a key' }).click()
    await other.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 30_000)

  test('what is shown before is accessible in both themes', async () => {
    const visit = await console.visit({ width: 390 })
    const faults: string[] = []
    for (const address of ['', '/create-account', '/reset', '/link']) {
      await visit.page.goto(`/console${address}`)
      await visit.page.getByRole('heading', { level: 1 }).waitFor()
      for (const colorScheme of ['light', 'dark'] as const) {
        await visit.page.emulateMedia({ colorScheme })
        const found = await accessibilityFaults(visit.page)
        faults.push(...found.map((fault) => `${address}, ${colorScheme}: ${fault}`))
      }
    }
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    await visit.leave()
  }, 30_000)
})

describe.skipIf(browserPath === null)('confirming an address', () => {
  const sink = startSmtpSink()
  const console = openedConsole(() => ({
    config: JSON.stringify({
      local_servers: { discover: false },
      accounts: { sign_up: 'open', unverified: 'deny' },
      mail: { smtp_url: sink.url, from: 'weir@example.org' },
    }),
  }))
  afterAll(() => sink.stop())

  /** Opens an account in a browser of its own; returns that browser, and the link that is mailed. */
  async function opensAccount(email: string) {
    const visit = await console.visit()
    await visit.page.goto('/console/create-account')
    await visit.page.getByLabel('E-mail').fill(email)
    await visit.page.getByLabel('Password').fill('nine bright rivers')
    await visit.page.getByRole('button', { name: 'Create the account' }).click()
    await visit.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    const mail = await eventually(
      async () => sink.mails.find((each) => each.includes(`To: ${email}`)),
      (found) => found !== undefined,
    )
    return { visit, token: /verify#(wt-weir-\S+)/.exec(mail!)![1]! }
  }

  test('the browser that opened the account just confirms; another one signs in first', async () => {
    const first = await opensAccount('nina@example.org')
    await first.visit.page.goto('about:blank')
    await first.visit.page.goto(`/console/verify#${first.token}`)
    await first.visit.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(seen(first.visit)).toEqual(clean)
    await first.visit.leave()

    const second = await opensAccount('omar@example.org')
    await second.visit.leave()
    const visit = await console.visit()
    await visit.page.goto(`/console/verify#${second.token}`)
    await visit.page.getByRole('heading', { name: 'Confirm your address' }).waitFor()
    expect(await accessibilityFaults(visit.page)).toEqual([])
    await visit.page.getByLabel('E-mail').fill('omar@example.org')
    await visit.page.getByLabel('Password', { exact: true }).fill('nine bright rivers')
    await visit.page.getByRole('button', { name: 'Sign in' }).click()
    await visit.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 40_000)

  test('whoever did not open the account sets a password, and the impostor is shut out', async () => {
    const { visit: impostor, token } = await opensAccount('priya@example.org')
    const visit = await console.visit()
    await visit.page.goto(`/console/verify#${token}`)
    await visit.page.getByLabel('New password').fill('some other rivers')
    await visit.page.getByRole('button', { name: 'Set the password' }).click()
    await visit.page.getByRole('heading', { level: 1, name: 'Settings' }).waitFor()
    expect(visit.page.url()).not.toContain(token)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
    await impostor.page.reload()
    await impostor.page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await impostor.leave()
  }, 40_000)
})
