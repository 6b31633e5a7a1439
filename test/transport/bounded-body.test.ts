// Answers of other servers, read within bounds however they are compressed.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { boundedBytes, ByteBudget, fetchBounded, unpackAnswer } from '../../src/transport/bounded-body.ts'

let server: ReturnType<typeof Bun.serve>
let answer: () => Response
const quickly = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }
const packed = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: (bytes: Uint8Array | string) => brotliCompressSync(bytes, quickly),
  zstd: zstdCompressSync,
} as const
type Encoding = keyof typeof packed
const encodings = Object.keys(packed) as Encoding[]

function sends(encoding: Encoding, bytes: Uint8Array | string): void {
  const body = new Uint8Array(packed[encoding](bytes))
  answer = () => new Response(body, { headers: { 'content-encoding': encoding } })
}

beforeAll(() => {
  server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => answer() })
})
afterAll(() => server.stop(true))

const raw = () => fetch(server.url, { decompress: false })

/** Reads until the end or the fault, and counts. */
async function sizeOf(response: Response): Promise<{ size: number; fault?: string }> {
  let size = 0
  try {
    for await (const bytes of response.body ?? []) size += bytes.length
    return { size }
  } catch (error) {
    return { size, fault: (error as Error).name }
  }
}

describe.each(encodings)('an answer in %s', (encoding) => {
  test('is unpacked, and says no more how it was packed', async () => {
    sends(encoding, 'a river')
    for (const response of [unpackAnswer(await raw()), await fetchBounded(server.url.href, {}, 100)]) {
      expect(await response.text()).toBe('a river')
      expect(['content-encoding', 'content-length'].map((name) => response.headers.get(name))).toEqual([
        null,
        null,
      ])
    }
  })

  test('is cut at its bound, and not unpacked beyond', async () => {
    sends(encoding, Buffer.alloc(200_000_000, 'x'))
    const before = process.memoryUsage.rss()
    const { size, fault } = await sizeOf(await fetchBounded(server.url.href, {}, 1_000_000))
    expect({ fault, isBounded: size <= 1_000_000 }).toEqual({ fault: 'TooLargeError', isBounded: true })
    const reader = unpackAnswer(await raw()).body!.getReader()
    expect((await reader.read()).value!.length).toBeLessThan(4_000_000)
    await reader.cancel()
    expect(process.memoryUsage.rss() - before).toBeLessThan(64_000_000)
  })

  test('that is damaged is the fault of its sender, which has a code as those of sockets', async () => {
    answer = () => new Response('nothing of the kind', { headers: { 'content-encoding': encoding } })
    const error = await unpackAnswer(await raw())
      .text()
      .catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Error)
    expect(error).toHaveProperty('code')
  })
})

test('an answer in an unknown encoding stays as it came', async () => {
  answer = () => new Response('as it came', { headers: { 'content-encoding': 'x-private' } })
  const response = await raw()
  expect(unpackAnswer(response)).toBe(response)
})

test('a body announced as larger than its bound is not read', async () => {
  answer = () => new Response('x'.repeat(1_001))
  await expect(fetchBounded(server.url.href, {}, 1_000)).rejects.toThrow('larger than 1000 bytes')
})

test('several bodies have one budget: what one takes, the others lack', async () => {
  answer = () => new Response('x'.repeat(600))
  const budget = new ByteBudget(1_000)
  const read = async () => boundedBytes(await raw(), 1_000, new AbortController().signal, budget)
  expect((await read()).length).toBe(600)
  await expect(read()).rejects.toThrow('together are larger than 1000 bytes')
})
