// A gateway and a browser for the tests of one file: started before them, closed after them.

import { afterAll, beforeAll, expect } from 'bun:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { ServedWeir, WeirOptions } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { closePages, sharedBrowser } from '../support/browser.ts'
import { begin, forget, type Visitor, visitor, type VisitorOptions } from './visitor.ts'

export interface Guest extends Visitor {
  /** To be called when nothing has failed: the next visitor gets the page, which then knows nothing of this one. */
  leave(): Promise<void>
}

export interface OpenedConsole {
  readonly weir: ServedWeir
  /** `http://localhost:<port>`, where the console is. */
  readonly origin: string
  /** A visitor in a page that an earlier one has left: the console is shown there for half the work. */
  visit(options?: VisitorOptions): Promise<Guest>
  /** One in a context of its own, for a test that gives it a clock, an authenticator, scripts or a language. */
  visitAlone(options?: VisitorOptions): Promise<Guest>
  /** A new sign-in link for an account. */
  linkFor(email: string): Promise<string>
  /** What the gateway answers to whoever has the cookies of a visitor. */
  answerTo(context: BrowserContext, path: string): Promise<Response>
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
  const free: Visitor[] = []
  const opened: OpenedConsole = {
    get weir() {
      return weir!
    },
    get origin() {
      return `http://localhost:${weir!.port}`
    },
    visit: async (wanted) => {
      const visit = free.pop() ?? (await visitor(browser!, opened.origin))
      await begin(visit, wanted)
      return {
        ...visit,
        leave: async () => {
          await forget(visit)
          free.push(visit)
        },
      }
    },
    visitAlone: async (wanted) => {
      const visit = await visitor(browser!, opened.origin, wanted)
      await begin(visit, wanted)
      return { ...visit, leave: () => visit.context.close() }
    },
    linkFor: async (email) => {
      const { code, stdout } = await weir!.command('accounts', 'link', '--account', email, '--json')
      expect(code).toBe(0)
      return (JSON.parse(stdout) as { url: string }).url
    },
    enter: async (page, email = 'owner@localhost') => {
      const token = new URL(await opened.linkFor(email)).hash.slice(1)
      const answer = await fetch(`${weir!.origin}/console/api/link`, {
        method: 'POST',
        headers: { origin: opened.origin, 'content-type': 'application/json' },
        body: JSON.stringify({ token }),
      })
      expect(answer.status).toBe(200)
      const { name, value } = Bun.Cookie.parse(answer.headers.get('set-cookie')!)
      await page.context().addCookies([{ name, value, url: opened.origin, httpOnly: true, sameSite: 'Lax' }])
    },
    answerTo: async (context, path) => {
      const cookies = (await context.cookies()).map(({ name, value }) => `${name}=${value}`)
      return fetch(`${weir!.origin}${path}`, { headers: { cookie: cookies.join('; ') } })
    },
    signIn: async (page, email) => {
      await opened.enter(page, email)
      await page.goto('/console')
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    },
  }
  return opened
}
