// HTTP at its worst, byte by byte over a socket: what a client library would never send, and what a proxy might.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { creditsOf, expectAudited, post, restingCredits } from '../../support/call-gateway.ts'
import { type RawResponse, rawRequest, sendRaw } from '../../support/raw-http.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

type Header = readonly [string, string]

let weir: RunningWeir

beforeAll(async () => {
  weir = await startWeir({
    config:
      'local_servers: { discover: false }\nserver: { max_body_bytes: 2000000, max_header_bytes: 8192 }\n',
  })
}, 30_000)

afterAll(() => weir?.stop())

const body = JSON.stringify({ model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }] })
const post11 = 'POST /v1/chat/completions HTTP/1.1'
const json: Header = ['Content-Type', 'application/json']
const host = (): Header => ['Host', `127.0.0.1:${weir.port}`]
const bearer = (): Header => ['Authorization', `Bearer ${weir.key}`]
const length = (text: string): Header => ['Content-Length', String(Buffer.byteLength(text))]
const chunkedBody: Header = ['Transfer-Encoding', 'chunked']
const ask = (startLine: string, headers: readonly Header[], text = '') =>
  sendRaw(weir.port, rawRequest(startLine, headers, text))

/** An error in the contract's shape. */
function expectError(answer: RawResponse, status: number, code: string): void {
  expect({ status: answer.status, body: answer.body }).toMatchObject({ status })
  const { error } = JSON.parse(answer.body) as { error: { code: string; metadata: { request_id: string } } }
  expect(error.code).toBe(code)
  expect(answer.headers.get('x-request-id')).toBe(error.metadata.request_id)
}

/** The runtime's own refusal: it speaks before any route, says nothing of the inside, and hangs up. */
function expectHungUp(answer: RawResponse, status: number): void {
  expect({ status: answer.status, closed: answer.closed }).toEqual({ status, closed: true })
  expect(answer.raw.length).toBeLessThan(200)
}

describe('a Host (S8)', () => {
  test.each([
    ['that carries a path', ['x/public?']],
    ['that carries a path to a route', ['x/v1/models?']],
    ['that carries a user', ['good@evil']],
    ['that is empty', ['']],
    ['with blanks', ['a b']],
    ['of two names', ['a, b']],
    ['with a port that is none', ['a:b']],
    ['with a port that is too high', ['a:99999']],
    ['that is an address with a part too large', ['1.2.3.999']],
    ['that is an address of too many parts', ['[:::]']],
    ['of letters that encode nothing', ['xn--a']],
    ['sent twice', ['a', 'b']],
    ['sent twice alike', ['a', 'a']],
  ])('%s is refused on every route', async (_, hosts) => {
    for (const path of ['/v1/models?q=echo', '/v1/key', '/nowhere', '/healthz', '/readyz', '/']) {
      const answer = await ask(`GET ${path} HTTP/1.1`, [
        ...hosts.map((name): Header => ['Host', name]),
        bearer(),
      ])
      expectError(answer, 400, 'invalid_request')
      expect(answer.body.length).toBeLessThan(400)
    }
  })

  test('may be missing where a load balancer asks by HTTP/1.0 whether the gateway is well', async () => {
    for (const path of ['/healthz', '/readyz'])
      expect((await ask(`GET ${path} HTTP/1.0`, [])).status).toBe(200)
    expectError(await ask('GET /v1/key HTTP/1.0', [bearer()]), 400, 'invalid_request')
  })

  test('that is missing ends the connection', async () => {
    expectHungUp(await ask(post11, [bearer(), json, length(body)], body), 400)
  })

  test.each(['a', 'gw', 'llm', 'weir', 'localhost', '[::1]:8787', '127.0.0.1:1', 'a.b.c.example:443'])(
    'may be as short or long as %s, and the path is the path',
    async (name) => {
      expect((await ask('GET /v1/key HTTP/1.1', [['Host', name], bearer()])).status).toBe(200)
      expectError(await ask('GET /x/v1/key HTTP/1.1', [['Host', name], bearer()]), 404, 'not_found')
    },
  )

  test('of an absolute target changes neither the route nor where anything goes', async () => {
    const answer = await ask('GET http://evil.example/v1/key HTTP/1.1', [host(), bearer()])
    expect(answer.status).toBe(200)
    expectError(await ask('GET http://evil.example/x HTTP/1.1', [host(), bearer()]), 404, 'not_found')
  })
})

