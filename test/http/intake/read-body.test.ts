import { describe, expect, test } from 'bun:test'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { parseJson, readJson, refuseByHeaders } from '../../../src/http/intake/read-body.ts'
import fc from 'fast-check'
import { KeptBytes } from '../../../src/http/intake/paid/idempotency.ts'
import { post } from '../../support/call-gateway.ts'
import { serveWeir } from '../../support/serve-weir.ts'

const scheduler = new Scheduler()
const limits = { maxBodyBytes: 1000, maxHeaderBytes: 4096, maxDepth: 8 }

/** The code and the words of what is thrown. */
function refusalOf(read: () => unknown): { code: string; message: string } | undefined {
  try {
    read()
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return { code: error.code, message: error.message }
    throw error
  }
}

const invalid = (words: string) => ({ code: 'invalid_request', message: expect.stringContaining(words) })

describe('a body', () => {
  test.each([
    ['', 'empty'],
    [' \n ', 'empty'],
    ['{', 'not valid JSON'],
    ['{"a":NaN}', 'not valid JSON'],
    ['{"a":Infinity}', 'not valid JSON'],
    ['{"a":1}}', 'not valid JSON'],
    ["{'a':1}", 'not valid JSON'],
    ['{"a":1,}', 'not valid JSON'],
    ['{"a":"\u0001"}', 'not valid JSON'],
    ['null', 'must be a JSON object'],
    ['[]', 'must be a JSON object'],
    ['"text"', 'must be a JSON object'],
    ['1', 'must be a JSON object'],
    ['['.repeat(9), 'deeper than 8'],
    [`{"a":${'['.repeat(8)}${']'.repeat(8)}}`, 'deeper than 8'],
    ['{"a":'.repeat(9), 'deeper than 8'],
    ['{"a":1e999}', 'too large'],
    ['{"a":[-1E+400]}', 'too large'],
    ['{"a":1.5e309}', 'too large'],
    [`{"a":[${'{},'.repeat(100_000)}{}]}`, 'more than 100000'],
    [`{"a":[${'[],'.repeat(100_000)}[]]}`, 'more than 100000'],
    [`{${Array.from({ length: 100_001 }, (_, at) => `"${at}":1`).join(',')}}`, 'more than 100000'],
    ['{"__proto__":{"isAdmin":true}}', 'prototype'],
    ['{"a":[{"b":{"__proto__":1}}]}', 'prototype'],
    ['{"\\u005f\\u005fproto\\u005f\\u005f":1}', 'prototype'],
    ['{"_\\u005Fproto__":1}', 'prototype'],
    ['{"__\\u0070roto__":1}', 'prototype'],
    ['{"constructor":{"prototype":{"isAdmin":true}}}', 'prototype'],
    ['{"a":{"constructor":{"\\u0070rototype":{}}}}', 'prototype'],
  ])('%.40s is refused: %s', (text, words) => {
    expect(refusalOf(() => parseJson(text, 8))).toEqual(invalid(words))
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })

  test.each([
    '{"a":"[[[[[[[[[[[[[[[["}',
    '{"a":"\\"[[[[[[[[[[[[["}',
    '{"a":"1e999","b":1e308,"c":1e-999,"d":true,"e":false,"f":null}',
    `{"a":${'['.repeat(7)}${']'.repeat(7)}}`,
    `{"a":[${'1,'.repeat(300_000)}1]}`,
    '{"text":"what does __proto__ mean? and \\"prototype\\"?"}',
    '{"properties":{"constructor":{"type":"string"},"prototype":{"type":"string"}}}',
    '{"a":"\\u005f\\u0070"}',
  ])('%.60s is read as it is', (text) => {
    expect(parseJson(text, 8)).toEqual(JSON.parse(text))
  })

  test.each([
    ['{"model":"a/b","model":"c/d"}', 'model'],
    ['{"model":"a/b","\\u006dodel":"c/d"}', 'model'],
    ['{"model":"a/b" , "model" : "c/d"}', 'model'],
    ['{"a":[{"b":1},{"b":2,"c":{"d":1,"e":[[]],"d":1}}]}', 'a[1].c.d'],
    ['{"a":{"b":{}},"a":1}', 'a'],
    ['{"a":[0,[1,2,{"":0,"":1}]]}', 'a[1][2].'],
    ['{"\\"":1,"\\u0022":2}', '"'],
    ['{"input":{"id":1234567890123456789,"ids":[-1234567890123456789]},"a":1,"a":2}', 'a'],
    ['{"input":{"id":1234567890123456789,"id":1}}', 'input.id'],
    [`{${Array.from({ length: 5000 }, (_, at) => `"k${at}":${at}`).join(',')},"k7":0}`, 'k7'],
  ])('S20 %.60s has a key twice: %s', (text, param) => {
    expect(refusalOf(() => parseJson(text, 8))).toEqual(invalid(`the key ${param} twice`))
  })

  test.each([
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}],"c":"a"}',
    '{"a":"a:","b":"\\"a\\":","A":1}',
    '{"a":[{"x":1}],"b":{"x":{"x":1},"y":{"x":1}}}',
  ])('S20 %s has none twice', (text) => {
    expect(parseJson(text, 8)).toEqual(JSON.parse(text))
  })

  test('keeps long integers in arguments, results and schemas of tools, and reads numbers elsewhere', () => {
    const kept =
      '"seed":1234567890123456789,"input":{"id":1234567890123456789},"parameters":{"maximum":9223372036854775807}'
    const json = parseJson(`{"n":1234567890123456789,${kept}}`, 8)
    expect(JSON.stringify(json)).toBe(`{"n":1234567890123456800,${kept}}`)
    expect(json['n']).toBe(1234567890123456800)
  })

  test('S20 no body of 10 MB holds the loop, whatever it is made of', () => {
    const size = 10_000_000
    const bodies = {
      blanks: `{"a":1${' '.repeat(size)}}`,
      prompt: `{"a":"${'word "quoted" '.replaceAll('"', '\\"').repeat(size / 16)}"}`,
      backslashes: `{"a":"${'\\\\'.repeat(size / 2)}"}`,
      exponents: `{"a":${'0e'.repeat(size / 2)}}`,
      keys: `{"a":[${'{"role":"user","content":"x"},'.repeat(33_000)}0]}`,
      longKeys: `{"a":{${Array.from({ length: 9999 }, (_, at) => `"${String(at).padEnd(990, 'x')}":0`).join(',')}}}`,
      escaped: `{"a":{${Array.from({ length: 99_000 }, (_, at) => `"\\u0061${at % 90_000}":0`).join(',')}}}`,
      colons: `{"a"${':'.repeat(size)}}`,
      ends: `{"a":1}${'}'.repeat(size)}`,
      integers: `{"input":{"a":[${'1234567890123456789,'.repeat(190_000)}0]}}`,
    }
    for (const [name, text] of Object.entries(bodies)) {
      const began = performance.now()
      refusalOf(() => parseJson(text, 64, 200_000))
      // What the parser itself takes is most of it; a scan that looks at a byte often takes seconds.
      expect([name, performance.now() - began < 1500]).toEqual([name, true])
    }
  })

  test('is never read in another way than JSON.parse reads it, and never crashes the scan', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), (text) => {
        const wrapped = `{"value":${text}}`
        if (wrapped.includes('__proto__')) return
        expect(parseJson(wrapped, 64)).toEqual(JSON.parse(wrapped))
      }),
      { seed: 20, numRuns: 300 },
    )
  })
})

