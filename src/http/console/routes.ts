// Every route of the console's API.

import { operatorRoutes } from '../admin/routes.ts'
import { connectRoutes } from './connect.ts'
import { conversationRoutes } from './conversations.ts'
import { creditRoutes } from './credits.ts'
import { keyRoutes } from './keys.ts'
import { liveRoutes } from './live.ts'
import { modelRoutes } from './models.ts'
import { oidcRoutes } from './oidc.ts'
import { passkeyRoutes } from './passkeys.ts'
import { requestRoutes } from './requests.ts'
import type { ConsoleRoute } from './route.ts'
import { sessionRoutes } from './session.ts'

export const routes: readonly ConsoleRoute[] = [
  ...sessionRoutes,
  ...passkeyRoutes,
  ...oidcRoutes,
  ...keyRoutes,
  ...creditRoutes,
  ...requestRoutes,
  ...modelRoutes,
  ...liveRoutes,
  ...conversationRoutes,
  ...connectRoutes,
  ...operatorRoutes,
]
