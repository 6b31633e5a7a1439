// Every route of the console's API.

import { operatorRoutes } from '../admin/routes.ts'
import { connectRoutes, modelRoutes } from './models.ts'
import { conversationRoutes } from './conversations.ts'
import { creditRoutes } from './credits.ts'
import { keyRoutes } from './keys.ts'
import { liveRoutes } from './live.ts'
import { mcpServerRoutes } from './mcp-servers.ts'
import { oidcRoutes, passkeyRoutes, sessionRoutes } from './sign-in.ts'
import { requestRoutes } from './requests.ts'
import type { ConsoleRoute } from './route.ts'
import { statementRoutes } from '../payments/statements.ts'
import { topUpRoutes, voucherRoutes } from '../payments/top-ups.ts'
import { webhookRoutes } from './webhooks.ts'

export const routes: readonly ConsoleRoute[] = [
  ...sessionRoutes,
  ...passkeyRoutes,
  ...oidcRoutes,
  ...keyRoutes,
  ...mcpServerRoutes,
  ...creditRoutes,
  ...topUpRoutes,
  ...statementRoutes,
  ...voucherRoutes,
  ...requestRoutes,
  ...modelRoutes,
  ...liveRoutes,
  ...conversationRoutes,
  ...connectRoutes,
  ...webhookRoutes,
  ...operatorRoutes,
]
