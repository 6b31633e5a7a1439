// The documentation in a real browser: it comes up without the internet, asks no other host for anything, and breaks
// none of its own rules.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Browser, chromium } from 'playwright-core'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'

const executablePath = Bun.which('chromium') ?? Bun.which('chromium-browser') ?? Bun.which('google-chrome')

describe.skipIf(executablePath === null)('in a browser', () => {
  let weir: ServedWeir
  let browser: Browser

  beforeAll(async () => {
    weir = await serveWeir()
    browser = await chromium.launch({
      executablePath: executablePath!,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    })
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await weir?.stop()
  })

  /** Opens a page and tells what it asked of other hosts, and what it complained of. */
  async function visit(path: string, shown: string, options: { bypassCSP: boolean }) {
    const context = await browser.newContext(options)
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
    await page.getByText(shown).filter({ visible: true }).first().waitFor({ timeout: 20_000 })
    await context.close()
    return { foreign, complaints }
  }

  // With the policy off as well: that nothing is asked for is better than that it is forbidden.
  test.each([
    ['/docs', 'Create a chat completion', false],
    ['/docs', 'Create a chat completion', true],
    ['/docs/errors#plan_required', 'plan_required', false],
  ])(
    '%s shows "%s" and asks nobody else (policy off: %p)',
    async (path, shown, bypassCSP) => {
      expect(await visit(path, shown, { bypassCSP })).toEqual({ foreign: [], complaints: [] })
    },
    30_000,
  )
})
