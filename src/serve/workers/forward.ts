// Requests for what a worker does not serve: passed on to the ledger's process, and its answers passed back.

import { GatewayError } from '../../errors.ts'
import { readRaw } from '../../http/intake/read-body.ts'

/** Where the client is, in what workers pass on; nobody else reaches the socket, so nobody else can say it. */
export const clientHeader = 'x-weir-client'

export interface ForwardParts {
  /** The socket of the ledger's process. */
  readonly socket: string
  /** The address of whoever is connected. */
  readonly peerOf: (request: Request) => string
  /** How long the connection of a request may be idle from now on, seconds; 0 for as long as it likes. */
  readonly allowIdle: (request: Request, seconds: number) => void
  /** How long it may be otherwise. */
  readonly idleSeconds: number
  readonly maxBodyBytes: number
}

/** What belongs to the connection, and not to the request. */
const ofConnection = ['connection', 'keep-alive', 'transfer-encoding', 'te', 'upgrade']

/**
 * Answers as the ledger's process does. Rejects with `payload_too_large` and `invalid_request` for a body that cannot be
 * read, and with `store_unavailable` when that process cannot be reached.
 */
export async function forwarded(parts: ForwardParts, request: Request): Promise<Response> {
  const { method, url, signal } = request
  const headers = new Headers(request.headers)
  for (const name of ofConnection) headers.delete(name)
  headers.set(clientHeader, parts.peerOf(request))
  const body = request.body && new Uint8Array(await readRaw(request, parts.maxBodyBytes))
  // The other process may take its time.
  parts.allowIdle(request, 0)
  let answer: Response
  try {
    const options = { unix: parts.socket, decompress: false, redirect: 'manual', timeout: false } as const
    // Without a Host, which load balancers leave out, the address is a path.
    const address = URL.canParse(url) ? url : `http://localhost${url}`
    answer = await fetch(address, { method, headers, body, signal, ...options })
  } catch (cause) {
    throw new GatewayError('store_unavailable', { retryAfterMs: 1000, cause })
  }
  const { status, statusText } = answer
  const isEndless = answer.headers.get('content-type')?.startsWith('text/event-stream') === true
  if (!isEndless) parts.allowIdle(request, parts.idleSeconds)
  const passed = new Headers(answer.headers)
  for (const name of ofConnection) passed.delete(name)
  return new Response(answer.body, { status, statusText, headers: passed })
}
