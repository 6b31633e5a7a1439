// The console's files as a browser, and a client without brotli, get them from a running gateway; how much of them is
// loaded before the first page stands, and how much the executable grows by them.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { brotliDecompressSync, gzipSync } from 'node:zlib'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'

const built = resolve(import.meta.dir, '../../dist/console')

let weir: RunningWeir
let origin: string

beforeAll(async () => {
  weir = await startWeir()
  origin = `http://localhost:${weir.port}`
}, 30_000)
afterAll(() => weir?.stop())

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${origin}${path}`, { headers, redirect: 'manual' })

/** The scripts and styles that a text names, by their paths. */
function assetsIn(text: string): readonly string[] {
  return Array.from(text.matchAll(/\/console\/assets\/[\w.-]+/g), ([path]) => path)
}

describe('the page', () => {
  test('is served at every address of the console, checked again each time, under a strict policy', async () => {
    const [page, deep] = await Promise.all([get('/console'), get('/console/requests/req_1')])
    expect([page.status, deep.status]).toEqual([200, 200])
    expect(await deep.text()).toBe(await page.text())
    expect(Object.fromEntries(page.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
        "font-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
        "require-trusted-types-for 'script'; trusted-types dompurify",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
    })
    const again = await get('/console', { 'if-none-match': page.headers.get('etag')! })
    expect([again.status, await again.text()]).toEqual([304, ''])
  })

  test('holds no script and no style of its own', async () => {
    const html = await (await get('/console')).text()
    expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)/)
  })

  test('is where the root of the gateway leads', async () => {
    const response = await get('/')
    expect([response.status, response.headers.get('location')]).toEqual([302, '/console'])
  })

  test.each(['/console/api/nothing', '/console/assets/nothing.js', '/console/assets/..%2findex.html'])(
    '%s is no page',
    async (path) => {
      const response = await get(path)
      expect(response.status).toBe(404)
      expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
    },
  )
})

describe('at a loopback address', () => {
  test('the page moves to localhost, where passkeys work', async () => {
    const response = await fetch(`${weir.origin}/console/link`, { redirect: 'manual' })
    expect([response.status, response.headers.get('location')]).toEqual([302, `${origin}/console/link`])
  })

  test('it stays where a proxy has sent the request', async () => {
    const headers = { 'x-forwarded-for': '192.0.2.1' }
    expect((await fetch(`${weir.origin}/console`, { headers, redirect: 'manual' })).status).toBe(200)
  })
})

describe('assets', () => {
  test('travel as they are stored and may be kept for ever', async () => {
    const html = await (await get('/console')).text()
    for (const path of assetsIn(html)) {
      const response = await fetch(`${origin}${path}`, {
        decompress: false,
        headers: { 'accept-encoding': 'br' },
      })
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'content-encoding': 'br',
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'accept-encoding',
      })
      const sent = new Uint8Array(await response.arrayBuffer())
      expect(sent).toEqual(new Uint8Array(readFileSync(join(built, `${path.split('/').at(-1)}.br`))))
      const plain = await get(path, { 'accept-encoding': 'gzip;q=0.5' })
      expect(plain.headers.has('content-encoding')).toBe(false)
      expect(new Uint8Array(await plain.arrayBuffer())).toEqual(new Uint8Array(brotliDecompressSync(sent)))
    }
  })
})

describe('weight', () => {
  const files = readdirSync(built).map((name) => ({ name, bytes: readFileSync(join(built, name)) }))
  const textOf = (name: string) =>
    brotliDecompressSync(files.find((file) => file.name === `${name}.br`)!.bytes).toString()

  /** A file and all that it loads at once: what it imports on demand does not count. */
  function firstLoad(name: string, seen = new Set<string>()): Set<string> {
    if (seen.has(name)) return seen
    seen.add(name)
    const text = textOf(name)
    const wanted = name.endsWith('.html')
      ? assetsIn(text)
      : Array.from(text.matchAll(/(?:\bfrom|\bimport)\s*["']([^"']+)["']/g), ([, path]) => path!)
    for (const path of wanted) firstLoad(path.split('/').at(-1)!, seen)
    return seen
  }

  test('of the first load is at most 110 kB gzipped, in at most 6 requests', () => {
    const names = [...firstLoad('index.html')]
    const bytes = names.reduce((sum, name) => sum + gzipSync(textOf(name)).length, 0)
    expect(names.length).toBeGreaterThanOrEqual(3)
    expect(names.length).toBeLessThanOrEqual(6)
    expect(bytes).toBeLessThanOrEqual(110_000)
  })

  test('of all its files is at most 2 % of the executable', () => {
    const stored = files.reduce((sum, { bytes }) => sum + bytes.length, 0)
    expect(stored).toBeLessThanOrEqual(Bun.file(resolve(built, '../weir')).size * 0.02)
  })
})
