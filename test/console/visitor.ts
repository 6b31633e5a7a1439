// A visitor of the console in a real browser that reaches nothing but this machine. What pages ask of other hosts, and
// what they complain of, is noted.

import axe from 'axe-core'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'

export interface Visitor {
  readonly context: BrowserContext
  readonly page: Page
  /** Requests to other hosts. */
  readonly foreign: string[]
  /** Broken policies, uncaught errors. */
  readonly complaints: string[]
}

export interface VisitorOptions {
  readonly theme?: 'light' | 'dark'
  readonly width?: number
  /** The first language of the browser, such as hi-IN; of a visitor in a context of its own. */
  readonly locale?: string
}

/** Asks in the chat. What is asked while an answer is still being ended is not sent, and its cost is shown before that. */
export async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message').fill(text)
  await page.getByRole('button', { name: 'Send', exact: true, disabled: false }).waitFor()
  await page.keyboard.press('Enter')
}

/** A context of its own: no cookie of another visitor. `origin` is the gateway's, by the name localhost. */
export async function visitor(
  browser: Browser,
  origin: string,
  { theme = 'light', width = 1280, locale }: VisitorOptions = {},
): Promise<Visitor> {
  const context = await browser.newContext({
    baseURL: origin,
    ...(locale === undefined ? {} : { locale }),
    colorScheme: theme,
    viewport: { width, height: 860 },
    // Every frame of a pulse or a transition is a frame of work, a sixth of all that the browser does here.
    reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  // Less than a test has: one that waits in vain must not take the browser away from the next.
  context.setDefaultTimeout(20_000)
  const foreign: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (url.origin !== origin && url.protocol !== 'data:' && url.protocol !== 'blob:')
      foreign.push(request.url())
  })
  context.on('console', (message) => {
    // An answer of 4xx is noted by the browser; the page shows it to its reader.
    const isAnswer = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isAnswer) complaints.push(message.text())
  })
  context.on('weberror', (thrown) => complaints.push(String(thrown.error())))
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)
    })
  })
  const page = await context.newPage()
  return { context, page, foreign, complaints }
}

/** A small page of the gateway, without a script. */
const bare = '/healthz'

/** Opens a small page of the gateway for a visitor of whom nothing is known. */
export async function begin(
  { page, foreign, complaints }: Visitor,
  { theme = 'light', width = 1280 }: VisitorOptions = {},
): Promise<void> {
  foreign.length = 0
  complaints.length = 0
  await page.emulateMedia({ media: null, colorScheme: theme, reducedMotion: 'reduce' })
  await page.setViewportSize({ width, height: 860 })
  if (page.url() === 'about:blank') await page.goto(bare)
}

/** Takes from a context what a visitor has left there, as far as a page can leave something. */
export async function forget({ context, page }: Visitor): Promise<void> {
  for (const other of context.pages()) if (other !== page) await other.close()
  await context.unrouteAll({ behavior: 'ignoreErrors' })
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  page.removeAllListeners('request')
  // A script of the console could keep something while it is open.
  await page.goto(bare)
  await page.evaluate(() => {
    localStorage.clear()
    sessionStorage.clear()
  })
  await context.clearCookies()
}

/** Gives a page a device that makes passkeys and signs with them, its owner always there. */
export async function withAuthenticator(page: Page): Promise<void> {
  const authenticator = await page.context().newCDPSession(page)
  await authenticator.send('WebAuthn.enable')
  await authenticator.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
}

/** Presses a button: the gateway gets what it sends to this address, and the page, which says so, gets no answer. */
export async function pressInVain(page: Page, button: Locator, address: string): Promise<void> {
  await page.route(address, async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    await route.fetch()
    return route.abort()
  })
  await button.click()
  await page.getByText('The gateway does not answer').waitFor()
  await page.unroute(address)
}

/** What a visit must not have: to be compared with `clean`. */
export function seen({
  foreign,
  complaints,
}: Visitor): Readonly<Record<'foreign' | 'complaints', readonly string[]>> {
  return { foreign, complaints }
}

export const clean = { foreign: [], complaints: [] } as const

/**
 * What a page does wrong by those who hear it or use it without a mouse; one line each. Of a page with a dialog it is the
 * dialog alone that is looked at: nothing can be done behind it, and each page is looked at without one.
 */
export async function accessibilityFaults(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate('typeof axe === "object"'))) await page.evaluate(axe.source)
  return page.evaluate(async () => {
    const { axe: checker } = globalThis as unknown as { axe: typeof axe }
    // What is right is not of interest, and to describe it takes as long as to find it.
    const { violations } = await checker.run(document.querySelector('dialog:modal') ?? document, {
      resultTypes: ['violations'],
    })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(
        ({ html, failureSummary }) => `${id}: ${html.slice(0, 120)}: ${failureSummary?.slice(0, 200)}`,
      ),
    )
  })
}
