// What a worker does not serve is asked of the ledger's process, and answered as it answers.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { clientAddressHeader, forward } from '../../../src/serve/workers/worker.ts'
import { tempDir } from '../../support/tmp.ts'

const home = tempDir('weir-forward-')
const left = Promise.withResolvers<void>()
let server: ReturnType<typeof Bun.serve>

beforeAll(() => {
  server = Bun.serve({
    unix: home.join('s.sock'),
    async fetch(request) {
      const { pathname } = new URL(request.url)
      if (pathname === '/packed')
        return new Response(Bun.gzipSync('packed'), { headers: { 'content-encoding': 'gzip', etag: '"1"' } })
      if (pathname === '/moved') return new Response(null, { status: 302, headers: { location: '/console' } })
      if (pathname === '/events')
        return new Response('data: 1\n\n', { headers: { 'content-type': 'text/event-stream' } })
      if (pathname === '/refused') return new Response(null, { status: 401 })
      if (pathname === '/endless')
        return new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new TextEncoder().encode('begun')),
            cancel: () => left.resolve(),
          }),
        )
      const body = Buffer.from(await request.bytes()).toString('hex')
      return Response.json({ method: request.method, url: request.url, headers: request.headers, body })
    },
  })
})
afterAll(async () => {
  await server.stop(true)
  home.remove()
})

const idle: number[] = []
const parts = {
  socket: home.join('s.sock'),
  peerOf: () => '192.0.2.7',
  allowIdle: (_: Request, seconds: number) => void idle.push(seconds),
  idleSeconds: 10,
  maxBodyBytes: 1_000,
}
const send = (path: string, init?: RequestInit) =>
  forward(parts, new Request(`http://gateway.example:8787${path}`, init))

describe('a request that is passed on', () => {
  test('arrives with its method, address, headers and bytes, and with the address of its client, whatever that says', async () => {
    const body = new Uint8Array([0, 255, 10, 13])
    const headers = {
      authorization: 'Bearer x',
      [clientAddressHeader]: '10.0.0.1',
      host: 'gateway.example:8787',
    }
    const answer = await send('/admin/v1/keys?a=%2F', { method: 'PATCH', body, headers })
    expect(answer.status).toBe(200)
    const seen = (await answer.json()) as Record<'method' | 'url' | 'body', string> & {
      headers: Record<string, string>
    }
    expect(seen.method).toBe('PATCH')
    expect(seen.url).toBe('http://gateway.example:8787/admin/v1/keys?a=%2F')
    expect(seen.body).toBe('00ff0a0d')
    expect(seen.headers).toMatchObject({ authorization: 'Bearer x', [clientAddressHeader]: '192.0.2.7' })
    // The connection may be idle while the other process works, and not while the client reads.
    expect(idle).toEqual([0, 10])
  })

  test('is answered in the encoding, and with the status and the headers, that it was answered with', async () => {
    const packed = await send('/packed')
    expect([packed.headers.get('content-encoding'), packed.headers.get('etag')]).toEqual(['gzip', '"1"'])
    expect(Buffer.from(Bun.gunzipSync(await packed.bytes())).toString()).toBe('packed')
    const moved = await send('/moved')
    expect([moved.status, moved.headers.get('location')]).toEqual([302, '/console'])
  })

  test('keeps its connection open until its events end, and no longer', async () => {
    idle.length = 0
    const events = await send('/events')
    expect(idle).toEqual([0])
    expect(await events.text()).toBe('data: 1\n\n')
    expect(idle).toEqual([0, 10])
  })

  test('is given up when its client disconnects', async () => {
    const client = new AbortController()
    const answer = await send('/endless', { signal: client.signal })
    const reader = answer.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('begun')
    client.abort()
    await left.promise
  })

  test('is not read ahead: what nobody reads stays with its client', async () => {
    idle.length = 0
    let sent = 0
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent >= 50_000_000) return controller.close()
        sent += 65_536
        controller.enqueue(new Uint8Array(65_536))
      },
    })
    const request = new Request('http://gateway.example/refused', { method: 'POST', body })
    const answer = await forward({ ...parts, maxBodyBytes: 100_000_000 }, request)
    expect(answer.status).toBe(401)
    expect(sent).toBeLessThan(10_000_000)
    // Its connection has not been allowed to be idle for longer than others.
    expect(idle).toEqual([10])
  })

  test('is refused when it is too large, before anybody else has to read it', async () => {
    const sent = send('/x', { method: 'POST', body: new Uint8Array(1_001) })
    await expect(sent).rejects.toMatchObject({ code: 'payload_too_large' })
  })

  test('is refused for now when nobody is there', async () => {
    const sent = forward({ ...parts, socket: home.join('none.sock') }, new Request('http://gateway.example/'))
    await expect(sent).rejects.toMatchObject({ code: 'store_unavailable', details: { retryAfterMs: 1000 } })
  })
})
