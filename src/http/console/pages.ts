// Serves the console's files, which are compiled and compressed at build time and part of the executable. When run
// from source they are read from dist/console. Loaded with the first visitor.

import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress } from 'node:zlib'
import { etagMatches } from '../../catalog/wire.ts'
import { GatewayError } from '../../errors/errors.ts'
import { escapeHtml } from '../../text/text.ts'
import { sitePath } from '../intake/caller.ts'
import type { FreeAnswer } from '../intake/paid/limits.ts'

const compress = promisify(brotliCompress)
const decompress = promisify(brotliDecompress)

/** A file of the console, compressed with brotli. */
interface PageFile {
  readonly stored: Uint8Array<ArrayBuffer>
  readonly etag: string
}

const indexFile = 'index.html'

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

/** Scripts and styles come only from here, and text becomes markup only through the sanitizer's policy. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  // What a model wrote is shown in a page of its own (artifact.ts), and that may not lead to another host.
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types dompurify',
].join('; ')

const security = {
  'content-security-policy': contentSecurityPolicy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
}

const builtFolder = resolve(import.meta.dir, '../../../dist/console')

const read = new Map<string, Promise<PageFile | undefined>>()

/**
 * Answers `/console` and everything below: a compiled file at `/console/assets/…`, the page for artifacts, and the page itself at every other
 * path, which its own router handles. Throws `not_found` for an unknown asset or API address. `publicUrl` is the
 * gateway's address as clients know it.
 */
export async function consolePage(request: Request, publicUrl: string): Promise<FreeAnswer> {
  const url = new URL(request.url)
  const asset = /^\/console\/assets\/([\w.-]+)$/.exec(url.pathname)?.[1]
  if (asset !== undefined) return answer(request, asset, 'public, max-age=31536000, immutable')
  if (url.pathname === '/console/artifact') return { response: artifactPage(), bytes: 0 }
  if (/^\/console\/(?:assets|api)(?:\/|$)/.test(url.pathname)) throw new GatewayError('not_found')
  const byName = namedHost(request, url, publicUrl)
  if (byName !== undefined)
    return { response: new Response(null, { status: 302, headers: { location: byName } }), bytes: 0 }
  const page = await answer(request, indexFile, 'no-cache', sitePath(publicUrl))
  if (url.pathname.startsWith('/console/shared/')) {
    // The address is all that is needed to read the conversation.
    page.response.headers.set('x-robots-tag', 'noindex, nofollow')
    page.response.headers.set('referrer-policy', 'no-referrer')
  }
  return page
}

/** `below`: the path of the gateway on its host. */
async function answer(request: Request, name: string, cache: string, below = ''): Promise<FreeAnswer> {
  const file = await fileOf(name, below)
  if (!file) throw missing(name)
  const headers = {
    ...security,
    'content-type': types[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream',
    'cache-control': cache,
    etag: file.etag,
    vary: 'accept-encoding',
  }
  if (etagMatches(request.headers.get('if-none-match'), file.etag))
    return { response: new Response(null, { status: 304, headers }), bytes: 0 }
  if (takesBrotli(request.headers)) {
    const response = new Response(file.stored, { headers: { ...headers, 'content-encoding': 'br' } })
    return { response, bytes: file.stored.length }
  }
  const whole = new Uint8Array(await decompress(file.stored))
  // Unpacked for this answer alone.
  return { response: new Response(whole, { headers }), bytes: 2 * whole.length }
}

/** Browsers accept brotli on HTTPS and localhost; other clients get the file uncompressed. */
function takesBrotli(headers: Headers): boolean {
  return /\bbr\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(headers.get('accept-encoding') ?? '')
}

const loopback = new Set(['127.0.0.1', '[::1]'])

/**
 * Passkeys belong to a host name, so a page at a loopback address is redirected to `localhost` with the same port,
 * unless clients are given that address, or a proxy is in between. The browser keeps the fragment, which holds the
 * secret of a sign-in link.
 */
function namedHost({ headers }: Request, url: URL, publicUrl: string): string | undefined {
  if (!loopback.has(url.hostname) || headers.has('x-forwarded-for') || headers.has('forwarded'))
    return undefined
  const { hostname } = new URL(publicUrl)
  // A path is a proxy's, which alone knows its port.
  if (sitePath(publicUrl) !== '') return undefined
  if (!loopback.has(hostname) && hostname !== 'localhost') return undefined
  const named = new URL(url)
  named.hostname = 'localhost'
  return named.href
}

function fileOf(name: string, below: string): Promise<PageFile | undefined> {
  const key = below + name
  const known = read.get(key)
  if (known) return known
  const file = load(name, below)
  // Only existing files are cached: anybody can ask for other names.
  file.then((found) => found && read.set(key, file)).catch(() => undefined)
  return file
}

async function load(name: string, below: string): Promise<PageFile | undefined> {
  const source = embeddedFile(name) ?? Bun.file(resolve(builtFolder, `${name}.br`))
  if (!(await isThere(source))) return undefined
  const file = new Uint8Array(await source.arrayBuffer())
  const stored = below === '' ? file : await pageBelow(file, below)
  const digest = new Bun.CryptoHasher('sha256').update(stored).digest('base64url').slice(0, 22)
  return { stored, etag: `"${digest}"` }
}

/** The page with its files below a path of the host. */
async function pageBelow(page: Uint8Array, path: string): Promise<Uint8Array<ArrayBuffer>> {
  const html = (await decompress(page)).toString()
  return new Uint8Array(
    await compress(html.replaceAll('"/console/assets/', `"${escapeHtml(path)}/console/assets/`)),
  )
}

/** The file inside the executable; undefined when run from source. */
function embeddedFile(name: string): Blob | undefined {
  const stored = `${name}.br`
  return Bun.embeddedFiles.find((blob) => 'name' in blob && blob.name === stored)
}

function isThere(source: Blob): Promise<boolean> {
  return 'exists' in source ? (source as Bun.BunFile).exists() : Promise.resolve(true)
}

function missing(name: string): GatewayError {
  const message =
    name === indexFile
      ? 'The console has not been compiled: run `bun run console`, then load this page again.'
      : 'There is no such file in the console: load the page again.'
  return new GatewayError('not_found', { message })
}

// The page in which the chat shows HTML and SVG that a model wrote. It has an origin of its own, of which nothing is stored
// and which may call nobody; the console gives it the text by a message.

/** `sandbox` also where somebody opens the address by itself. What is written into the page stays under this policy. */
const policy = [
  'sandbox allow-scripts',
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "style-src 'unsafe-inline'",
  'img-src data: blob:',
  'font-src data:',
  'media-src data: blob:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
  "webrtc 'block'",
].join('; ')

// Browsers without the directive of the policy would let a script reach a server by WebRTC.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Artifact</title>
<script>
for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport'])
  Object.defineProperty(window, name, { value: undefined, configurable: false, writable: false })
addEventListener('message', function take(event) {
  if (event.source !== parent || typeof event.data !== 'string') return
  removeEventListener('message', take)
  document.open()
  document.write(event.data)
  document.close()
})
</script>
</html>
`

export function artifactPage(): Response {
  return new Response(page, {
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'x-dns-prefetch-control': 'off',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-cache',
    },
  })
}
