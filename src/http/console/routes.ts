// Every route of the console's API.

import { operatorRoutes } from '../admin/routes.ts'
import { connectRoutes } from './connect.ts'
import { conversationRoutes } from './conversations.ts'
import { creditRoutes } from './credits.ts'
import { keyRoutes } from './keys.ts'
import { liveRoutes } from './calls/live.ts'
import { mcpServerRoutes } from './mcp-servers.ts'
import { modelRoutes } from './models.ts'
import { oidcRoutes } from './sign-in/oidc.ts'
import { passkeyRoutes } from './sign-in/passkeys.ts'
import { requestRoutes } from './calls/requests.ts'
import type { ConsoleRoute } from './route.ts'
import { statementRoutes } from '../payments/statements.ts'
import { topUpRoutes } from '../payments/top-ups.ts'
import { voucherRoutes } from '../payments/vouchers.ts'
import { sessionRoutes } from './sign-in/session.ts'
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
