// A gateway and a browser for the tests of one file: started before them, closed after them.

import { afterAll, beforeAll, expect } from 'bun:test'
import type { Browser, Page } from 'playwright-core'
import { type RunningWeir, startWeir, type WeirOptions } from '../support/run-weir.ts'
import { launchBrowser } from '../support/browser.ts'
import { type Visitor, visitor, type VisitorOptions } from './visitor.ts'

export interface OpenedConsole {
  readonly weir: RunningWeir
  /** `http://localhost:<port>`, where the console is. */
  readonly origin: string
  visit(options?: VisitorOptions): Promise<Visitor>
  /** A new sign-in link for an account. */
  linkFor(email: string): Promise<string>
  /** Signs in with a link; ends on the overview. */
  signIn(page: Page, email?: string): Promise<void>
}

/** To be called once, in the file's `describe`. */
export function openedConsole(options: () => WeirOptions = () => ({})): OpenedConsole {
  let weir: RunningWeir | undefined
  let browser: Browser | undefined
  beforeAll(async () => {
    weir = await startWeir(options())
    browser = await launchBrowser()
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
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
      const made = await weir!.command('accounts', 'link', '--account', email, '--json')
      expect(made).toMatchObject({ code: 0 })
      return (JSON.parse(made.stdout) as { url: string }).url
    },
    signIn: async (page, email = 'owner@localhost') => {
      await page.goto(await opened.linkFor(email))
      await page.getByRole('link', { name: 'Not now' }).click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    },
  }
  return opened
}
