// HTTP by hand: bytes that no client library would send, over a plain socket.

export interface RawResponse {
  /** 0 when nothing that looks like a status line came back. */
  readonly status: number
  readonly headers: Headers
  readonly body: string
  /** All that came back, head and body, as it came. */
  readonly raw: string
  /** Whether the server closed the connection. */
  readonly closed: boolean
}

/**
 * Sends these bytes and answers with the first response, or with what there is when the server closes the
 * connection or the time is over. Give lines their own `\r\n`.
 */
export function sendRaw(port: number, request: string | Uint8Array, timeoutMs = 5_000): Promise<RawResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RawResponse>()
  const received: Uint8Array[] = []
  const finish = (closed: boolean) => {
    clearTimeout(timer)
    resolve(parse(Buffer.concat(received), closed))
  }
  let end = () => {}
  const timer = setTimeout(() => {
    finish(false)
    end()
  }, timeoutMs)
  let unsent = typeof request === 'string' ? new TextEncoder().encode(request) : request

  Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: {
      open(socket) {
        end = () => socket.terminate()
        unsent = unsent.subarray(socket.write(unsent))
      },
      drain(socket) {
        if (unsent.length > 0) unsent = unsent.subarray(socket.write(unsent))
      },
      data(socket, bytes) {
        received.push(Uint8Array.from(bytes))
        if (!isComplete(Buffer.concat(received))) return
        finish(false)
        socket.terminate()
      },
      close: () => finish(true),
      error: () => finish(true),
    },
  }).catch((reason: unknown) => {
    clearTimeout(timer)
    reject(reason)
  })
  return promise
}

/** A request as text: the start line, headers in this order (names may repeat), an empty line, the body. */
export function rawRequest(
  startLine: string,
  headers: readonly (readonly [string, string])[],
  body = '',
): string {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`)
  return `${startLine}\r\n${lines.join('')}\r\n${body}`
}

function headOf(raw: string): { status: number; headers: Headers; bodyAt: number } | undefined {
  const end = raw.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = raw.slice(0, end).split('\r\n')
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return { status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? 0), headers, bodyAt: end + 4 }
}

/** Whether the bytes hold a whole response, as far as its own headers tell. */
function isComplete(bytes: Buffer): boolean {
  const raw = bytes.toString('latin1')
  const head = headOf(raw)
  if (head === undefined) return false
  if (head.status === 204 || head.status === 304) return true
  if (head.headers.get('transfer-encoding')?.includes('chunked')) return raw.endsWith('\r\n0\r\n\r\n')
  const length = head.headers.get('content-length')
  return length !== null && raw.length - head.bodyAt >= Number(length)
}

function parse(bytes: Buffer, closed: boolean): RawResponse {
  const raw = bytes.toString('latin1')
  const head = headOf(raw)
  if (head === undefined) return { status: 0, headers: new Headers(), body: '', raw, closed }
  const chunked = head.headers.get('transfer-encoding')?.includes('chunked') ?? false
  const body = chunked ? unchunk(raw.slice(head.bodyAt)) : raw.slice(head.bodyAt)
  return {
    status: head.status,
    headers: head.headers,
    body: Buffer.from(body, 'latin1').toString('utf8'),
    raw,
    closed,
  }
}

/** The payload of a chunked body, as far as it is whole. Works on one character a byte. */
function unchunk(raw: string): string {
  let payload = ''
  for (let at = 0; at < raw.length;) {
    const lineEnd = raw.indexOf('\r\n', at)
    if (lineEnd < 0) break
    const size = Number.parseInt(raw.slice(at, lineEnd), 16)
    if (!(size > 0)) break
    payload += raw.slice(lineEnd + 2, lineEnd + 2 + size)
    at = lineEnd + 2 + size + 2
  }
  return payload
}
