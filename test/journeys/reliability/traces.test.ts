// What a collector of OpenTelemetry receives of a gateway whose environment names it: read from the bytes on the wire.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { formatUsd, usd } from '../../../src/credits/money.ts'
import { openTraces } from '../../../src/observe/traces.ts'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { logRowOf } from '../../store/calls/support.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import {
  completion,
  plain,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

interface SpanOnWire {
  readonly trace: string
  readonly id: string
  readonly parent: string
  readonly name: string
  readonly kind: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  readonly status: number
  readonly startMs: number
  readonly endMs: number
}

/** The fields of a message of protocol buffers: protobuf.dev/programming-guides/encoding. */
function fieldsOf(bytes: Buffer): { field: number; number: bigint; bytes: Buffer }[] {
  const found: { field: number; number: bigint; bytes: Buffer }[] = []
  let at = 0
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const [field, type] = [tag >> 3, tag & 7]
    const none = Buffer.alloc(0)
    if (type === 0) found.push({ field, number: varint(), bytes: none })
    else if (type === 1) found.push({ field, number: bytes.readBigUInt64LE((at += 8) - 8), bytes: none })
    else if (type === 5) found.push({ field, number: BigInt(bytes.readUInt32LE((at += 4) - 4)), bytes: none })
    else {
      const length = Number(varint())
      found.push({ field, number: 0n, bytes: bytes.subarray(at, (at += length)) })
    }
  }
  return found
}

const within = (bytes: Buffer, field: number) =>
  fieldsOf(bytes).flatMap((each) => (each.field === field ? [each.bytes] : []))

function attributesIn(bytes: Buffer, field: number): Record<string, string | number | boolean> {
  return Object.fromEntries(
    within(bytes, field).map((pair) => {
      const [value] = fieldsOf(within(pair, 2)[0]!)
      const said =
        value!.field === 1
          ? value!.bytes.toString()
          : value!.field === 2
            ? value!.number === 1n
            : value!.field === 3
              ? Number(value!.number)
              : Buffer.from(new BigUint64Array([value!.number]).buffer).readDoubleLE()
      return [within(pair, 1)[0]!.toString(), said]
    }),
  )
}

function spanOf(bytes: Buffer): SpanOnWire {
  const fields = fieldsOf(bytes)
  const one = (field: number) => fields.find((each) => each.field === field)
  const status = one(15)
  return {
    trace: one(1)!.bytes.toString('hex'),
    id: one(2)!.bytes.toString('hex'),
    parent: one(4)?.bytes.toString('hex') ?? '',
    name: one(5)!.bytes.toString(),
    kind: Number(one(6)!.number),
    attributes: attributesIn(bytes, 9),
    status:
      status === undefined
        ? 0
        : Number(fieldsOf(status.bytes).find(({ field }) => field === 3)?.number ?? 0n),
    startMs: Number(one(7)!.number / 1_000_000n),
    endMs: Number(one(8)!.number / 1_000_000n),
  }
}

const [internal, server, client] = [1, 2, 3]
const failed = 2

let collector: ReturnType<typeof Bun.serve>
let provider: ScriptedProvider
let lab: Lab
const received: SpanOnWire[] = []
const resources: Record<string, string | number | boolean>[] = []
const posted: { path: string; key: string | null }[] = []
let raw = ''

beforeAll(async () => {
  collector = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const sent = Buffer.from(await request.arrayBuffer())
      const bytes = request.headers.get('content-encoding') === 'gzip' ? gunzipSync(sent) : sent
      posted.push({ path: new URL(request.url).pathname, key: request.headers.get('x-key') })
      raw += bytes.toString('latin1')
      for (const group of within(bytes, 1)) {
        for (const resource of within(group, 1)) resources.push(attributesIn(resource, 1))
        for (const scope of within(group, 2)) received.push(...within(scope, 2).map(spanOf))
      }
      return new Response(new Uint8Array(), { headers: { 'content-type': 'application/x-protobuf' } })
    },
  })
  let asked = 0
  provider = await startScriptedProvider({
    well: async (wire) => {
      const [status, body] =
        asked++ === 0 ? [503, '{"error":{"message":"busy"}}'] : [200, completion('To the sea.', someUsage)]
      await wire.write(plain(status as number, 'application/json', body as string))
      wire.end()
    },
    refuses: async (wire) => {
      await wire.write(
        plain(400, 'application/json', '{"error":{"message":"no","code":"content_policy_violation"}}'),
      )
      wire.end()
    },
  })
  lab = await startLab(
    {
      providers: { near: provider.url },
      models: { 'near/well': ['near/well'], 'near/refuses': ['near/refuses'] },
      settings: { search: { backend: 'sim', price_per_call: '0.005' } },
    },
    {
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.origin,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-key=abc',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
        OTEL_BSP_SCHEDULE_DELAY: '20',
        // Asked again after 1 and 1.5 s, and not a third time.
        OTEL_EXPORTER_OTLP_TIMEOUT: '4000',
      },
    },
  )
})

afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
  await collector?.stop(true)
})

const arrived = (requestId: string, spans: number) =>
  until(
    () => {
      const root = received.find(({ attributes }) => attributes['weir.request_id'] === requestId)
      return Promise.resolve(root === undefined ? [] : received.filter(({ trace }) => trace === root.trace))
    },
    (found) => found.length >= spans,
  )

describe('a call', () => {
  test('is a span with its tokens and exact cost, below the span of its client; each attempt is one below it', async () => {
    const trace = '0af7651916cd43dd8448eb211c80319c'
    const response = await fetch(`${lab.weir.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${lab.weir.key}`,
        'content-type': 'application/json',
        traceparent: `00-${trace}-b7ad6b7169203331-01`,
        'x-weir-tags': 'feature=chat',
      },
      body: JSON.stringify({
        model: 'near/well',
        messages: [{ role: 'user', content: 'SECRET-QUESTION' }],
        user: 'ada',
      }),
    })
    expect(response.status).toBe(200)
    const requestId = response.headers.get('x-request-id')!
    const spans = await arrived(requestId, 3)
    const root = spans.find(({ parent }) => parent === 'b7ad6b7169203331')!
    const { total } = (await receiptOf(lab.weir, requestId))!
    expect(root).toMatchObject({ trace, name: 'chat near/well', kind: server, status: 0 })
    expect(root.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'near/well',
      'gen_ai.provider.name': 'near',
      'weir.provider': 'near',
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 4,
      'http.response.status_code': 200,
      'url.path': '/v1/chat/completions',
      'url.scheme': 'http',
      'weir.attempts': 2,
      'weir.cost_usd_exact': String(total),
      'weir.cost_usd': Number(total),
      'weir.ending': 'finished',
      'weir.tag.feature': 'chat',
      'weir.tag.user': 'ada',
      'user.id': 'ada',
    })
    const attempts = spans.filter(({ parent }) => parent === root.id)
    expect(attempts.map(({ name, kind, status }) => [name, kind, status])).toEqual([
      ['chat well', client, failed],
      ['chat well', client, 0],
    ])
    expect(attempts.map(({ attributes }) => attributes['http.response.status_code'])).toEqual([503, 200])
    const { hostname, port } = new URL(provider.url)
    for (const { attributes } of attempts)
      expect(attributes).toMatchObject({ 'server.address': hostname, 'server.port': Number(port) })
    for (const span of attempts) {
      expect(span.startMs).toBeGreaterThanOrEqual(root.startMs)
      expect(span.endMs).toBeGreaterThanOrEqual(span.startMs)
    }
    // The provider can go on with the trace.
    expect(provider.arrivals.map(({ headers }) => headers.get('traceparent'))).toEqual(
      attempts.map(({ id }) => `00-${trace}-${id}-01`),
    )
  })

  test('that fails says with which error; one that is refused before a provider is asked as well', async () => {
    const { requestId } = await lab.ask('near/refuses')
    const spans = await arrived(requestId, 2)
    const statusOf = (kind: number) => spans.find((span) => span.kind === kind)?.status
    // To refuse is no failure of a server, and to be refused is one of its client.
    expect([statusOf(server), statusOf(client)]).toEqual([0, failed])
    expect(spans.find(({ kind }) => kind === server)!.attributes['error.type']).toBe('content_filtered')
    const unknown = await lab.ask('near/unknown')
    const [refused, ...none] = await arrived(unknown.requestId, 1)
    expect(none).toEqual([])
    expect(refused).toMatchObject({ status: 0, attributes: { 'error.type': 'model_not_found' } })
    expect(refused!.attributes['http.response.status_code']).toBe(404)
    // Of what costs nothing there is no number, which would be of another type than all others.
    expect(refused!.attributes).not.toHaveProperty('weir.cost_usd')
    expect(refused!.attributes['weir.cost_usd_exact']).toBe('0')
  })

  test('of several rounds shows its tools between the providers', async () => {
    const { requestId } = await lab.ask('sim/tools', {
      messages: [{ role: 'user', content: 'How high is Mount Everest?' }],
      tools: [{ type: 'web_search' }],
    })
    const spans = await arrived(requestId, 4)
    const tool = spans.find(({ kind }) => kind === internal)!
    expect(tool).toMatchObject({
      name: 'execute_tool web_search',
      attributes: { 'gen_ai.tool.name': 'web_search', 'gen_ai.tool.type': 'extension' },
    })
    expect(tool.attributes['gen_ai.tool.call.id']).toBeString()
    expect(spans.filter(({ kind }) => kind === client)).toHaveLength(2)
  })
})

