// The documentation in a real browser: it comes up without the internet, asks no other host for anything, and breaks
// none of its own rules.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { accessibilityFaults } from '../console/visitor.ts'
import { browserPath, closePages, sharedBrowser } from '../support/browser.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'

describe.skipIf(browserPath === null)('in a browser', () => {
  let weir: ServedWeir
  let browser: Browser

  beforeAll(async () => {
    weir = await serveWeir()
    browser = await sharedBrowser()
  }, 60_000)
  afterAll(async () => {
    await closePages()
    await weir?.stop()
  })

  /** Opens a page and does something there; tells what it asked of other hosts, and what it complained of. */
  async function visit(path: string, bypassCSP: boolean, act: (page: Page) => Promise<unknown>) {
    const context = await browser.newContext({ bypassCSP, viewport: { width: 390, height: 860 } })
    const page = await context.newPage()
    const foreign: string[] = []
    const complaints: string[] = []
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url())
      if (origin !== weir.origin && protocol !== 'data:' && protocol !== 'blob:') foreign.push(request.url())
    })
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
    })
    page.on('pageerror', (error) => complaints.push(String(error)))
    await page.goto(weir.origin + path, { waitUntil: 'networkidle', timeout: 20_000 })
    const did = await act(page)
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    const faults = bypassCSP ? await accessibilityFaults(page) : []
    await context.close()
    return { foreign, complaints, wider, faults, did }
  }

  const clean = { foreign: [], complaints: [], wider: 0, faults: [] }

  // With the policy off as well: that nothing is asked for is better than that it is forbidden.
  test.each([false, true])(
    'a page is read and searched, and asks nobody else (policy off: %p)',
    async (bypassCSP) => {
      const act = async (page: Page) => {
        await page.keyboard.press('/')
        await page.keyboard.type('what a hold is')
        await page.locator('#found a').first().waitFor()
        await page.locator('#search').fill('credits_reserved')
        await page.locator('#found a', { hasText: 'credits_reserved' }).first().waitFor()
        await page.keyboard.press('ArrowDown')
        await page.keyboard.press('Enter')
        await page.waitForURL('**/docs/errors#credits_reserved')
        await page.getByRole('button', { name: 'Pages' }).click()
        await page.getByRole('navigation').getByText('Operator', { exact: true }).click()
        await page.getByRole('link', { name: 'Behind a TLS proxy' }).click()
        return page.getByRole('heading', { level: 1 }).innerText()
      }
      expect(await visit('/docs', bypassCSP, act)).toEqual({ ...clean, did: 'Behind a TLS proxy' })
    },
    30_000,
  )

  test.each([false, true])(
    'the reference shows a call, and makes it (policy off: %p)',
    async (bypassCSP) => {
      const act = async (page: Page) => {
        const operation = page.locator('#createChatCompletion')
        await operation.getByText('Try it').click()
        await operation.getByLabel('Key', { exact: true }).fill(weir.key)
        await operation.getByRole('button', { name: 'Send' }).click()
        await operation.locator('output').getByText('chat.completion').waitFor()
        return operation.locator('output pre').innerText()
      }
      const seen = await visit('/docs/api-chat', bypassCSP, act)
      expect(seen).toMatchObject(clean)
      expect(seen.did).toContain('Hello, river.')
    },
    30_000,
  )

  test('an example names the gateway that the reader is at', async () => {
    const act = (page: Page) => page.locator('pre').nth(2).innerText()
    const { did, ...seen } = await visit('/docs/start', true, act)
    expect(seen).toEqual(clean)
    expect(did).toContain(`curl ${weir.origin}/v1/chat/completions`)
  })
})
