// The door for addresses that users choose: what it refuses before a single connection, what it fetches, and its
// bounds. Servers are on loopback; public addresses are played by a resolver that knows better.

import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { dial, type DialInit, type FetchOptions, fetchPublic } from '../../src/egress/egress.ts'
import { isPublicAddress } from '../../src/egress/destination.ts'
import { GatewayError } from '../../src/errors/errors.ts'

let connections = 0
let answer: (request: Request) => Response | Promise<Response> = () => new Response('ok')
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch: (request) => {
    connections++
    return answer(request)
  },
})
const { port } = server
const allowed = `127.0.0.1:${port}`

afterAll(() => server.stop(true))
beforeEach(() => {
  connections = 0
  answer = () => new Response('ok')
})

const plain: FetchOptions = {
  allowHosts: [],
  maxBytes: 1000,
  timeoutMs: 2000,
  param: 'messages[0].content[1]',
}

/** What fetching this URL throws. */
async function refusalOf(url: string, options: Partial<FetchOptions> = {}): Promise<GatewayError> {
  try {
    await fetchPublic(url, { ...plain, ...options })
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error(`${url} was fetched`)
}

/** Dials the loopback server whatever address was checked, and remembers what it was asked to dial. */
function rerouted(dialled: { url: string; init: DialInit }[]) {
  return (url: string, init: DialInit) => {
    dialled.push({ url, init })
    const target = new URL(url)
    return fetch(`http://127.0.0.1:${port}${target.pathname}`, {
      headers: init.headers,
      redirect: 'manual',
      decompress: false,
      signal: init.signal,
    })
  }
}

describe('S4 addresses that nobody may reach', () => {
  test.each([
    `http://127.0.0.1:${port}/`,
    `http://2130706433:${port}/`,
    `http://0x7f.1:${port}/`,
    `http://0x7f000001:${port}/`,
    `http://0177.0.0.1:${port}/`,
    `http://017700000001:${port}/`,
    `http://127.1:${port}/`,
    `http://127.0.0.1.:${port}/`,
    `http://0:${port}/`,
    `http://０.０.０.０:${port}/`,
    `http://①②⑦.⓪.⓪.①:${port}/`,
    `http://localhost:${port}/`,
    `http://localhost.:${port}/`,
    `http://LOCALHOST:${port}/`,
    `http://[::1]:${port}/`,
    `http://[::]:${port}/`,
    `http://[::ffff:127.0.0.1]:${port}/`,
    `http://[::ffff:7f00:1]:${port}/`,
    `http://[::7f00:1]:${port}/`,
    `http://[::ffff:0:127.0.0.1]:${port}/`,
    `http://[64:ff9b::7f00:1]:${port}/`,
    `http://[64:ff9b:1::7f00:1]:${port}/`,
    `http://[2002:7f00:1::]:${port}/`,
    `http://[2001::1]:${port}/`,
    `http://[fec0::1]:${port}/`,
    `http://[fe80::1]:${port}/`,
    `http://[fd00:ec2::254]:${port}/`,
    `http://[ff02::1]:${port}/`,
    `http://[4000::1]:${port}/`,
    'http://169.254.169.254/latest/meta-data/',
    'http://168.63.129.16/',
    'http://100.64.0.1/',
    'http://100.100.100.200/',
    'http://10.0.0.1/',
    'http://172.16.0.1/',
    'http://192.168.0.1/',
    'http://192.0.0.192/',
    'http://198.18.0.1/',
    'http://224.0.0.1/',
    'http://255.255.255.255/',
    `http://good@127.0.0.1:${port}/`,
    `http://user:secret@8.8.8.8/`,
    'file:///etc/passwd',
    'data:text/plain,hello',
    's3://bucket/key',
    'gopher://127.0.0.1/',
    'ftp://8.8.8.8/',
    'javascript:1',
    'http://',
    'http://[::1',
    '//127.0.0.1/',
    'not a url',
    '',
    `http://8.8.8.8/${'a'.repeat(9000)}`,
  ])('%s', async (url) => {
    const dialled: { url: string; init: DialInit }[] = []
    const error = await refusalOf(url, { fetcher: rerouted(dialled) })
    expect(error.code).toBe('url_not_allowed')
    expect(error.details.param).toBe('messages[0].content[1]')
    expect(dialled).toEqual([])
    expect(connections).toBe(0)
  })

  test.each(['8.8.8.8', '1.1.1.1', '2606:4700::1111', '::ffff:8.8.8.8'])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })

  test.each(['', 'localhost', '8.8.8.8/8', '2001:db8::1', '3fff::1', '5f00::1', '100::1', '192.88.99.1'])(
    '%p is not public',
    (address) => {
      expect(isPublicAddress(address)).toBe(false)
    },
  )
})