test('the collector learns who reports, with its own key, and of no prompt', () => {
  expect(posted.every(({ path, key }) => path === '/v1/traces' && key === 'abc')).toBe(true)
  expect(resources[0]).toMatchObject({
    'service.name': 'weir',
    'service.instance.id': expect.any(String),
    'telemetry.sdk.name': 'opentelemetry',
    'telemetry.sdk.language': expect.any(String),
    'deployment.environment.name': 'test',
  })
  expect(raw).not.toContain('SECRET-QUESTION')
  expect(raw).not.toContain(lab.weir.key)
})

test('with log.prompts the span of a call has what the request log has of its words', async () => {
  const quiet = () => undefined
  // The library reads where to send from the environment itself.
  const variable = 'OTEL_EXPORTER_OTLP_ENDPOINT'
  process.env[variable] = collector.url.origin
  const parts = { version: '1', log: { warn: quiet, info: quiet }, usd: formatUsd }
  const traces = await openTraces({ [variable]: collector.url.origin }, parts).finally(
    () => delete process.env[variable],
  )
  const request = new Request('http://127.0.0.1/v1/chat/completions', { method: 'POST' })
  const contents = '{"prompt":"the secret of the miller"}'
  // The clock is set right long after the process has begun.
  const { timeOrigin } = performance
  Object.defineProperty(performance, 'timeOrigin', { value: timeOrigin - 60_000, configurable: true })
  for (const [id, words, cost] of [
    ['told', contents, usd('0.5')],
    ['quiet', null, usd(3)],
  ] as const) {
    traces!.onRequest(id, request, 'sim/echo', performance.now())
    traces!.spanOf(id, 'provider', 'echo', { 'gen_ai.provider.name': 'x_ai', 'weir.provider': 'xai' })?.end()
    const row = logRowOf(id, { contents: words, provider: 'xai', cost })
    traces!.onCallEnded({ ...row, lastFour: null })
  }
  Object.defineProperty(performance, 'timeOrigin', { value: timeOrigin, configurable: true })
  await traces!.close()
  const spans = received.filter(({ name }) => name === 'chat sim/echo')
  for (const { startMs, endMs } of spans) expect(endMs - startMs).toBeWithin(0, 10_000)
  const said = spans.map(({ attributes }) => attributes)
  for (const attributes of said)
    expect(attributes).toMatchObject({ 'gen_ai.provider.name': 'x_ai', 'weir.provider': 'xai' })
  // A whole number is sent as what it is otherwise.
  expect(said.map((attributes) => attributes['weir.cost_usd'])).toEqual([0.5, 3.000_000_000_000_001])
  expect(said.map((attributes) => [attributes['weir.request_id'], attributes['weir.contents']])).toEqual([
    ['told', contents],
    ['quiet', undefined],
  ])
})

test('a call is served as ever while the collector is gone, and the log says so once', async () => {
  await collector.stop(true)
  for (const _ of [1, 2, 3]) expect((await lab.ask('near/well')).status).toBe(200)
  const lines = () => lab.weir.output().match(/traces cannot be sent/g)?.length ?? 0
  await until(
    () => Promise.resolve(lines()),
    (count) => count > 0,
  )
  expect((await lab.ask('near/well')).status).toBe(200)
  expect(lines()).toBe(1)
})
