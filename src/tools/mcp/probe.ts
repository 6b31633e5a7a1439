// Tests whether a server answers, and lists its tools.

import { McpConnection, type McpServer } from './connection.ts'
import { asksForAuthorization, type Challenge, type McpEgress } from './exchange.ts'
import { McpFault } from './fault.ts'
import { listingOf } from './listing.ts'

export interface McpProbe {
  /** Names of the tools that can be offered. */
  readonly tools: readonly string[]
  /** Why there are none, or fewer than the server has. */
  readonly error: string | undefined
  /** The server requires an authorisation, or one with more scope. */
  readonly needsAuthorization: boolean
}

/** Connects and lists. Rejects with GatewayError if the address may not be reached, and with the signal's reason. */
export async function probeServer(
  server: McpServer,
  settings: { readonly egress: McpEgress; readonly mostTools: number },
  signal: AbortSignal,
): Promise<McpProbe> {
  let connection: McpConnection | undefined
  let needsAuthorization = false
  const onChallenge = async (challenge: Challenge) => {
    needsAuthorization ||= asksForAuthorization(challenge)
    await server.refused?.(challenge)
  }
  try {
    connection = await McpConnection.open({ ...server, refused: onChallenge }, settings.egress, signal)
    const { tools, error } = listingOf(await connection.listTools(signal), () => true, settings.mostTools)
    return { tools: tools.map(({ name }) => name), error, needsAuthorization }
  } catch (error) {
    if (error instanceof McpFault) return { tools: [], error: `${error.message}.`, needsAuthorization }
    if (signal.aborted) {
      return { tools: [], error: 'the server did not answer in time.', needsAuthorization }
    }
    throw error
  } finally {
    await connection?.close()
  }
}
