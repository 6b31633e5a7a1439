// Reading a body from an untrusted server: never more bytes than allowed, compressed or not.

/** The body is larger than the caller allows. */
export class TooLargeError extends Error {
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`)
    this.name = 'TooLargeError'
  }
}

/** What can be undone, by the name in Content-Encoding. A body is compressed once, or it is refused. */
const encodings: Readonly<Record<string, 'gzip' | 'deflate'>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
}

/**
 * The whole body, decompressed. Throws TooLargeError as soon as it outgrows `maxBytes`: the length is announced,
 * or has been read, or a small body has unpacked to more. The rest of the body is given up either way.
 */
export async function boundedBytes(
  response: Response,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { body } = response
  if (body === null) return new Uint8Array()
  const announced = Number(response.headers.get('content-length') ?? 0)
  if (announced > maxBytes) {
    await body.cancel().catch(() => undefined)
    throw new TooLargeError(maxBytes)
  }
  return readUpTo(unpacked(body, response.headers.get('content-encoding')), maxBytes, signal)
}

/**
 * The decompressed body as it arrives. Fails with TooLargeError beyond `maxBytes`; undefined if there is none. Throws
 * if its encoding is not supported.
 */
export function boundedStream(response: Response, maxBytes: number): Bytes | undefined {
  const { body } = response
  if (body === null) return undefined
  let size = 0
  return unpacked(body, response.headers.get('content-encoding')).pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(bytes, controller) {
        size += bytes.byteLength
        if (size > maxBytes) throw new TooLargeError(maxBytes)
        controller.enqueue(bytes)
      },
    }),
  )
}

type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>

function unpacked(body: Bytes, encoding: string | null): Bytes {
  const name = (encoding ?? 'identity').trim().toLowerCase()
  if (name === 'identity' || name === '') return body
  const format = encodings[name]
  if (format === undefined) {
    void body.cancel().catch(() => undefined)
    throw new Error('the content encoding is unknown, or there are several')
  }
  return body.pipeThrough(new DecompressionStream(format))
}

async function readUpTo(body: Bytes, maxBytes: number, signal: AbortSignal): Promise<Uint8Array> {
  const reader = body.getReader()
  const pieces: Uint8Array[] = []
  let size = 0
  const stop = () => void reader.cancel(signal.reason).catch(() => undefined)
  signal.addEventListener('abort', stop, { once: true })
  try {
    for (;;) {
      const { done, value } = await reader.read()
      signal.throwIfAborted()
      if (done) return Buffer.concat(pieces, size)
      size += value.byteLength
      if (size > maxBytes) throw new TooLargeError(maxBytes)
      pieces.push(value)
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined)
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
