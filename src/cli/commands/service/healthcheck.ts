// `weir healthcheck`: whether the gateway of this configuration is ready, for container health checks without a shell.

import { fetchBounded } from '../../../bounded-body.ts'
import { baseUrlOf } from '../../../serve/banner.ts'
import { runningServer } from '../../../serve/running-server.ts'
import { reasonOf } from '../../../config.ts'
import { CommandFailure, type Context, type Invocation, print } from '../../context.ts'
import { isOnThisMachine } from '../../gateway-address.ts'

/** How long a gateway may take to answer. */
const patienceMs = 3_000

/** Asks `GET /readyz`. Throws CommandFailure (exit code 1) if nobody answers, or the answer is not "ready". */
export async function healthcheck(context: Context, invocation: Invocation): Promise<void> {
  const { data_dir, server } = context.config
  const named = invocation.option('url')
  // A server that was given its port by a flag is at another than the configured address.
  const given = named ?? runningServer(data_dir) ?? baseUrlOf(server.host, server.port)
  // A server listens on this machine: an address elsewhere is not one of the gateway of this folder.
  if (named === undefined && !context.namedFile && !isOnThisMachine(given))
    throw new CommandFailure(`${given} is not on this machine: give it with --url`)
  const origin = URL.parse(given)?.origin
  if (origin === undefined || origin === 'null') throw new CommandFailure(`${given} is no http address`)
  const address = `${origin}/readyz`
  let response: Response
  try {
    const signal = AbortSignal.timeout(patienceMs)
    response = await fetchBounded(address, { redirect: 'manual', signal }, Infinity)
    await response.body?.cancel()
  } catch (cause) {
    throw new CommandFailure(`nothing answers at ${address} (${reasonOf(cause)})`)
  }
  if (!response.ok) throw new CommandFailure(`${address} answers ${response.status}: not ready`)
  print(context, { json: { status: 'ready', url: address }, text: 'ready' })
}
