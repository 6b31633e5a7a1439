// How to point clients at this gateway.

import { connectedClients } from '../../connect/clients.ts'
import { type ConsoleRoute, ownRoute } from './route.ts'

export const connectRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'connect', summary: 'What points each client at this gateway' },
    ({ parts }) => {
      const origin = parts.publicUrl()
      return { base_url: `${origin}/v1`, clients: connectedClients(origin) }
    },
  ),
]
