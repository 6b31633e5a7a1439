// Webhooks in the console: the secret is shown once, a test says what came of it, and each message has its attempts.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath } from '../support/browser.ts'
import { clean, pressInVain, seen } from './visitor.ts'

let receiver: ReturnType<typeof Bun.serve>
const types: unknown[] = []
beforeAll(() => {
  receiver = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => {
      types.push(((await request.json()) as { type: string }).type)
      return new Response(null, { status: 204 })
    },
  })
})
afterAll(() => receiver.stop(true))

describe.skipIf(browserPath === null)('webhooks', () => {
  const console = openedConsole(() => ({
    config: `local_servers: { discover: false }
secrets: { master_key: master-key-0123456789-abcdefghijklm }
egress: { allow_hosts: ['127.0.0.1:${receiver.port}'] }
webhooks: { every_ms: 50 }
`,
  }))

  test('one is added once, tried, told of a key, and removed', async () => {
    const visit = await console.visit()
    const { page } = visit
    await console.enter(page)
    await page.goto('/console/settings/webhooks')
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    await page.getByLabel('Address').fill(`http://127.0.0.1:${receiver.port}/hook`)
    await page.getByRole('button', { name: 'Add it' }).click()
    const secret = await page.getByLabel('Secret', { exact: true }).innerText()
    expect(secret).toStartWith('whsec_')
    await page.getByRole('button', { name: 'I have stored the secret' }).click()
    expect(await page.content()).not.toContain(secret)
    await page.getByRole('button', { name: 'Send a test' }).click()
    await page.getByText('Accepted: 204').waitFor()
    await page.evaluate(() =>
      fetch('/console/api/keys', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'laptop' }),
      }),
    )
    await page.reload()
    await page.getByText('key.created').nth(1).waitFor()
    expect(await faultsOf(page, 'settings/webhooks')).toEqual([])
    await page.locator('summary').filter({ hasText: 'key.created' }).click()
    await page.getByText(/^1\. .*204/).waitFor()
    expect(types).toEqual(['webhook.test', 'key.created'])
    await page.getByRole('button', { name: 'Remove' }).click()
    await page.getByText('There are no webhooks.').waitFor()

    // One whose answer was lost is not added again, and is listed.
    await page.getByRole('button', { name: 'Add a webhook' }).click()
    const address = `http://127.0.0.1:${receiver.port}/once`
    await page.getByLabel('Address').fill(address)
    const path = '**/console/api/webhooks'
    const add = page.getByRole('button', { name: 'Add it' })
    await pressInVain(page, add, path)
    await add.click()
    await page.getByText(`This request has added the webhook for ${address} before.`).waitFor()
    const listed = page.getByRole('heading', { name: address, includeHidden: true })
    await listed.waitFor({ state: 'attached' })
    expect(await listed.count()).toBe(1)
    expect(seen(visit)).toEqual(clean)
    await visit.leave()
  }, 60_000)
})
