// Explains a failed server to the caller and the model.

import { GatewayError } from '../../errors.ts'

/** At most this many characters of a server's message are repeated. */
const mostRepeated = 300

/** A server or its answer cannot be used. The message contains no secret of ours. */
export class McpFault extends Error {
  /** The HTTP status of the faulty answer. */
  readonly status: number | undefined

  constructor(message: string, { status, cause }: { status?: number | undefined; cause?: unknown } = {}) {
    super(message, { cause })
    this.name = 'McpFault'
    this.status = status
  }
}

/** The runtime's codes for a connection that broke. */
const connectionCode = /^(?:ECONN|EPIPE|ConnectionClosed)/

/** Anything that the library throws. */
export function faultOf(error: unknown): McpFault {
  if (error instanceof McpFault) return error
  const known = causes(error).find((cause) => cause instanceof McpFault || cause instanceof GatewayError)
  if (known instanceof McpFault) return known
  if (known instanceof GatewayError) return new McpFault(known.message, { cause: known })
  const lacking = causes(error).find((cause) => cause instanceof Error && 'requiredScope' in cause)
  if (lacking) {
    const { requiredScope } = lacking as { requiredScope?: string }
    const message = `the server has to be authorised again, for more than now: ${plain(requiredScope ?? '')}`
    return new McpFault(message, { status: 403, cause: error })
  }
  const status = statusOf(error)
  if (status !== undefined)
    return new McpFault(`the server answered HTTP ${status}`, { status, cause: error })
  if (causes(error).some((cause) => connectionCode.test(String((cause as { code?: unknown }).code))))
    return new McpFault('the server closed the connection', { cause: error })
  // A number is a JSON-RPC error code of the server; a text is one of the library's codes.
  if (codeOf(error) !== undefined) {
    return new McpFault(`the server reports: ${plain(error instanceof Error ? error.message : '')}`, {
      cause: error,
    })
  }
  const said = error instanceof Error ? plain(error.message) : ''
  return new McpFault(`the server did not answer in the protocol's words${said && `: ${said}`}`, {
    cause: error,
  })
}

/** An untrusted server's message on one line, shortened. */
export function plain(text: string): string {
  // Control characters would end up in logs and terminals.
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
  return line.length > mostRepeated ? `${line.slice(0, mostRepeated)}…` : line
}

function causes(error: unknown): unknown[] {
  const found: unknown[] = []
  for (let at = error; at instanceof Error && found.length < 8; at = at.cause) found.push(at)
  return found
}

function statusOf(error: unknown): number | undefined {
  for (const cause of causes(error)) {
    const held = cause as { status?: unknown; code?: unknown; data?: { status?: unknown } }
    for (const value of [held.data?.status, held.status, held.code]) {
      if (typeof value === 'number' && value >= 300 && value < 600) return value
    }
    if (cause instanceof Error && cause.name === 'UnauthorizedError') return 401
  }
  return undefined
}

function codeOf(error: unknown): number | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'number' ? code : undefined
}