test('S8 a tunnel is not opened', async () => {
  for (const target of ['evil.example:443', '/', '127.0.0.1:80']) {
    const answer = await ask(`CONNECT ${target} HTTP/1.1`, [host(), bearer()])
    expectError(answer, 400, 'invalid_request')
  }
})

describe('a smuggled request (S28)', () => {
  const smuggled = 'GET /v1/key HTTP/1.1\r\nHost: a\r\n\r\n'
  const withLength = (value: string): string =>
    rawRequest(post11, [host(), bearer(), json, ['Content-Length', value]], body)
  const inChunks = (encoding: string, text: string): string =>
    rawRequest(post11, [host(), bearer(), json, ['Transfer-Encoding', encoding]], text + smuggled)
  /** An empty body in chunks with these headers, and another request behind it. */
  const ending = (startLine: string, ...headers: Header[]) =>
    rawRequest(startLine, [host(), json, ...headers], `0\r\n\r\n${smuggled}`)
  const headed = (lines: string): string => `${post11}\r\nHost: a\r\n${lines}\r\n\r\n${smuggled}`

  test.each([
    ['a length beside chunks', () => ending(post11, ['Content-Length', '4'], chunkedBody)],
    ['chunks beside a length', () => ending(post11, chunkedBody, ['Content-Length', '4'])],
    ['two lengths', () => rawRequest(post11, [host(), json, length(body), ['Content-Length', '3']], body)],
    ['a list of lengths', () => withLength(`${body.length}, ${body.length}`)],
    ['a length with a sign', () => withLength(`+${body.length}`)],
    ['a negative length', () => withLength('-1')],
    ['a hexadecimal length', () => withLength('0x10')],
    ['a length beyond 64 bits', () => withLength('99999999999999999999')],
    ['a length with a blank inside', () => withLength('1 0')],
    ['a blank before the colon', () => headed('Content-Length : 5')],
    ['an unknown coding', () => inChunks('xchunked', '0\r\n\r\n')],
    ['chunks that are not the last coding', () => inChunks('chunked, identity', '0\r\n\r\n')],
    ['a coding before chunks', () => inChunks('gzip, chunked', '0\r\n\r\n')],
    ['two codings', () => ending(post11, chunkedBody, ['Transfer-Encoding', 'identity'])],
    ['a coding behind a vertical tab', () => headed('Transfer-Encoding: \x0bchunked')],
    ['chunks in HTTP/1.0', () => ending('POST /v1/chat/completions HTTP/1.0', chunkedBody)],
    ['a folded header', () => headed('X-A: b\r\n c')],
    ['a folded coding', () => headed('Transfer-Encoding:\r\n chunked')],
    ['a bare carriage return', () => headed('X-A: b\rX-B: c')],
    ['a NUL in a header', () => headed('X-A: b\0c')],
    ['a header without a colon', () => headed('foo')],
    ['a header name with a blank', () => headed('foo bar: x')],
    ['a header before the first', () => `${post11}\r\n Host: a\r\n\r\n${smuggled}`],
    ['a negative chunk', () => inChunks('chunked', '-1\r\nabc\r\n0\r\n\r\n')],
    ['an endless chunk size', () => inChunks('chunked', 'FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n')],
    ['a chunk size that is none', () => inChunks('chunked', 'zz\r\nabc\r\n0\r\n\r\n')],
    ['a chunk longer than it says', () => inChunks('chunked', '3\r\nabcX0\r\n\r\n')],
    ['chunks that end in a bare LF', () => inChunks('chunked', '3\nabc\n0\n\n')],
    ['a chunk size with 0x', () => inChunks('chunked', '0x3\r\nabc\r\n0\r\n\r\n')],
    ['two blanks in the request line', () => rawRequest('GET  /v1/models HTTP/1.1', [host()])],
    ['a target without a slash', () => rawRequest('GET v1/models HTTP/1.1', [host()])],
    ['a TLS greeting', () => '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n'],
  ])('by %s is refused and the connection closed', async (_, request) => {
    expectHungUp(await sendRaw(weir.port, request()), 400)
  })

  test.each(['HTTP/2.0', 'HTTP/1.2', 'HTTP/0.9', 'http/1.1'])('in %s is refused', async (version) => {
    expectHungUp(await ask(`GET /v1/models ${version}`, [host()]), 505)
  })

  test('with its length sent twice alike is refused by us: a proxy may have read another', async () => {
    expectError(
      await ask(post11, [host(), bearer(), json, length(body), length(body)], body),
      400,
      'invalid_request',
    )
  })

  test('reached no route: nothing has been charged', async () => {
    expect((await restingCredits(weir)).total_used).toBe('0')
  })
})

