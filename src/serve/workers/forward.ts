// Forwards requests for what a worker does not serve to the ledger's process.

import { GatewayError } from '../../errors.ts'
import { direct } from '../../loopback.ts'
import { closedWhenIdle } from '../../http/intake/connection.ts'
import { brokenOff, tooLarge } from '../../http/intake/read-body.ts'

/** The client's address in forwarded requests. It can be trusted: only workers reach the socket. */
export const clientAddressHeader = 'x-weir-client'

export interface ForwardParts {
  /** The socket of the ledger's process. */
  readonly socket: string
  /** The address of the connected client. */
  readonly peerOf: (request: Request) => string
  /** Sets how long the connection of a request may be idle from now on, seconds; 0 for no limit. */
  readonly allowIdle: (request: Request, seconds: number) => void
  /** The limit of other connections. */
  readonly idleSeconds: number
  readonly maxBodyBytes: number
}

/** Headers of the connection, not of the request. */
const ofConnection = ['connection', 'keep-alive', 'transfer-encoding', 'te', 'upgrade']

/**
 * The answer of the ledger's process. Rejects with `payload_too_large` and `invalid_request` for a body that cannot be
 * read, and with `store_unavailable` if that process cannot be reached.
 */
export async function forward(parts: ForwardParts, request: Request): Promise<Response> {
  const { method, url, signal } = request
  const headers = new Headers(request.headers)
  for (const name of ofConnection) headers.delete(name)
  headers.set(clientAddressHeader, parts.peerOf(request))
  const { maxBodyBytes } = parts
  if (Number(headers.get('content-length') ?? 0) > maxBodyBytes) throw tooLarge({ maxBodyBytes })
  let answer: Response | undefined
  // While its body arrives a connection may be idle no longer than any. Then the ledger's process has its own limits.
  const onArrival = () => {
    if (answer === undefined) parts.allowIdle(request, 0)
  }
  const { body, fault } = passedOn(request, maxBodyBytes, onArrival)
  if (!body) onArrival()
  try {
    const options = {
      unix: parts.socket,
      decompress: false,
      redirect: 'manual',
      timeout: false,
      ...direct,
    } as const
    // Without a Host header, which some load balancers leave out, the URL is only a path.
    const address = URL.canParse(url) ? url : `http://localhost${url}`
    answer = await fetch(address, { method, headers, body, signal, ...options })
  } catch (cause) {
    throw fault() ?? new GatewayError('store_unavailable', { retryAfterMs: 1000, cause })
  }
  const { status, statusText } = answer
  const passed = new Headers(answer.headers)
  for (const name of ofConnection) passed.delete(name)
  const closeWhenIdle = () => parts.allowIdle(request, parts.idleSeconds)
  return closedWhenIdle(
    { closeWhenIdle },
    request,
    new Response(answer.body, { status, statusText, headers: passed }),
  )
}

/**
 * The body as it arrives: who sends it is not known yet, and read ahead the bodies of many would fill the memory. Calls
 * `arrived` at its end. `fault` is why it ended early, once it has.
 */
function passedOn({ body, signal }: Request, maxBodyBytes: number, arrived: () => void) {
  let size = 0
  let refused: GatewayError | undefined
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      size += chunk.length
      if (size <= maxBodyBytes) return controller.enqueue(chunk)
      refused = tooLarge({ maxBodyBytes })
      controller.error(refused)
    },
    flush: arrived,
  })
  return {
    body: body && body.pipeThrough(counted),
    fault: () => refused ?? (signal.aborted ? brokenOff() : undefined),
  }
}
