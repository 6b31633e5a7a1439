// `weir mcp serve`: a running gateway's MCP server over standard input and output.

import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { fetchBounded } from '../../../bounded-body.ts'
import { reasonOf } from '../../../config.ts'
import type { GatewayApi } from '../../../http/mcp/api.ts'
import { gatewayServer } from '../../../http/mcp/server.ts'
import type { Context, Invocation } from '../../context.ts'
import { folderHint, gatewayAddress, type GatewayAddress } from '../../gateway-address.ts'

/** The largest answer of the gateway: one call's, or the list of its models. */
const mostAnswerBytes = 64 * 1024 * 1024

/** Serves until standard input ends. */
export async function serveMcp(context: Context, invocation: Invocation): Promise<void> {
  const address = gatewayAddress(context, invocation)
  const api = apiAt(address, folderHint(context.io))
  await new Promise<void>((resolve) => {
    serveStdio(() => gatewayServer(api), {
      onerror: (error) => context.io.err(`weir: ${reasonOf(error)}\n`),
    })
    process.stdin.once('end', resolve)
    process.stdin.once('close', resolve)
  })
}

/** The API of the gateway at an address. If no gateway answers there, the result is an error response. */
function apiAt({ base, key }: GatewayAddress, hint: string): GatewayApi {
  return async (path, body, signal) => {
    try {
      return await fetchBounded(
        base + path.replace(/^\/v1/, ''),
        {
          method: body === undefined ? 'GET' : 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          signal,
          redirect: 'manual',
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        },
        mostAnswerBytes,
      )
    } catch (error) {
      signal.throwIfAborted()
      const message = `No gateway answers at ${base} (${reasonOf(error)}): start it with weir serve, or say where it is with --url${hint}.`
      return Response.json({ error: { message } }, { status: 503 })
    }
  }
}
