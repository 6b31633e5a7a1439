// The gateway in a worker: it serves models itself and forwards everything else to the ledger's process.

import type { InFlight } from '../../chat/in-flight.ts'
import type { ProviderHealth } from '../../chat/routing/health.ts'
import { crossOrigin } from '../../http/intake/cors.ts'
import { createServingRoutes } from '../../http/routes.ts'
import type { GatewayCore } from '../gateway/gateway.ts'
import type { GatewayParts } from '../gateway/gateway-parts.ts'
import { mcpOfWorker } from '../gateway/mcp.ts'
import { servingOf } from '../gateway/serving.ts'
import { idleSeconds } from '../listen.ts'
import { forward } from './forward.ts'
import type { Remote } from './remote-store.ts'

export interface WorkerParts extends Pick<
  GatewayParts,
  'config' | 'live' | 'log' | 'clock' | 'owner' | 'server'
> {
  readonly remote: Remote
  readonly inFlight: InFlight
  /** The socket of the ledger's process for forwarded requests. */
  readonly forwardTo: string
}

export interface WorkerGateway extends GatewayCore {
  readonly inFlight: InFlight
  /** The health of a provider for an account's calls in this process; undefined if the provider is unknown. */
  healthOf(provider: string, account: string): ProviderHealth | undefined
  /** An offer with an open breaker has answered another process. */
  offerRecovered(offer: string): void
}

export function createWorkerGateway(given: WorkerParts): WorkerGateway {
  const { config, remote, inFlight, live, server } = given
  const { store, limiter, probes, freeCredit } = remote
  const mcp = mcpOfWorker(config, remote.mcpServer)
  const { parts, memory, accountsChanged, drain, cutOff, close } = servingOf({
    ...given,
    store,
    limiter,
    probes,
    freeCredit,
    mcp,
  })
  const forwarding = {
    socket: given.forwardTo,
    peerOf: (request: Request) => server()?.requestIP(request)?.address ?? '',
    allowIdle: (request: Request, seconds: number) => server()?.timeout(request, seconds),
    idleSeconds: idleSeconds(config),
    maxBodyBytes: config.server.max_body_bytes,
  }
  const { fetch } = createServingRoutes(parts, (request) => forward(forwarding, request))
  return {
    fetch: crossOrigin(config.server.cors_origins, fetch),
    inFlight,
    healthOf(id, account) {
      const provider = live.providers.get(id)
      return provider && parts.chat.health.report(provider, account)
    },
    offerRecovered: (offer) => parts.chat.health.onRecovered(offer),
    memory,
    accountsChanged,
    drain,
    cutOff,
    close,
  }
}
