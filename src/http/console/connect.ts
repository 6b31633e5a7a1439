// How clients are pointed at this gateway.

import { connectedClients } from '../../connect/clients.ts'
import { type ConsoleRoute, ownRoute } from './route.ts'

export const connectRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'connect', summary: 'What points each client at this gateway' },
    ({ service }) => {
      const origin = service.publicUrl()
      return { base_url: `${origin}/v1`, clients: connectedClients(origin) }
    },
  ),
]