describe('a request', () => {
  const request = (body: BodyInit | null, headers: Record<string, string> = {}) =>
    new Request('http://gateway/v1/chat/completions', { method: 'POST', body, headers })
  const codeOf = (read: Promise<unknown>) =>
    read.then(
      () => undefined,
      (error: unknown) => (error instanceof GatewayError ? error.code : error),
    )

  test('whose body comes in pieces is counted as it comes', async () => {
    const pieces = (count: number) =>
      new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('{"a":"'))
          for (let i = 0; i < count; i++) controller.enqueue(new TextEncoder().encode('x'.repeat(100)))
          controller.enqueue(new TextEncoder().encode('"}'))
          controller.close()
        },
      })
    expect((await readJson(request(pieces(9)), { body: limits, scheduler })).bytes).toBe(908)
    expect(await codeOf(readJson(request(pieces(10)), { body: limits, scheduler }))).toBe('payload_too_large')
    expect(await codeOf(readJson(request(pieces(10_000)), { body: limits, scheduler }))).toBe(
      'payload_too_large',
    )
  })

  test('of more values than a conversation has is refused before each of them is checked', async () => {
    const roomy = { ...limits, maxBodyBytes: 10_000_000 }
    const values = (count: number) => `{"input":[${'0,'.repeat(count)}0]}`
    expect((await readJson(request(values(200_000)), { body: roomy, scheduler })).bytes).toBe(400_013)
    expect(await codeOf(readJson(request(values(200_001)), { body: roomy, scheduler }))).toBe(
      'invalid_request',
    )
    const tokens = readJson(request(values(1_000_000)), { body: roomy, scheduler }, Number.POSITIVE_INFINITY)
    expect((await tokens).bytes).toBe(2_000_013)
  })

  test('whose body breaks off is malformed, not a fault of ours', async () => {
    const broken = new ReadableStream({
      pull(controller) {
        controller.error(new Error('connection reset'))
      },
    })
    expect(await codeOf(readJson(request(broken), { body: limits, scheduler }))).toBe('invalid_request')
  })

  test.each([
    ['a byte that begins nothing', [0x7b, 0xff, 0x7d]],
    ['an overlong slash', [0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]],
    ['a surrogate', [0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x3a, 0x31, 0x7d]],
    ['half a letter', [0x7b, 0x22, 0xc3]],
  ])('in UTF-8 with %s is refused', async (_, bytes) => {
    expect(await codeOf(readJson(request(Uint8Array.from(bytes)), { body: limits, scheduler }))).toBe(
      'invalid_request',
    )
  })

  test.each([
    [{ 'content-length': '1001' }, 'payload_too_large'],
    [{ 'content-encoding': 'gzip' }, 'unsupported_media_type'],
    [{ 'content-type': 'text/html' }, 'unsupported_media_type'],
    [
      { 'content-length': '1000', 'content-encoding': 'identity', 'content-type': 'application/json' },
      undefined,
    ],
    [{}, undefined],
  ] as [Record<string, string>, string | undefined][])(
    'with %o is refused by its headers: %s',
    (headers, code) => {
      expect(refusalOf(() => refuseByHeaders(new Headers(headers), limits))?.code).toBe(code)
    },
  )
})

