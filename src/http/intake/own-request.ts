// Requests that the gateway makes of itself, for a client that is not at the other end of an HTTP request.

import { type Frame, SseDecoder } from '../../protocols/framing/sse.ts'
import { isFromAddress } from './caller.ts'

interface OwnRequest {
  readonly url: string
  /** Of the client's own request: what is about its connection, or about that request alone, is left out. */
  readonly headers: Headers
  /** Where the client is. */
  readonly address: string
  readonly body: string
  /** Aborts when the client does not want the answer any more. */
  readonly signal: AbortSignal
}

export function ownRequest({ url, headers, address, body, signal }: OwnRequest): Request {
  const kept: Record<string, string> = {}
  headers.forEach((value, name) => {
    if (!name.startsWith('sec-websocket-') && !notPassed.has(name)) kept[name] = value
  })
  const own = {
    ...kept,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
  }
  const request = new Request(url, { method: 'POST', headers: own, body, signal })
  isFromAddress(request, address)
  return request
}

const notPassed: ReadonlySet<string> = new Set([
  'connection',
  'upgrade',
  'idempotency-key',
  'content-length',
  'transfer-encoding',
  'content-encoding',
  'expect',
])

/** The events of an answer, until its end or until the signal aborts: then its body is given back, as a client does. */
export async function* framesOf(
  { body }: Response,
  signal: AbortSignal,
  maxCharacters: number,
): AsyncGenerator<Frame> {
  if (body === null) return
  const decoder = new SseDecoder(maxCharacters)
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener('abort', leave, { once: true })
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read()
      if (done) return
      yield* decoder.push(value)
    }
  } finally {
    signal.removeEventListener('abort', leave)
    leave()
  }
}