describe('S5 names', () => {
  const evil = `http://evil.example:${port}/x?q#part`

  test.each([
    ['a private address', ['127.0.0.1']],
    ['a public and a private one', ['8.8.8.8', '127.0.0.1']],
    ['a public IPv4 and a local IPv6 one', ['8.8.8.8', '::1']],
    ['a private address in IPv6 clothes', ['::ffff:10.0.0.1']],
    ['something that is no address', ['evil']],
  ])('a name with %s is refused', async (_, addresses) => {
    const error = await refusalOf(evil, { resolve: async () => addresses })
    expect(error.code).toBe('url_not_allowed')
    expect(connections).toBe(0)
  })

  test('a name is resolved once, and the checked address is dialled: a second answer changes nothing', async () => {
    const answers = [['93.184.216.34'], ['127.0.0.1']]
    let asked = 0
    const dialled: { url: string; init: DialInit }[] = []
    await fetchPublic(evil, {
      ...plain,
      resolve: async () => answers[asked++] ?? ['127.0.0.1'],
      fetcher: rerouted(dialled),
    })
    expect(asked).toBe(1)
    expect(dialled.map((each) => each.url)).toEqual([`http://93.184.216.34:${port}/x?q`])
    expect(dialled[0]!.init.headers.get('host')).toBe(`evil.example:${port}`)
    expect(dialled[0]!.init).toMatchObject({ redirect: 'manual', keepalive: false, tls: undefined })
  })

  test('a certificate must be for the name, not for the address', async () => {
    const dialled: { url: string; init: DialInit }[] = []
    const resolve = async () => ['93.184.216.34']
    await fetchPublic('https://good.example./', { ...plain, resolve, fetcher: rerouted(dialled) })
    expect(dialled[0]!.url).toBe('https://93.184.216.34/')
    expect(dialled[0]!.init.tls).toEqual({ serverName: 'good.example' })
  })

  test('a name that does not resolve is the request’s mistake', async () => {
    for (const resolve of [async () => [], () => Promise.reject(new Error('ENOTFOUND'))]) {
      expect((await refusalOf(evil, { resolve })).code).toBe('invalid_request')
    }
  })

  test('IPv4 is tried first, and the next address when the first cannot be connected to', async () => {
    const tried: string[] = []
    const { status } = await fetchPublic('http://two.example/', {
      ...plain,
      resolve: async () => ['2606:4700::1111', '1.1.1.1'],
      fetcher: async (url) => {
        tried.push(new URL(url).hostname)
        if (tried.length === 1) throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
        return new Response('ok')
      },
    })
    expect(tried).toEqual(['1.1.1.1', '[2606:4700::1111]'])
    expect(status).toBe(200)
  })
})