describe('headers', () => {
  test.each([4, 6])('of %d kB are fine', async (kilobytes) => {
    const much: Header = ['X-Much', 'a'.repeat(kilobytes * 1024)]
    expect((await ask('GET /v1/key HTTP/1.1', [host(), bearer(), much])).status).toBe(200)
  })

  test.each([9, 12, 17, 64])('of %d kB are refused in our words', async (kilobytes) => {
    const much: Header = ['X-Much', 'a'.repeat(kilobytes * 1024)]
    expectError(await ask('GET /v1/key HTTP/1.1', [host(), bearer(), much]), 431, 'headers_too_large')
  })

  test.each([1024, 2048])('of %d kB are refused by the runtime', async (kilobytes) => {
    const much: Header = ['X-Much', 'a'.repeat(kilobytes * 1024)]
    expectHungUp(await ask('GET /v1/key HTTP/1.1', [host(), bearer(), much]), 431)
  })

  test('in their thousands are refused', async () => {
    const many = Array.from({ length: 2000 }, (_, i): Header => [`X-${i}`, 'v'])
    expectHungUp(await ask('GET /v1/key HTTP/1.1', [host(), bearer(), ...many]), 431)
  })

  test('that name other hops, hosts and addresses change nothing (S27)', async () => {
    const others: Header[] = [
      ['X-Forwarded-Host', 'evil.example'],
      ['X-Forwarded-For', '10.0.0.1'],
      ['Forwarded', 'host=evil.example'],
      ['X-Real-IP', '10.0.0.1'],
      ['X-Original-URL', '/v1/models'],
      ['X-Rewrite-URL', '/v1/models'],
      ['X-HTTP-Method-Override', 'DELETE'],
      ['TE', 'trailers'],
    ]
    const answer = await ask('GET /v1/key HTTP/1.1', [host(), bearer(), ...others])
    expect(answer.status).toBe(200)
    expect(answer.raw).not.toContain('evil.example')
  })
})

describe('a body', () => {
  const noKey = () => [host(), json] as const

  test('that announces too much is refused before its first byte, without a key too (S20)', async () => {
    for (const announced of ['2000001', '50000000', '5000000000', '99999999999999']) {
      const asked = performance.now()
      expectError(await ask(post11, [...noKey(), ['Content-Length', announced]]), 413, 'payload_too_large')
      expect(performance.now() - asked).toBeLessThan(1_000)
    }
  })

  test('that grows too large in chunks is refused as it comes, however much follows', async () => {
    const piece = `10000\r\n${'a'.repeat(65_536)}\r\n`
    for (const pieces of [31, 100, 1000]) {
      const text = `${piece.repeat(pieces)}0\r\n\r\n`
      expectError(await ask(post11, [host(), bearer(), json, chunkedBody], text), 413, 'payload_too_large')
    }
  })

  test('in chunks without a key is not read at all', async () => {
    expectError(
      await ask(post11, [...noKey(), chunkedBody], `5\r\nhello\r\n0\r\n\r\n`),
      401,
      'missing_api_key',
    )
  })

  test('in chunks of any size is one body', async () => {
    const text = `${[...body].map((letter) => `1;ext=1\r\n${letter}\r\n`).join('')}0\r\n\r\n`
    expect((await ask(post11, [host(), bearer(), json, chunkedBody], text)).status).toBe(200)
  })

  test.each(['gzip', 'br', 'deflate', 'zstd', 'GZIP', 'gzip, identity'])(
    'that is compressed (%s) is not read (S21)',
    async (coding) => {
      const answer = await ask(
        post11,
        [host(), bearer(), json, ['Content-Encoding', coding], length(body)],
        body,
      )
      expectError(answer, 415, 'unsupported_media_type')
    },
  )

  test.each([
    'text/xml',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonx',
    'image/png',
    'application/json, text/xml',
  ])('that calls itself %s is refused', async (type) => {
    const answer = await ask(post11, [host(), bearer(), ['Content-Type', type], length(body)], body)
    expectError(answer, 415, 'unsupported_media_type')
  })

  test.each([
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/problem+json',
    'text/plain',
  ])('that calls itself %s is read', async (type) => {
    const answer = await ask(post11, [host(), bearer(), ['Content-Type', type], length(body)], body)
    expect(answer.status).toBe(200)
  })

  test('that breaks off is nobody’s error but its sender’s', async () => {
    await sendRaw(weir.port, rawRequest(post11, [host(), bearer(), json, chunkedBody], '5\r\nhel'), 50)
    await sendRaw(
      weir.port,
      rawRequest(post11, [host(), bearer(), json, ['Content-Length', '500']], '{"mo'),
      50,
    )
    expect((await post(weir, { model: 'sim/echo' })).status).toBe(400)
    expect(weir.output()).not.toContain('failed inside the gateway')
  })
})

