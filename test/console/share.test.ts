// A conversation is shared by a link where the operator allows it: read without a session, up to when it was shared, and
// not after it was revoked.

import { describe, expect, test } from 'bun:test'
import { browserPath } from '../support/browser.ts'
import { openedConsole } from './opened.ts'
import { accessibilityFaults, clean, seen } from './visitor.ts'

describe.skipIf(browserPath === null)('a shared conversation', () => {
  const console = openedConsole(() => ({ config: 'accounts: { share_links: true }' }))

  test('shows itself to whoever has the link, and nothing else, until it is revoked', async () => {
    const visit = await console.visit()
    const { context, page } = visit
    await console.signIn(page)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const ask = async (text: string, answers: number) => {
      await page.getByLabel('Message').fill(text)
      await page.keyboard.press('Enter')
      await page.getByTestId('cost').nth(answers).waitFor()
    }
    await page.getByRole('button', { name: 'Instructions' }).click()
    await page.getByLabel('System prompt').fill('The hidden instructions.')
    await page.getByRole('button', { name: 'Save' }).click()
    await ask('The **Rhine**.', 0)
    await page.getByRole('button', { name: 'Share', exact: true }).click()
    await page.getByRole('button', { name: 'Make a link' }).click()
    const link = page.getByRole('group', { name: 'The link' })
    await link.waitFor()
    const faults = [...(await accessibilityFaults(page))]
    const url = await link.innerText()
    await page.keyboard.press('Escape')
    await ask('Said later.', 1)

    const stranger = await console.visit({ width: 360, theme: 'dark' })
    const answered: string[] = []
    stranger.page.on('request', (request) => answered.push(new URL(request.url()).pathname))
    const response = await stranger.page.goto(url)
    expect(response!.headers()).toMatchObject({
      'x-robots-tag': 'noindex, nofollow',
      'referrer-policy': 'no-referrer',
      'content-security-policy': expect.stringContaining(
        "default-src 'none'; script-src 'self'",
      ) as unknown as string,
    })
    await stranger.page.locator('article strong').getByText('Rhine').waitFor()
    faults.push(...(await accessibilityFaults(stranger.page)))
    const token = url.split('/').at(-1)!
    const calls = answered.filter((path) => path.includes('/api/'))
    expect(calls).toEqual([`/console/api/shared/${token}`])
    const shown = await (await stranger.context.request.get(`/console/api/shared/${token}`)).text()
    const account = /acct_\w+/.exec(await (await context.request.get('/console/api/session')).text())![0]
    for (const secret of ['Said later', 'hidden instructions', account, 'owner@localhost', 'resp_', 'cost'])
      expect(shown).not.toContain(secret)

    await page.getByRole('button', { name: 'Shared' }).click()
    await page.getByRole('button', { name: 'Show it as it is now' }).click()
    await stranger.page.reload()
    await stranger.page.locator('article').getByText('Said later.').first().waitFor()
    await page.getByRole('button', { name: 'Revoke the link' }).click()
    await page.getByRole('button', { name: 'Make a link' }).waitFor()
    await stranger.page.reload()
    await stranger.page.getByText('There is no such conversation here').waitFor()
    expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
    expect(seen(stranger)).toEqual(clean)
    await stranger.context.close()
    await context.close()
  }, 60_000)
})