describe('S5 redirects', () => {
  const resolve = async (host: string) => (host === 'evil.example' ? ['93.184.216.34'] : ['127.0.0.1'])

  test.each([301, 302, 303, 307, 308])('%d to loopback is not followed', async (status) => {
    let secondVisits = 0
    answer = (request) => {
      if (new URL(request.url).pathname === '/secret') secondVisits++
      return new Response(null, { status, headers: { location: `http://127.0.0.1:${port}/secret` } })
    }
    const error = await refusalOf('http://evil.example/', { resolve, fetcher: rerouted([]) })
    expect(error.code).toBe('url_not_allowed')
    expect(secondVisits).toBe(0)
  })

  test.each(['file:///etc/passwd', 'http://internal.example/', 'http://u:p@evil.example/', 'http://['])(
    'to %s is refused',
    async (location) => {
      answer = () => new Response(null, { status: 302, headers: { location } })
      const error = await refusalOf('http://evil.example/', { resolve, fetcher: rerouted([]) })
      expect(error.code).toBe('url_not_allowed')
    },
  )

  test('to a public address are followed, three at most', async () => {
    let hops = 3
    answer = () =>
      hops-- > 0 ? new Response(null, { status: 302, headers: { location: '/next' } }) : new Response('there')
    const { bytes } = await fetchPublic('http://evil.example/', { ...plain, resolve, fetcher: rerouted([]) })
    expect(new TextDecoder().decode(bytes)).toBe('there')
    hops = 4
    expect((await refusalOf('http://evil.example/', { resolve, fetcher: rerouted([]) })).code).toBe(
      'invalid_request',
    )
  })

  test('a dialled request keeps its headers to itself: the redirect is given back', async () => {
    answer = () => new Response(null, { status: 307, headers: { location: 'http://evil.example/' } })
    const headers = new Headers({ 'x-api-key': 'secret' })
    const response = await dial(
      `http://${allowed}/`,
      { method: 'POST', headers, body: '{}' },
      { allowHosts: [allowed] },
    )
    expect(response.status).toBe(307)
    expect(connections).toBe(1)
  })
})

describe('what an operator allows', () => {
  test.each([
    ['host and port', [allowed]],
    ['any port of the host', ['127.0.0.1']],
  ])('%s', async (_, allowHosts) => {
    answer = (request) =>
      new Response(`${request.headers.get('host')} ${request.headers.get('accept')}`, {
        headers: { 'content-type': 'Text/Plain; charset=utf-8' },
      })
    const fetched = await fetchPublic(`http://${allowed}/`, { ...plain, allowHosts, accept: 'image/*' })
    expect(fetched).toMatchObject({ status: 200, mediaType: 'text/plain' })
    expect(new TextDecoder().decode(fetched.bytes)).toBe(`${allowed} image/*`)
  })

  test('a name, resolved by the system and reached under its own name', async () => {
    answer = (request) => new Response(request.headers.get('host'))
    const allowHosts = [`localhost:${port}`]
    const fetched = await fetchPublic(`http://localhost:${port}/`, { ...plain, allowHosts })
    expect(new TextDecoder().decode(fetched.bytes)).toBe(`localhost:${port}`)
  })

  test.each([
    ['another port', ['127.0.0.1:1']],
    ['another spelling of the name', [`localhost:${port}`]],
    ['nothing', ['']],
  ])('%s does not open this address', async (_, allowHosts) => {
    expect((await refusalOf(`http://${allowed}/`, { allowHosts })).code).toBe('url_not_allowed')
    expect(connections).toBe(0)
  })

  test('is no way round the rules for schemes and user information', async () => {
    for (const url of [`ftp://${allowed}/`, `http://u@${allowed}/`]) {
      expect((await refusalOf(url, { allowHosts: [allowed] })).code).toBe('url_not_allowed')
    }
  })
})

