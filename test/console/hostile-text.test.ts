// S22, S23: whatever a model, a provider or a person writes is shown as text: nothing of it runs, and nobody is asked
// for anything.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { openedConsole } from './opened.ts'
import { payloads } from './payloads.ts'
import { browserPath } from '../support/browser.ts'
import { clean, seen, say } from './visitor.ts'

/** A provider whose errors say what it is asked. */
let provider: ReturnType<typeof Bun.serve>

describe.skipIf(browserPath === null)('S22, S23 three hundred hostile texts', () => {
  beforeAll(() => {
    provider = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const { messages } = (await request.json()) as { messages: { content: string }[] }
        const message = messages.at(-1)!.content
        return Response.json({ error: { message, type: message, code: message } }, { status: 400 })
      },
    })
  })
  afterAll(() => provider?.stop(true))

  const console = openedConsole(() => ({
    config: `
local_servers: { discover: false }
providers: { hostile: { protocol: openai-chat, base_url: "http://127.0.0.1:${provider.port}/v1", api_key: k } }
models: [{ id: hostile/m, price: free }]
`,
  }))

  test('are three hundred', () => {
    expect(new Set(payloads).size).toBe(300)
  })

  /** A page in which whatever runs is counted. */
  async function watched() {
    const visit = await console.visit()
    await visit.context.addInitScript(() => {
      const state = globalThis as unknown as { ran: () => void; times: number }
      state.times = 0
      state.ran = () => void (state.times += 1)
    })
    await console.enter(visit.page)
    return visit
  }

  const times = (page: Page) => page.evaluate(() => (globalThis as unknown as { times: number }).times)

  /** Posts to the console's API as the page does, with its cookies, but without the work of a browser. */
  async function post(page: Page, path: string, bodies: readonly object[]): Promise<readonly number[]> {
    const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`)
    const headers = {
      'content-type': 'application/json',
      cookie: cookies.join('; '),
      origin: console.origin,
    }
    const statuses: number[] = []
    for (const body of bodies) {
      const init = { method: 'POST', headers, body: JSON.stringify(body) }
      statuses.push((await fetch(`${console.weir.origin}/console/api/${path}`, init)).status)
    }
    return statuses
  }

  test('as the text of a model, streamed and read again', async () => {
    const visit = await watched()
    const { page } = visit
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.goto('/console/chat')
    const marks: string[] = []
    for (let from = 0; from < payloads.length; from += 100) {
      const mark = `end of ${from}`
      marks.push(mark)
      await say(page, `${payloads.slice(from, from + 100).join('\n\n')}\n\n${mark}`)
      await page.locator('article .prose').getByText(mark).waitFor()
      await page
        .getByTestId('cost')
        .nth(marks.length - 1)
        .waitFor()
    }
    await page.waitForURL(/\/chat\/conv_/)
    await page.reload()
    await page.locator('article .prose').getByText(marks.at(-1)!).waitFor()
    const inside = page.locator('article .prose')
    const forbidden =
      'script, img, iframe, object, embed, svg, math, style, link, meta, base, form, input, video, audio, template'
    expect(await inside.locator(forbidden).count()).toBe(0)
    const attributes = await inside
      .locator('*')
      .evaluateAll((all) => [
        ...new Set(
          all.flatMap((element) => element.getAttributeNames().filter((name) => /^on|style|src/.test(name))),
        ),
      ])
    expect(attributes).toEqual([])
    // Without an address it is `:`.
    const schemes = await inside
      .locator('a')
      .evaluateAll((all) => [...new Set(all.map((link) => (link as HTMLAnchorElement).protocol))])
    expect(schemes.filter((scheme) => ![':', 'http:', 'https:', 'mailto:'].includes(scheme))).toEqual([])
    expect({ ran: await times(page), ...seen(visit) }).toEqual({ ran: 0, ...clean })
    await visit.leave()
  }, 60_000)

  test('as names of keys', async () => {
    const visit = await watched()
    const { page } = visit
    const names = payloads.map((text) => text.replace(/[\p{Cc}]/gu, ' ').slice(0, 100))
    const statuses = await post(
      page,
      'keys',
      names.map((name) => ({ name, mode: 'test' })),
    )
    expect(new Set(statuses)).toEqual(new Set([201]))
    await page.goto('/console/keys')
    const revoke = page.getByRole('button', { name: /^Revoke / })
    for (let shown = 50; shown < names.length; shown += 50) {
      await revoke.nth(shown - 1).waitFor()
      await page.getByRole('button', { name: 'Older' }).click()
    }
    await revoke.nth(names.length - 1).waitFor()
    await page
      .getByRole('button', { name: /^Revoke <img src=x/ })
      .first()
      .click()
    await page.getByRole('dialog').getByRole('heading').waitFor()
    expect({ ran: await times(page), ...seen(visit) }).toEqual({ ran: 0, ...clean })
    await visit.leave()
  }, 60_000)

  test('as addresses of accounts', async () => {
    const visit = await watched()
    const { page } = visit
    const emails = payloads.map((text, nth) => `${nth}@${text.replace(/[\s@\p{Cc}]/gu, '').slice(0, 150)}`)
    const refused = await post(
      page,
      'admin/accounts',
      emails.map((email) => ({ email })),
    )
    expect(new Set(refused)).toEqual(new Set([400]))
    // Accounts may be older than that rule: the page is shown such addresses all the same.
    const made = await post(
      page,
      'admin/accounts',
      emails.slice(0, 50).map((_, nth) => ({ email: `${nth}@example.org` })),
    )
    expect(new Set(made)).toEqual(new Set([201]))
    const named = (text: string) =>
      text.replace(/"(\d+)@example\.org"/g, (_, nth: string) => JSON.stringify(emails[Number(nth)]))
    await page.route(/\/console\/api\/admin\/(?:accounts|acts)/, async (route) => {
      const response = await route.fetch()
      await route.fulfill({ response, body: named(await response.text()) })
    })
    // The other two hundred and fifty are on the list as copies of one of these.
    await page.route(/\/console\/api\/admin\/accounts\?/, async (route) => {
      const response = await route.fetch()
      const { data, ...rest } = (await response.json()) as { data: { email: string }[] }
      const more = emails.slice(50).map((email, nth) => ({ ...data[0], id: `acct_more${nth}`, email }))
      await route.fulfill({ response, body: named(JSON.stringify({ ...rest, data: [...data, ...more] })) })
    })
    await page.goto('/console/operator/accounts')
    await page.getByRole('row').nth(300).waitFor()
    await page.getByRole('link', { name: /^5@<img/ }).click()
    await page.getByRole('heading', { level: 1, name: /^5@<img/ }).waitFor()
    await page.goto('/console/operator/acts')
    await page.getByRole('row').nth(40).waitFor()
    expect({ ran: await times(page), ...seen(visit) }).toEqual({ ran: 0, ...clean })
    await visit.leave()
  }, 60_000)

  test('as errors of a provider', async () => {
    const visit = await watched()
    const { page } = visit
    const ids: string[] = []
    for (let from = 0; from < payloads.length; from += 20) {
      const content = payloads.slice(from, from + 20).join(' ')
      const response = await fetch(`${console.weir.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${console.weir.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'hostile/m', messages: [{ role: 'user', content }] }),
      })
      expect(response.status).toBeGreaterThanOrEqual(400)
      ids.push(response.headers.get('x-request-id')!)
    }
    await page.goto('/console/requests')
    await page.getByRole('row').nth(ids.length).waitFor()
    for (const id of ids) {
      await page.evaluate((to) => history.pushState(null, '', to), `/console/requests/${id}`)
      await page.getByRole('button', { name: 'Copy the id' }).waitFor()
      await page.getByText(id).waitFor()
    }
    await page.goto('/console/operator/providers')
    await page.getByRole('listitem').filter({ hasText: 'hostile' }).first().waitFor()

    await page.evaluate(() => localStorage.setItem('weir.model', 'hostile/m'))
    await page.goto('/console/chat')
    await say(page, payloads.slice(0, 150).join(' '))
    await page.getByRole('alert').waitFor()
    expect({ ran: await times(page), ...seen(visit) }).toEqual({ ran: 0, ...clean })
    await visit.leave()
  }, 60_000)
})
