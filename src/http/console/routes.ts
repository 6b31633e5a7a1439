// Every route of the console's API.

import { invitationRoutes } from './invitations.ts'
import { keyRoutes } from './keys.ts'
import type { ConsoleRoute } from './route.ts'
import { sessionRoutes } from './session.ts'

export const routes: readonly ConsoleRoute[] = [...sessionRoutes, ...keyRoutes, ...invitationRoutes]
