// What a request says of where it comes from, and what of it is believed.

import { describe, expect, test } from 'bun:test'
import {
  clientAddress,
  cookieOf,
  requireOwnOrigin,
  sessionCookie,
  setSessionCookie,
  type Site,
} from '../../../src/http/intake/caller.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { checkHeaders } from '../../../src/http/route.ts'

const site = (secure: boolean): Site => ({
  url: () => (secure ? 'https://models.example.org' : 'http://localhost:8787'),
  origins: () => new Set([secure ? 'https://models.example.org' : 'http://localhost:8787']),
  secure,
  addressOf: () => '',
})

describe('the address of a client', () => {
  const trusted = ['10.0.0.0/8', '::1']
  test.each([
    // peer       X-Forwarded-For              client
    ['192.0.2.1', '203.0.113.7', '192.0.2.1'],
    ['10.0.0.1', null, '10.0.0.1'],
    ['10.0.0.1', '203.0.113.7', '203.0.113.7'],
    ['10.0.0.1', '6.6.6.6, 203.0.113.7', '203.0.113.7'],
    ['10.0.0.1', '6.6.6.6, 203.0.113.7, 10.0.0.2', '203.0.113.7'],
    ['::ffff:10.0.0.1', '203.0.113.7:4711', '203.0.113.7'],
    ['::1', '[2001:db8::1]:443', '2001:db8::1'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['10.0.0.1', ' , ', '10.0.0.1'],
    ['10.0.0.1', 'localhost', 'localhost'],
  ])('peer %p that forwards for %p: %p', (peer, forwarded, client) => {
    expect(clientAddress(peer, forwarded, trusted)).toBe(client)
  })

  test('is the peer’s where no proxy is trusted, whatever it says', () => {
    expect(clientAddress('127.0.0.1', '6.6.6.6', [])).toBe('127.0.0.1')
  })
})

describe('the session cookie', () => {
  test('behind https belongs to this host alone, and goes over https alone', () => {
    expect(setSessionCookie(site(true), 'token', 60_000)).toBe(
      '__Host-weir=token; Path=/; HttpOnly; SameSite=Lax; Max-Age=60; Secure',
    )
    expect(setSessionCookie(site(false), '', 0)).toBe(
      'weir_session_8787=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0',
    )
  })

  test('of a gateway below a path goes nowhere else', () => {
    expect(
      setSessionCookie({ url: () => 'https://models.example/weir', secure: true }, 'token', 60_000),
    ).toBe('__Secure-weir=token; Path=/weir; HttpOnly; SameSite=Lax; Max-Age=60; Secure')
  })

  test.each([
    ['weir_session=a', 'a'],
    ['x=1; weir_session=a; y=2', 'a'],
    ['__proto__=1; weir_session=a', 'a'],
    ['xweir_session=a', undefined],
    ['weir_session', undefined],
    ['', undefined],
  ])('is read from %p as %p', (cookie, text) => {
    expect(cookieOf(new Headers({ cookie }), 'weir_session')).toBe(text)
  })
})

describe('two gateways on one host', () => {
  const at = (url: string) => ({ url: () => url, secure: url.startsWith('https:') })
  const tokenIn = (cookie: string, url: string) =>
    sessionCookie({ headers: new Headers(cookie === '' ? {} : { cookie }) }, at(url))

  test.each([
    ['http://localhost:8787', 'weir_session_8787'],
    ['http://localhost:8788', 'weir_session_8788'],
    ['http://models.example', 'weir_session'],
    ['https://models.example', '__Host-weir'],
    ['https://models.example:8443', '__Host-weir_8443'],
    ['http://models.example/weir', 'weir_session'],
    ['https://models.example/weir', '__Secure-weir'],
  ])('at %s the cookie is %s', (url, name) => {
    expect(setSessionCookie(at(url), 'a', 1_000)).toStartWith(`${name}=a;`)
    expect(tokenIn(`${name}=a`, url)).toBe('a')
  })

  test.each([
    ['weir_session_8788=b; weir_session_8787=a', 'a'],
    // The name of earlier versions.
    ['weir_session=old', 'old'],
    ['weir_session=old; weir_session_8787=a', 'a'],
    ['weir_session_8788=b', undefined],
    ['', undefined],
  ])('with %p port 8787 has the token %p', (cookie, token) => {
    expect(tokenIn(cookie, 'http://localhost:8787')).toBe(token)
  })
})

test.each([
  // method  headers                                                            may
  ['GET', { origin: 'https://evil.example', cookie: 'weir_session=a' }, true],
  ['POST', { origin: 'http://localhost:8787', cookie: 'weir_session=a' }, true],
  ['POST', {}, true],
  ['POST', { cookie: 'weir_session=a' }, false],
  ['POST', { cookie: 'other=a' }, true],
  ['POST', { origin: 'http://localhost:8788' }, false],
  ['POST', { origin: 'https://localhost:8787' }, false],
  ['POST', { origin: 'null' }, false],
  ['DELETE', { cookie: 'weir_session=a', 'sec-fetch-site': 'same-origin' }, false],
  ['POST', { origin: 'http://localhost:8787', 'sec-fetch-site': 'same-origin' }, true],
  ['POST', { origin: 'http://localhost:8787', 'sec-fetch-site': 'cross-site' }, false],
] as const)('%s with %p may change something: %p', (method, headers, may) => {
  const request = new Request('http://localhost:8787/console/api/keys', { method, headers: { ...headers } })
  const ask = () => requireOwnOrigin(request, site(false))
  if (may) expect(ask).not.toThrow()
  else expect(ask).toThrow(expect.objectContaining({ code: 'origin_not_allowed' }))
})

function codeOf(headers: Readonly<Record<string, string>>, maxBytes = 1_000): string | undefined {
  try {
    checkHeaders(new Headers(headers), maxBytes)
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

describe('headers', () => {
  test.each([
    'localhost',
    'localhost:8787',
    '127.0.0.1',
    '[::1]',
    '[::1]:80',
    'gw',
    'weir_1.internal',
    'A.B-C.example:443',
  ])('with the host %s pass', (host) => expect(codeOf({ host })).toBeUndefined())

  test.each([
    '',
    ' ',
    'a b',
    'a/b',
    'a?b',
    'a#b',
    'a@b',
    'a\\b',
    'a:b',
    'a:123456',
    'a, b',
    'a,b',
    '-a',
    '.a',
    '[::1',
    '::1',
    'a%00',
    '1.2.3.999',
    '1.2.3.4.5',
    '999999999999',
    '[:::]',
    '[1::2::3]',
    'xn--a',
    'a:99999',
    'é',
  ])('with the host %p are refused', (host) => expect(codeOf({ host })).toBe('invalid_request'))

  test('without a host are refused', () => expect(codeOf({})).toBe('invalid_request'))

  test.each(['5, 5', '+5', '-5', '0x5', '', '1e3', '9'.repeat(16)])(
    'with the length %p are refused',
    (length) => expect(codeOf({ host: 'a', 'content-length': length })).toBe('invalid_request'),
  )

  test('are measured together, names and separators included', () => {
    expect(codeOf({ host: 'a', 'x-a': 'v'.repeat(980) }, 1_000)).toBeUndefined()
    expect(codeOf({ host: 'a', 'x-a': 'v'.repeat(985) }, 1_000)).toBe('headers_too_large')
  })
})
