// A gateway and a browser for the tests of one file: started before them, closed after them.

import { afterAll, beforeAll, expect } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import type { ServedWeir, WeirOptions } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { closePages, sharedBrowser } from '../support/browser.ts'
import { type Visitor, visitor, type VisitorOptions } from './visitor.ts'

export interface OpenedConsole {
  readonly weir: ServedWeir
  /** `http://localhost:<port>`, where the console is. */
  readonly origin: string
  visit(options?: VisitorOptions): Promise<Visitor>
  /** A new sign-in link for an account. */
  linkFor(email: string): Promise<string>
  /** Signs in by a link, and opens the overview. */
  signIn(page: Page, email?: string): Promise<void>
  /** Signs in by a link; what the page shows stays as it is. */
  enter(page: Page, email?: string): Promise<void>
}

/** To be called once, in the file's `describe`. */
export function openedConsole(options: () => WeirOptions = () => ({})): OpenedConsole {
  let weir: ServedWeir | undefined
  let browser: Browser | undefined
  beforeAll(async () => {
    weir = await serveWeir(options())
    browser = await sharedBrowser()
  }, 60_000)
  afterAll(async () => {
    await closePages()
    await weir?.stop()
  })
  const opened: OpenedConsole = {
    get weir() {
      return weir!
    },
    get origin() {
      return `http://localhost:${weir!.port}`
    },
    visit: (wanted) => visitor(browser!, opened.origin, wanted),
    linkFor: async (email) => {
      const { code, stdout } = await weir!.command('accounts', 'link', '--account', email, '--json')
      expect(code).toBe(0)
      return (JSON.parse(stdout) as { url: string }).url
    },
    enter: async (page, email = 'owner@localhost') => {
      const token = new URL(await opened.linkFor(email)).hash.slice(1)
      const headers = { origin: opened.origin }
      const answer = await page.context().request.post('/console/api/link', { data: { token }, headers })
      expect(answer.status()).toBe(200)
    },
    signIn: async (page, email) => {
      await opened.enter(page, email)
      await page.goto('/console')
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    },
  }
  return opened
}
