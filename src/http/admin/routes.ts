// All routes of the admin API, which are also served in the console of an operator.

import { type ConsoleRoute, operatorRoute } from '../console/route.ts'
import { accountRoutes } from './accounts.ts'
import { insightRoutes } from './insight.ts'
import { keyRoutes, mcpServerRoutes, webhookRoutes } from './keys.ts'
import { managementKeyRoutes, newManagementKeyRoute } from './management-keys.ts'
import { paymentRoutes } from '../payments/admin.ts'
import { adminStatementRoutes } from '../payments/statements.ts'
import type { AdminRoute } from './route.ts'

export const adminRoutes: readonly AdminRoute[] = [
  ...insightRoutes,
  ...accountRoutes,
  ...keyRoutes,
  ...managementKeyRoutes,
  ...mcpServerRoutes,
  ...paymentRoutes,
  ...adminStatementRoutes,
  ...webhookRoutes,
]

/** Under `/console/api/admin`, for operators who are signed in. */
export const operatorRoutes: readonly ConsoleRoute[] = [
  ...adminRoutes.map(({ handle, path, ...spec }) =>
    operatorRoute({ ...spec, path: `admin/${path}` }, (asked) =>
      handle({ ...asked, operator: asked.account, by: 'session' }),
    ),
  ),
  newManagementKeyRoute,
]