describe('S21 bounds', () => {
  const open = { allowHosts: [allowed] }
  const url = `http://${allowed}/`
  const zeros = (bytes: number) => new Uint8Array(bytes)

  test('a body of exactly the limit is taken', async () => {
    answer = () => new Response(zeros(1000))
    expect((await fetchPublic(url, { ...plain, ...open })).bytes).toHaveLength(1000)
  })

  test('a longer one is refused, announced or not', async () => {
    const endless = () =>
      new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(zeros(4096)),
      })
    for (const body of [() => new Response(zeros(1001)), () => new Response(endless())]) {
      answer = body
      const error = await refusalOf(url, open)
      expect(error.code).toBe('invalid_request')
      expect(error.message).toContain('1000 bytes')
    }
  })

  test('a compressed body is unpacked', async () => {
    answer = () => new Response(gzipSync('hello'), { headers: { 'content-encoding': 'gzip' } })
    const { bytes } = await fetchPublic(url, { ...plain, ...open })
    expect(new TextDecoder().decode(bytes)).toBe('hello')
  })

  test('a bomb is cut when it outgrows the limit', async () => {
    const bomb = gzipSync(zeros(64 * 1024 * 1024))
    expect(bomb.length).toBeLessThan(100_000)
    answer = () => new Response(bomb, { headers: { 'content-encoding': 'gzip' } })
    const before = process.memoryUsage.rss()
    const error = await refusalOf(url, { ...open, maxBytes: 1_000_000 })
    expect(error.message).toContain('1000000 bytes')
    expect(process.memoryUsage.rss() - before).toBeLessThan(48 * 1024 * 1024)
  })

  test.each(['gzip, gzip', 'compress', Array(500).fill('gzip').join(',')])(
    'the encoding %p is refused',
    async (encoding) => {
      answer = () => new Response(gzipSync('x'), { headers: { 'content-encoding': encoding } })
      expect((await refusalOf(url, open)).code).toBe('invalid_request')
    },
  )

  test('a damaged body is the server’s fault, told as a failed fetch', async () => {
    answer = () => new Response('not gzip', { headers: { 'content-encoding': 'gzip' } })
    expect((await refusalOf(url, open)).code).toBe('invalid_request')
  })

  test('a server that never answers, and one that never ends, are given up in time', async () => {
    const never = new Promise<Response>(() => undefined)
    const stuck = () =>
      new Response(new ReadableStream({ start: (controller) => controller.enqueue(zeros(1)) }))
    for (const slow of [() => never, stuck]) {
      answer = slow
      const error = await refusalOf(url, { ...open, timeoutMs: 60 })
      expect(error.code).toBe('invalid_request')
      expect(error.message).toContain('60 ms')
    }
  })

  test('a resolver that never answers is given up in time', async () => {
    const resolve = () => new Promise<string[]>(() => undefined)
    expect((await refusalOf('http://slow.example/', { resolve, timeoutMs: 40 })).message).toContain('40 ms')
  })

  test('a caller who gives up hears its own reason', async () => {
    const abort = new AbortController()
    const reason = new Error('the client left')
    answer = () => {
      abort.abort(reason)
      return new Promise<Response>(() => undefined)
    }
    const fetching = fetchPublic(url, { ...plain, ...open, signal: abort.signal })
    expect(await fetching.catch((error: unknown) => error)).toBe(reason)
  })

  test.each(['http://127.0.0.1/', 'http://nowhere.invalid/'])(
    'a caller who gave up before, for %s, leaves no rejection that would end the process',
    async (wrong) => {
      const reason = new Error('the client left')
      const signal = AbortSignal.abort(reason)
      const dialling = dial(wrong, { method: 'GET', headers: new Headers() }, { allowHosts: [], signal })
      expect(await dialling.catch((error: unknown) => error)).toBe(reason)
      // The runner fails a test that leaves one.
      await Bun.sleep(5)
    },
  )

  test('a port where nobody listens is a failed fetch', async () => {
    const gone = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
    const dead = `127.0.0.1:${gone.port}`
    await gone.stop(true)
    const error = await refusalOf(`http://${dead}/`, { allowHosts: [dead] })
    expect(error.code).toBe('invalid_request')
    // What stands at a private address is nobody's business.
    expect(error.message).not.toContain('refused')
  })
})
