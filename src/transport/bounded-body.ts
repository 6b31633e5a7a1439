// Reading a body from another server: never more bytes than allowed, compressed or not. The runtime would unpack ahead of
// whoever reads, and a few hundred bytes can unpack to gigabytes: so it unpacks nothing, and we do while we read.

/** The body is larger than the caller allows. */
export class TooLargeError extends Error {
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`)
    this.name = 'TooLargeError'
  }
}

/** What several bodies may measure together. */
export class ByteBudget {
  readonly #most: number
  #left: number

  constructor(most: number) {
    this.#most = most
    this.#left = most
  }

  /** Throws BudgetSpentError if there are not as many left. */
  take(bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw new BudgetSpentError(this.#most)
  }
}

/** This body and those before it are together larger than the caller allows. */
export class BudgetSpentError extends Error {
  constructor(most: number) {
    super(`all bodies together are larger than ${most} bytes`)
    this.name = 'BudgetSpentError'
  }
}

/** Takes what is read from no budget. */
const unlimited = { take: () => undefined }

type Format = CompressionFormat | 'brotli' | 'zstd'

/** What can be undone, by the name in Content-Encoding. A body is compressed once, or it is refused. */
const encodings: Readonly<Record<string, Format>> = {
  gzip: 'gzip',
  'x-gzip': 'gzip',
  deflate: 'deflate',
  br: 'brotli',
  zstd: 'zstd',
}

/** The body cannot be unpacked. Its code marks it as a fault of the connection's other end, as those of sockets have one. */
class DamagedBodyError extends Error {
  readonly code = 'ERR_DAMAGED_BODY'

  constructor(cause: unknown) {
    super('the body cannot be unpacked', { cause })
    this.name = 'DamagedBodyError'
  }
}

/**
 * `fetch` for answers of at most `maxBytes`, unpacked: their body fails with TooLargeError beyond. Everything that is not
 * streamed to a client, and does not go through egress, is asked for here.
 */
export async function fetchBounded(
  url: string,
  init: BunFetchRequestInit,
  maxBytes: number,
): Promise<Response> {
  const response = await fetch(url, { ...init, decompress: false, ...routeTo(url) })
  const { body } = response
  if (body === null) return response
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) {
    await body.cancel().catch(() => undefined)
    throw new TooLargeError(maxBytes)
  }
  return withBody(response, boundedStream(response, maxBytes))
}

/**
 * An answer that was fetched with `decompress: false`, with its body unpacked as it is read; the answer itself if it is not
 * compressed, or in a way that we do not know. The body fails with DamagedBodyError.
 */
export function unpackAnswer(response: Response): Response {
  const encoding = response.headers.get('content-encoding')
  if (encoding === null || response.body === null || formatOf(encoding) === undefined) return response
  const reader = unpack(response.body, encoding).getReader()
  return withBody(
    response,
    new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          try {
            const { done, value } = await reader.read()
            if (done) controller.close()
            else controller.enqueue(value)
          } catch (error) {
            // An aborted request, and a connection that broke, say so themselves.
            const isOurs = error instanceof DOMException || (error instanceof Error && 'code' in error)
            controller.error(isOurs ? error : new DamagedBodyError(error))
          }
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    ),
  )
}

/**
 * The whole body, decompressed. Throws BudgetSpentError, and TooLargeError as soon as it outgrows `maxBytes`: the length is announced,
 * or has been read, or a small body has unpacked to more. The rest of the body is given up either way.
 */
export async function boundedBytes(
  response: Response,
  maxBytes: number,
  signal: AbortSignal,
  budget: Pick<ByteBudget, 'take'> = unlimited,
): Promise<Uint8Array> {
  const { body } = response
  if (body === null) return new Uint8Array()
  const announced = Number(response.headers.get('content-length') ?? 0)
  if (announced > maxBytes) {
    await body.cancel().catch(() => undefined)
    throw new TooLargeError(maxBytes)
  }
  return readUpTo(unpack(body, response.headers.get('content-encoding')), maxBytes, signal, budget)
}

/**
 * The decompressed body as it arrives. Fails with TooLargeError beyond `maxBytes`, and with BudgetSpentError; undefined if there is none. Throws
 * if its encoding is not supported.
 */
export function boundedStream(
  response: Response,
  maxBytes: number,
  budget: Pick<ByteBudget, 'take'> = unlimited,
): Bytes | undefined {
  const { body } = response
  if (body === null) return undefined
  let size = 0
  return unpack(body, response.headers.get('content-encoding')).pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(bytes, controller) {
        size += bytes.byteLength
        if (size > maxBytes) throw new TooLargeError(maxBytes)
        budget.take(bytes.byteLength)
        controller.enqueue(bytes)
      },
    }),
  )
}

type Bytes = ReadableStream<Uint8Array<ArrayBuffer>>

/** The answer with another body: the headers that describe the bytes on the wire are left out. */
function withBody(
  { status, statusText, headers: given }: Response,
  body: ReadableStream | undefined,
): Response {
  const headers = new Headers(given)
  headers.delete('content-encoding')
  headers.delete('content-length')
  return new Response(body, { status, statusText, headers })
}

function formatOf(encoding: string): Format | undefined {
  return encodings[encoding.trim().toLowerCase()]
}

function unpack(body: Bytes, encoding: string | null): Bytes {
  const name = (encoding ?? 'identity').trim().toLowerCase()
  if (name === 'identity' || name === '') return body
  const format = formatOf(name)
  if (format === undefined) {
    void body.cancel().catch(() => undefined)
    throw new Error('the content encoding is unknown, or there are several')
  }
  return body.pipeThrough(new DecompressionStream(format as CompressionFormat))
}

async function readUpTo(
  body: Bytes,
  maxBytes: number,
  signal: AbortSignal,
  budget: Pick<ByteBudget, 'take'>,
): Promise<Uint8Array> {
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
      budget.take(value.byteLength)
      pieces.push(value)
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined)
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

// This machine is reached directly: a proxy that the environment names would be sent the request with its key, in clear,
// and knows nothing of the servers here.

/** Whether an address names this machine: `localhost`, 127.0.0.0/8, `::1`, and the addresses that stand for all of its own. */
export function isLoopback(url: string): boolean {
  // Parsing has made the short and the numeric forms of an IPv4 address into one.
  const host = URL.parse(url)?.hostname.replace(/\.$/, '') ?? ''
  return /^(.+\.)?localhost$|^127(\.\d+){3}$|^0\.0\.0\.0$|^\[::1?\]$|^\[::ffff:(7f[0-9a-f]{2}:[0-9a-f]{1,4}|0:0)\]$/.test(
    host,
  )
}

/** What every `fetch` to an address of the operator's choice is given beside its other options. */
export function routeTo(url: string): { readonly proxy?: false } {
  return isLoopback(url) ? direct : byEnvironment
}

/** For addresses that are never behind a proxy, wherever they are. */
export const direct = { proxy: false } as const
const byEnvironment = {}