test.each(['messages', 'input', 'contents'])(
  'more than 10,000 %s are refused, and the list is named',
  async (field) => {
    const roomy = { body: { ...limits, maxBodyBytes: 10_000_000 }, scheduler }
    const listing = (length: number) =>
      new Request('http://gw/', {
        method: 'POST',
        body: JSON.stringify({ [field]: Array.from({ length }, () => ({})) }),
      })
    expect((await readJson(listing(10_000), roomy)).json[field]).toHaveLength(10_000)
    const refused = await readJson(listing(10_001), roomy).catch((error: GatewayError) => error)
    expect(refused).toMatchObject({ code: 'invalid_request', details: { param: field } })
  },
)

test('the chunks of a streamed answer that come back to Gemini’s protocol count as one', async () => {
  const roomy = { body: { ...limits, maxBodyBytes: 10_000_000 }, scheduler }
  const chunks = Array.from({ length: 12_000 }, () => ({ role: 'model' }))
  const body = (contents: object[]) =>
    new Request('http://gw/', { method: 'POST', body: JSON.stringify({ contents }) })
  expect((await readJson(body([{ role: 'user' }, ...chunks]), roomy)).json['contents']).toHaveLength(12_001)
  const turnsOfBoth = Array.from({ length: 10_002 }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'model' }))
  const refused = await readJson(body(turnsOfBoth), roomy).catch((error: GatewayError) => error)
  expect(refused).toMatchObject({ code: 'invalid_request', details: { param: 'contents' } })
})

test('a list of numbers where messages belong is refused for its length, not number by number', async () => {
  const roomy = { body: { ...limits, maxBodyBytes: 10_000_000 }, scheduler }
  const sent = (field: string) =>
    new Request('http://gw/', { method: 'POST', body: `{"${field}":[${'1,'.repeat(100_000)}1]}` })
  const refused = await readJson(sent('messages'), roomy).catch((error: GatewayError) => error)
  expect(refused).toMatchObject({ code: 'invalid_request', details: { param: 'messages' } })
  // The tokens of a text to be embedded.
  expect((await readJson(sent('input'), roomy)).json['input']).toHaveLength(100_001)
})

// How much is kept of answers for Idempotency-Keys.

test('an account keeps so much and no more, until the older half is over', () => {
  let now = 0
  const kept = new KeptBytes({ accountBytes: 100, keepMs: 1_000 }, () => now)
  expect(kept.take('anna', 60)).toBe(true)
  expect(kept.take('anna', 50)).toBe(false)
  expect(kept.take('bert', 100)).toBe(true)
  now = 600
  expect(kept.take('anna', 40)).toBe(true)
  expect(kept.take('anna', 1)).toBe(false)
  now = 1_100
  // The 60 are forgotten, the 40 are not.
  expect(kept.take('anna', 61)).toBe(false)
  expect(kept.take('anna', 60)).toBe(true)
  now = 3_000
  expect(kept.take('anna', 100)).toBe(true)
})

test('an answer that finds no room is charged once, and told to be lost', async () => {
  await using weir = await serveWeir({ config: 'idempotency: { account_bytes: 3000 }' })
  const body = { model: 'sim/echo', messages: [{ role: 'user', content: 'x'.repeat(2_000) }] }
  const ask = (key: string) => post(weir, body, { headers: { 'idempotency-key': key } })
  for (const key of ['first', 'second']) expect((await ask(key)).status).toBe(200)
  expect((await ask('first')).headers.get('idempotency-replayed')).toBe('true')
  expect((await ask('second')).error?.code).toBe('idempotency_answer_lost')
})
