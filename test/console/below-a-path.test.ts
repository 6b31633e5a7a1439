// The console below a path of a host (`server.public_url: https://host/weir`): a proxy takes the path off, and every
// page, script, call, cookie, redirect and link stays below it.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Browser } from 'playwright-core'
import { pathBefore } from '../../src/console/api/call.ts'
import { fx } from '../journeys/payments/top-ups-lab.ts'
import { browserPath, closePages, sharedBrowser } from '../support/browser.ts'
import { startIssuer } from '../support/oidc-issuer.ts'
import { freePort, type ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { clean, seen, visitor } from './visitor.ts'

test.each([
  ['https://host.example/console/assets/index-abc.js', ''],
  ['https://host.example/weir/console/assets/index-abc.js', '/weir'],
  ['https://host.example/a/b/console/assets/chat-abc.js', '/a/b'],
  ['https://host.example/console/console/assets/chat-abc.js', '/console'],
  ['file:///src/console/api/call.ts', ''],
])('the script %s lies in a gateway at the path %p', (script, path) => {
  expect(pathBefore(script)).toBe(path)
})

test('no page names an address of the gateway from the root of the host', () => {
  const folder = resolve(import.meta.dir, '../../src/console')
  const absolute = /(?<!addressOf\(|fullAddressOf\(|send\(|answerOf\()["'`]\/(?:console|docs|app|v1|hooks)\b/
  const found = [...new Bun.Glob('**/*.{ts,tsx}').scanSync({ cwd: folder })]
    .filter((name) => name !== 'build.ts')
    .filter((name) =>
      readFileSync(join(folder, name), 'utf8')
        .split('\n')
        .some((line) => !/^\s*(?:\/\/|\/?\*)/.test(line) && absolute.test(line)),
    )
  expect(found).toEqual([])
})

/** Takes `/weir` off, as nginx does with `location /weir/` and an address that ends in a slash. */
class PathProxy {
  upstream = ''
  /** Requests outside of the path: another application of the host would have got them. */
  readonly strays: string[] = []
  readonly #server

  constructor() {
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: async (request) => {
        const { pathname, search, host } = new URL(request.url)
        if (!pathname.startsWith('/weir/')) {
          if (pathname !== '/favicon.ico') this.strays.push(pathname)
          return new Response('another application', { status: 404 })
        }
        const headers = new Headers(request.headers)
        headers.set('host', host)
        headers.set('x-forwarded-for', '127.0.0.1')
        const { method, body, signal } = request
        const to = `${this.upstream}${pathname.slice('/weir'.length)}${search}`
        return fetch(to, { method, body, headers, signal, redirect: 'manual', decompress: false })
      },
    })
  }

  get origin(): string {
    return `http://localhost:${this.#server.port}`
  }

  stop(): Promise<void> {
    return this.#server.stop(true)
  }
}

describe.skipIf(browserPath === null)('below a path', () => {
  const proxy = new PathProxy()
  let weir: ServedWeir
  let browser: Browser
  let issuer: { close(): void }
  const base = `${proxy.origin}/weir`
  beforeAll(async () => {
    const address = `http://localhost:${await freePort()}`
    issuer = startIssuer(address, `${base}/console/api/oidc/callback`)
    const oidc = { issuer: address, client_id: 'weir', client_secret: 'secret', label: 'Staff' }
    weir = await serveWeir({
      config: `server: { public_url: ${base}, trusted_proxies: [127.0.0.1] }
accounts: { oidc: ${JSON.stringify({ ...oidc, auto_create: true })} }
payments:
  ${fx}
`,
    })
    proxy.upstream = weir.origin
    browser = await sharedBrowser()
  }, 60_000)
  afterAll(async () => {
    await closePages()
    issuer.close()
    await weir?.stop()
    await proxy.stop()
  })

  test('every page, call, stream, redirect and link stays below it', async () => {
    const visit = await visitor(browser, proxy.origin)
    const { context, page } = visit
    await context.route(/googleapis/, (route) => route.abort())
    const { stdout } = await weir.command('accounts', 'link', '--account', 'owner@localhost', '--json')
    const { url } = JSON.parse(stdout) as { url: string }
    expect(url).toStartWith(`${base}/console/link#`)
    await page.goto(url)
    await page.getByRole('link', { name: 'Not now' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    const cookies = (await context.cookies()).map(({ name, path }) => ({ name, path }))
    expect(cookies).toEqual([{ name: `weir_session_${new URL(base).port}`, path: '/weir' }])

    await page.goto(`${base}/`)
    await page.waitForURL(`${base}/console`)
    await page.evaluate(() => localStorage.setItem('weir.model', 'sim/echo'))
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.waitForURL(`${base}/console/chat`)
    await page.getByLabel('Message').fill('The Rhine.')
    await page.keyboard.press('Enter')
    await page.getByTestId('cost').waitFor()
    await page.waitForURL(/\/weir\/console\/chat\/conv_/)
    await page.reload()
    await page.getByTestId('cost').getByRole('link').click()
    await page.waitForURL(/\/weir\/console\/requests\//)
    await page.getByRole('button', { name: 'Check it' }).waitFor()
    const live = page.waitForResponse(/\/weir\/console\/api\/live/)
    await page.getByRole('link', { name: 'Requests', exact: true }).first().click()
    expect((await live).status()).toBe(200)

    const files: Record<string, number> = {}
    for (const [name, link] of [
      ['usage', 'CSV'],
      ['credits', 'CSV'],
    ] as const) {
      await page.goto(`${base}/console/${name}`)
      const href = await page
        .getByRole('link', { name: new RegExp(link) })
        .first()
        .getAttribute('href')
      files[name] = (await context.request.get(href!)).status()
    }
    expect(files).toEqual({ usage: 200, credits: 200 })

    await page.goto(`${base}/console/credits/top-up`)
    await page.getByLabel('Amount in INR').fill('250')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: /Simulated payment/ }).waitFor()
    await page.getByRole('button', { name: 'Pay', exact: true }).click()
    await page.getByText('The test is finished: no money moved').waitFor()
    expect(page.url()).toStartWith(`${base}/console/credits/top-ups/`)

    await page.goto(`${base}/docs`)
    await page.getByRole('link', { name: 'Start here' }).click()
    await page.waitForURL(`${base}/docs/start`)

    await page.goto(`${base}/console`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: /Staff/ }).click()
    await page.locator('input[name=login]').fill('olga')
    await page.locator('input[name=password]').fill('any')
    await page.locator('button[type=submit]').click()
    await page.locator('button[type=submit]', { hasText: 'Continue' }).click()
    await page.waitForURL(`${base}/console`)
    await page.getByRole('complementary').getByText('olga@example.org').waitFor()
    expect({ strays: proxy.strays, complaints: seen(visit).complaints }).toEqual({
      strays: [],
      complaints: clean.complaints,
    })
    await context.close()
  }, 60_000)

  test('a proxy that leaves the path on is named', async () => {
    const answer = await fetch(`${weir.origin}/weir/v1/models`)
    expect([answer.status, ((await answer.json()) as { error: { message: string } }).error.message]).toEqual([
      404,
      'The gateway has its routes at the root: the proxy in front of it has to take /weir off the path.',
    ])
  })
})
