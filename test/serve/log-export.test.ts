// The request log elsewhere: every row arrives, whatever breaks, under names by which the same rows are the same object.

import { afterEach, describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import type { UpkeepNote } from '../../src/notify/alarms.ts'
import type { LoggedRequest } from '../../src/observe/call-log.ts'
import { type Batch, LogExport, type SendBatch, senderOf } from '../../src/serve/gateway/log-export.ts'
import { logExportSettings } from '../../src/config/schema.ts'
import { openStore } from '../../src/store/open.ts'
import { noon } from '../credits/support.ts'
import { logRowOf } from '../store/calls/support.ts'
import { tempDir } from '../support/tmp.ts'
import { post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { until } from '../chat/lab.ts'

const idsIn = (body: Uint8Array) =>
  gunzipSync(body)
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { request_id: string }).request_id)

/** A log of rows and the notes about it, which outlive the process that sends them. */
function lab({ contents = false } = {}) {
  const rows: LoggedRequest[] = []
  const kept = new Map<string, UpkeepNote>()
  const said: string[] = []
  const objects = new Map<string, string[]>()
  const state = { now: noon, refuses: false, dies: false, reads: 0 }
  const send: SendBatch = ({ name, body }: Batch) => {
    if (state.refuses) return Promise.reject(new Error('the answer was 503'))
    objects.set(name, idsIn(body))
    return state.dies ? Promise.reject(new Error('no connection')) : Promise.resolve()
  }
  const start = () =>
    new LogExport({
      rows: {
        lastSeq: () => rows.at(-1)?.seq ?? 0,
        pageAfter(seq, limit, last = Infinity) {
          state.reads = Math.max(state.reads, limit)
          return rows.filter((row) => row.seq > seq && row.seq <= last).slice(0, limit)
        },
      },
      upkeep: { findNote: (name) => kept.get(name), keepNote: (note) => void kept.set(note.name, note) },
      send: () => send,
      batchRows: () => 3,
      everyMs: () => 1_000,
      takesContents: () => contents,
      log: { info: (text) => void said.push(text), warn: (text) => void said.push(text) },
      now: () => state.now,
    })
  const add = (from: number, to: number, more = {}) => {
    for (let seq = from; seq <= to; seq++)
      rows.push({ ...logRowOf(`r${seq}`, { at: noon + seq, ...more }), seq })
  }
  return { rows, kept, said, objects, state, start, add }
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => `r${from + at}`)

