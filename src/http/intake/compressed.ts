// Compresses answers that are the same for many readers, for clients that accept it.

import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { FreeAnswer } from './free-reads.ts'

async function zip(body: string): Promise<Uint8Array<ArrayBuffer>> {
  const { gzip } = await import('node:zlib')
  return new Uint8Array(await promisify(gzip)(body))
}

/** Compressed bodies by entity tag. A whole catalog takes 50 kB, and few filters are in use at a time. */
const zipped = new LRUCache<string, Promise<Uint8Array<ArrayBuffer>>>({ max: 32 })

/** Shorter bodies fit into one packet uncompressed. */
const leastBytes = 1_000

/** Whether the client accepts gzip, with a weight above zero. */
export function takesGzip(headers: Headers): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(headers.get('accept-encoding') ?? '')
}

/**
 * The body as an answer, and how many bytes it has, compressed if the client accepts it and it is worth it. `etag` identifies the body: each is
 * compressed once, off this thread.
 */
export async function compressible(
  request: Request,
  body: string,
  etag: string,
  headers: Readonly<Record<string, string>>,
): Promise<FreeAnswer> {
  const given = { ...headers, etag, vary: 'accept-encoding' }
  if (body.length < leastBytes || !takesGzip(request.headers))
    return { response: new Response(body, { headers: given }), bytes: body.length }
  const known = zipped.get(etag) ?? zip(body)
  zipped.set(etag, known)
  const sent = await known
  const response = new Response(sent, { headers: { ...given, 'content-encoding': 'gzip' } })
  return { response, bytes: sent.length }
}
