// Every route of the console's API.

import { connectRoutes } from './connect.ts'
import { conversationRoutes } from './conversations.ts'
import { invitationRoutes } from './invitations.ts'
import { keyRoutes } from './keys.ts'
import type { ConsoleRoute } from './route.ts'
import { passkeyRoutes } from './passkeys.ts'
import { sessionRoutes } from './session.ts'

export const routes: readonly ConsoleRoute[] = [
  ...sessionRoutes,
  ...passkeyRoutes,
  ...keyRoutes,
  ...invitationRoutes,
  ...conversationRoutes,
  ...connectRoutes,
]