describe('rows', () => {
  test('go in batches, in their order, once; what comes later goes later', async () => {
    const { objects, state, start, add } = lab()
    const sending = start()
    add(1, 7)
    await sending.look()
    expect([...objects.values()]).toEqual([range(1, 3), range(4, 6), range(7, 7)])
    expect([...objects.keys()][0]).toBe(`${stampOf(noon + 1)}-1-3.jsonl.gz`)
    add(8, 8)
    await sending.look()
    expect(objects.size).toBe(3)
    state.now += 1_000
    await sending.look()
    expect([...objects.values()].flat()).toEqual(range(1, 8))
    expect(await sending.state()).toMatchObject({ waiting: 0, rows: 8, failures: 0, error: null })
  })

  test('whose answer was lost are sent again as the same object, although others have come since', async () => {
    const { objects, state, start, add } = lab()
    add(1, 2)
    state.dies = true
    await start().look()
    expect([...objects.values()]).toEqual([range(1, 2)])
    state.dies = false
    add(3, 9)
    // Another process, which knows what was noted alone.
    await start().look()
    expect([...objects.values()]).toEqual([range(1, 2), range(3, 5), range(6, 8), range(9, 9)])
  })

  test('wait while nobody takes them, longer each time, and the log says so once', async () => {
    const { objects, said, state, start, add } = lab()
    const sending = start()
    add(1, 1)
    state.refuses = true
    const tries: number[] = []
    for (let second = 0; second < 40; second++) {
      const before = (await sending.state())!.failures
      await sending.look()
      if ((await sending.state())!.failures > before) tries.push(second)
      state.now += 1_000
    }
    expect(tries).toEqual([0, 1, 3, 7, 15, 31])
    expect(said).toEqual(['the request log cannot be sent; it is tried again'])
    expect(await sending.state()).toMatchObject({ waiting: 1, error: 'the answer was 503' })
    state.refuses = false
    state.now += 60_000
    await sending.look()
    expect([...objects.values()]).toEqual([range(1, 1)])
    expect(said.at(-1)).toBe('the request log is sent again')
    expect(await sending.state()).toMatchObject({ waiting: 0, error: null })
  })

  test('of a log that was emptied, and counts from one again, are sent too', async () => {
    const { rows, objects, state, start, add } = lab()
    const sending = start()
    add(1, 4)
    await sending.look()
    rows.length = 0
    state.now += 1_000
    await sending.look()
    add(1, 2, { at: noon + 90_000 })
    state.now += 1_000
    await sending.look()
    expect([...objects.values()]).toEqual([range(1, 3), range(4, 4), range(1, 2)])
  })

  test('that were deleted before they were sent are passed over', async () => {
    const { rows, objects, state, start, add } = lab()
    add(1, 3)
    state.refuses = true
    await start().look()
    rows.length = 0
    state.refuses = false
    add(4, 5)
    await start().look()
    expect([...objects.values()]).toEqual([range(4, 5)])
  })

  test('are without words, unless the log has them', async () => {
    for (const contents of [false, true]) {
      const bodies: string[] = []
      const words = lab({ contents })
      words.add(1, 1, { contents: '{"prompt":"the words"}', tags: '{"team":"a"}', cost: 7_500_000n })
      const sending = new LogExport({
        rows: { lastSeq: () => 1, pageAfter: (seq) => words.rows.filter((row) => row.seq > seq) },
        upkeep: { findNote: () => undefined, keepNote: () => undefined },
        send: () => (batch) => Promise.resolve(void bodies.push(gunzipSync(batch.body).toString())),
        batchRows: () => 10,
        everyMs: () => 1,
        takesContents: () => contents,
        log: { info: () => undefined, warn: () => undefined },
        now: () => noon,
      })
      await sending.look()
      expect(JSON.parse(bodies[0]!)).toMatchObject({
        request_id: 'r1',
        tags: { team: 'a' },
        cost_usd: '0.0000075',
      })
      expect(bodies[0]!.includes('the words')).toBe(contents)
    }
  })

  test('of a database: each once, also by a process that was started anew', async () => {
    using dir = tempDir('weir-log-export-')
    const sent: string[] = []
    const once = async (ids: readonly string[]) => {
      const store = await openStore(dir.join('data'), { clock: () => noon })
      for (const id of ids) store.requestLog.append(logRowOf(id))
      await until(
        () => store.requests.find(ids.at(-1)!),
        (found) => found !== undefined,
      )
      const sending = new LogExport({
        rows: store.requests,
        upkeep: store.upkeep,
        send: () => (batch) => Promise.resolve(void sent.push(...idsIn(batch.body))),
        batchRows: () => 2,
        everyMs: () => 1,
        takesContents: () => false,
        log: { info: () => undefined, warn: () => undefined },
        now: () => noon,
      })
      await sending.look()
      await store.close()
    }
    await once(['a', 'b', 'c'])
    await once(['d'])
    expect(sent).toEqual(['a', 'b', 'c', 'd'])
  })
})

function stampOf(at: number): string {
  return new Date(at).toISOString().replace(/[-:]|\.\d+/g, '')
}

// Stores and webhooks that check what they are sent, as docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth
// and standardwebhooks.com say.

const servers: ReturnType<typeof Bun.serve>[] = []
afterEach(() => {
  for (const server of servers.splice(0)) void server.stop(true)
})

function serve(handle: (request: Request, body: Buffer) => Response): URL {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => handle(request, Buffer.from(await request.arrayBuffer())),
  })
  servers.push(server)
  return server.url
}

const sha = (data: string | Buffer) => createHash('sha256').update(data).digest('hex')
const mac = (key: string | Buffer, data: string) => createHmac('sha256', key).update(data).digest()