describe('a path', () => {
  test.each([
    '//v1/key',
    '/V1/KEY',
    '/v1/key;x',
    '/v1/key%00',
    '/v1%2fkey',
    '/v1/key%2f',
    '/v1/./key%20',
    '/%76%31/key',
    '/v1/key/..%2fkey',
    '/v1/chat/completions/../../../etc/passwd',
    '/v1/models%0d%0aX-Evil:%201',
    '/.git/config',
    '/v1/key/%',
  ])('%s is nothing here', async (path) => {
    const answer = await ask(`GET ${path} HTTP/1.1`, [host(), bearer()])
    expectError(answer, 404, 'not_found')
    expect(answer.headers.get('x-evil')).toBeNull()
  })

  test.each([
    '/v1/models/%zz',
    '/v1/models/%c0%ae',
    '/v1/models/sim%00echo',
    '/v1/models/..%2f..%2fetc%2fpasswd',
  ])('to the model %s names no model', async (path) => {
    const answer = await ask(`GET ${path} HTTP/1.1`, [host()])
    expect([400, 404]).toContain(answer.status)
    expect(JSON.parse(answer.body)).toMatchObject({ error: { type: expect.any(String) } })
  })

  test.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET', 'TRACE'])(
    'has no method %s for chat',
    async (method) => {
      expectError(
        await ask(`${method} /v1/chat/completions HTTP/1.1`, [host(), bearer()]),
        405,
        'method_not_allowed',
      )
    },
  )

  test.each(['POST', 'PUT', 'PATCH', 'DELETE'])('has no method %s for the key', async (method) => {
    expectError(await ask(`${method} /v1/key HTTP/1.1`, [host(), bearer()]), 405, 'method_not_allowed')
  })

  test('asked for with HEAD answers its headers alone', async () => {
    const response = await fetch(`${weir.baseUrl}/models`, { method: 'HEAD' })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
    const refused = await fetch(`${weir.baseUrl}/chat/completions`, { method: 'HEAD' })
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST'])
    expect(await refused.text()).toBe('')
  })

  test('lets pages of other origins read answers under /v1, where keys are the only authority (S18)', async () => {
    const page: Header[] = [
      ['Origin', 'https://evil.example'],
      ['Access-Control-Request-Method', 'POST'],
    ]
    const grantedBy = ({ headers }: RawResponse) =>
      [...headers].filter(([name]) => name.startsWith('access-control-allow-'))
    const answer = await ask('GET /v1/key HTTP/1.1', [host(), ...page])
    expect(answer.status).toBe(401)
    expect(grantedBy(answer)).toEqual([['access-control-allow-origin', '*']])
    const preflight = await ask('OPTIONS /v1/chat/completions HTTP/1.1', [host(), ...page])
    expect(preflight.status).toBe(204)
    expect(preflight.headers.has('access-control-allow-credentials')).toBe(false)
    for (const path of [
      '/app/v1/credits',
      '/app/v1/chat/completions',
      '/console',
      '/docs/json',
      '//v1/key',
    ]) {
      for (const method of ['OPTIONS', 'GET'])
        expect(grantedBy(await ask(`${method} ${path} HTTP/1.1`, [host(), bearer(), ...page]))).toEqual([])
    }
  })
})

describe('afterwards', () => {
  test('the gateway serves, nothing is held, nothing failed inside, and the books balance', async () => {
    expect(
      (await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }] })).content,
    ).toBe('hi')
    expect((await creditsOf(weir)).held).toBe('0')
    expect(weir.output()).not.toContain('failed inside the gateway')
    await expectAudited(weir)
  })
})
