// G18: requests of every kind, by hand over a socket: methods, targets, hosts and headers that no client would send. The
// sender is at fault, so no answer is a 500, none shows the inside, and the gateway goes on.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { expectAudited, post } from '../../support/call-gateway.ts'
import { rawRequest, sendRaw } from '../../support/raw-http.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

let weir: RunningWeir

beforeAll(async () => {
  weir = await startWeir({ config: 'local_servers: { discover: false }\n' })
}, 30_000)

afterAll(() => weir?.stop())

/** What stands between blanks and line ends. */
const words = (text: string) => text.split(/\s+/)
const methods = [...words(`GET POST PUT PATCH DELETE HEAD OPTIONS TRACE CONNECT QUERY get`), '']
const paths = words(`/ /v1/models /v1/models/sim/echo /v1/chat/completions /v1/responses/resp_1
/v1/messages /v1/generation?id= /v1/key /v1/credits /v1/requests /v1/providers
/app/v1/credits /docs /docs/errors /healthz /readyz`)
const oddities = [
  ...words(`% %00 %ff %zz %2e%2e .. // ? # ; @ : [ ] { * é %E0%A4%A = & __proto__`),
  'a'.repeat(3000),
  '\\',
  '\t',
  '\u00ff',
]
const hosts = [
  ...words(`127.0.0.1 localhost [::1] [:::] 1.2.3.999 0x7f.1 xn--a a..b [ ] a: a:0 a:65536 . - %41
[v1.a] [::ffff:1.2.3.4] 4294967296 a_b ß`),
  '',
  ' ',
  '\u3002',
]
const names = words(`Content-Length Content-Type Accept Accept-Encoding Authorization x-api-key Cookie
Origin Range If-None-Match Expect Upgrade Connection Transfer-Encoding Idempotency-Key
anthropic-beta x-request-id Forwarded Access-Control-Request-Method`)
const values = [
  ...words(`0 -1 1e3 chunked close upgrade websocket gzip gzip;q=x bytes=0- 100-continue null
https://a * application/json text/html multipart/form-data __proto__`),
  'a'.repeat(2000),
  '',
  'Bearer ',
  'Bearer x',
  '"',
  '\u00ff',
  'a, b',
]

const odd = <Value>(plain: readonly Value[], strange: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...plain) }, { weight: 1, arbitrary: strange })
const latin = fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll(/[\r\n]/g, ''))
const target = fc.oneof(
  fc.constantFrom(...paths),
  fc
    .tuple(fc.constantFrom(...paths), fc.constantFrom(...oddities), fc.constantFrom('', ...oddities))
    .map((all) => all.join('')),
  fc.constantFrom(
    '*',
    'a',
    'http://',
    'http://a/v1/key',
    'http://[::1',
    'https://a:99999/',
    'ftp://a/',
    'a:443',
    '//evil/v1/key',
  ),
  latin,
)
const request = fc.record({
  method: odd(methods, latin),
  target,
  version: odd(['HTTP/1.1', 'HTTP/1.0'], fc.constantFrom('HTTP/2.0', 'HTTP/1.9', 'HTTP/', '')),
  hosts: fc.oneof(fc.constant<string[]>(['a']), fc.array(odd(hosts, latin), { maxLength: 2 })),
  headers: fc.array(fc.tuple(odd(names, latin), odd(values, latin)), { maxLength: 4 }),
  keyed: fc.boolean(),
})

test('G18 no request is answered with a 500, or with what is inside', async () => {
  const requests = fc.sample(request, { numRuns: 6_000, seed: 20_260_722 })
  const statuses = new Map<number, number>()
  async function next(): Promise<void> {
    for (let one = requests.pop(); one; one = requests.pop()) {
      const { method, target: path, version, hosts: named, headers, keyed } = one
      const lines = [
        ...named.map((host): [string, string] => ['Host', host]),
        ...headers,
        ...(keyed ? [['Authorization', `Bearer ${weir.key}`] as [string, string]] : []),
        ['Connection', 'close'] as [string, string],
      ]
      const text = rawRequest(`${method} ${path} ${version}`, lines)
      const answer = await sendRaw(weir.port, Buffer.from(text, 'latin1'), 500)
      // 505 is the runtime's word for a start line whose version cannot be read.
      const failed = answer.status >= 500 && answer.status !== 505
      expect({ failed, text: failed ? text : '' }).toEqual({ failed: false, text: '' })
      expect(answer.raw).not.toMatch(/\n\s+at |\.ts:\d|\/tmp\/|bun:/)
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 64 }, next))
  // The run is one of answers, not of connections that were hung up on.
  for (const status of [200, 400, 401, 404]) expect(statuses.get(status)).toBeGreaterThan(20)
  expect(weir.output()).not.toContain('failed inside the gateway')
  expect((await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }] })).status).toBe(
    200,
  )
  await expectAudited(weir)
}, 60_000)