/** Why a store would refuse a request; null if it is signed with this secret. */
function signatureFault(request: Request, body: Buffer, secret: string): string | null {
  const { pathname, searchParams } = new URL(request.url)
  const [, key, day, region, signed, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, SignedHeaders=([^,]+), Signature=(\w+)$/.exec(
      request.headers.get('authorization') ?? '',
    ) ?? []
  if (key !== 'AKIA' || searchParams.size > 0) return 'InvalidAccessKeyId'
  if (request.headers.get('x-amz-content-sha256') !== sha(body)) return 'XAmzContentSHA256Mismatch'
  const names = signed!.split(';')
  if (!names.includes('host') || !names.includes('x-amz-content-sha256')) return 'AccessDenied'
  const headers = names.map((name) => `${name}:${request.headers.get(name)?.trim()}\n`).join('')
  const canonical = [request.method, pathname, '', headers, signed, sha(body)].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', request.headers.get('x-amz-date'), scope, sha(canonical)].join('\n')
  const signing = ['s3', 'aws4_request'].reduce(mac, mac(mac(`AWS4${secret}`, day!), region!))
  return mac(signing, text).toString('hex') === signature ? null : 'SignatureDoesNotMatch'
}

const batch: Batch = {
  name: '20261128T120000Z-1-2.jsonl.gz',
  at: Date.UTC(2026, 10, 28, 12),
  body: new Uint8Array(Bun.gzipSync('{"request_id":"r1"}\n')),
}
const signal = new AbortController().signal

describe('a store of objects', () => {
  const settingsFor = (endpoint: URL, secret_key: string) =>
    logExportSettings.parse({
      s3: {
        endpoint: endpoint.href.replace(/\/$/, ''),
        bucket: 'weir-logs',
        region: 'eu-central-1',
        access_key: 'AKIA',
        secret_key,
        prefix: 'gateway-1/',
      },
    })

  test('takes an object that is signed, and the reason of one that refuses it is told', async () => {
    const objects = new Map<string, Buffer>()
    const endpoint = serve((request, body) => {
      const fault = signatureFault(request, body, 'right')
      if (fault !== null) return new Response(`<Error><Code>${fault}</Code></Error>`, { status: 403 })
      objects.set(decodeURIComponent(new URL(request.url).pathname), body)
      return new Response()
    })
    await senderOf(settingsFor(endpoint, 'right'), Date.now)!(batch, signal)
    expect([...objects.keys()]).toEqual(['/weir-logs/gateway-1/2026/11/28/20261128T120000Z-1-2.jsonl.gz'])
    expect(idsIn([...objects.values()][0]!)).toEqual(['r1'])
    const refused = senderOf(settingsFor(endpoint, 'wrong'), Date.now)!(batch, signal)
    expect(refused).rejects.toThrow('the answer was 403: <Error><Code>SignatureDoesNotMatch</Code></Error>')
    await refused.catch(() => undefined)
  })
})

describe('a webhook', () => {
  test('gets the bytes signed, with an id that says which they are', async () => {
    const key = Buffer.from('0123456789abcdef0123456789abcdef')
    const settings = (url: string) =>
      logExportSettings.parse({ webhook: { url, secret: `whsec_${key.toString('base64')}` } })
    const seen: string[] = []
    const url = serve((request, body) => {
      const [id, seconds] = [request.headers.get('webhook-id'), request.headers.get('webhook-timestamp')]
      const signed = createHmac('sha256', key).update(`${id}.${seconds}.`).update(body).digest('base64')
      seen.push(id!, ...idsIn(body))
      return new Response(null, {
        status: request.headers.get('webhook-signature') === `v1,${signed}` ? 204 : 401,
      })
    })
    await senderOf(settings(url.href), Date.now)!(batch, signal)
    expect(seen).toEqual(['log_20261128T120000Z-1-2', 'r1'])
  })

  test('that leads elsewhere is not followed', async () => {
    const elsewhere = serve(() => new Response())
    const url = serve(() => Response.redirect(elsewhere.href, 307))
    const sent = senderOf(logExportSettings.parse({ webhook: { url: url.href } }), Date.now)!(batch, signal)
    expect(sent).rejects.toThrow('the answer was 307')
    await sent.catch(() => undefined)
  })
})

test('a gateway sends the calls that it serves, and says how that goes', async () => {
  const ids: string[] = []
  const url = serve((_, body) => {
    ids.push(...idsIn(body))
    return new Response()
  })
  const config = `log: { export: { every_ms: 100, webhook: { url: '${url.href}', secret: hook-secret } } }`
  await using weir = await serveWeir({ config })
  const { requestId } = await post(weir, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
  })
  await until(
    () => ids,
    (found) => found.includes(requestId),
  )
  const made = await weir.command('keys', 'create', '--account', 'owner@localhost', '--management')
  const authorization = `Bearer ${made.stdout.trim()}`
  const figures = await until(
    async () => (await fetch(`${weir.origin}/metrics`, { headers: { authorization } })).text(),
    (text) => text.includes('weir_log_export_waiting 0\n'),
  )
  expect(figures).toContain(`weir_log_export_rows_total ${ids.length}\n`)
  expect(figures).toContain('weir_log_export_failures_total 0\n')
  const status = JSON.parse((await weir.command('status', '--json')).stdout) as { log_export: object }
  expect(status.log_export).toEqual({ rows_waiting: 0, sent_at: expect.any(String), error: null })
  expect(weir.output()).not.toContain('hook-secret')
})
