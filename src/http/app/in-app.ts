// Routes for the app of a signed-in account: the wire contract of /v1 under /app/v1, paid from all of its pools.

import type { Operation } from '../docs/operation.ts'
import type { Route } from '../route.ts'
import { signedIn } from './signed-in.ts'

/** The route under /app/v1: the same handler and contract, identified by a session. */
export function inApp<Parts>(route: Route<Parts>): Route<Parts> {
  const { operation } = route
  return {
    ...route,
    path: `/app${route.path}`,
    identify: signedIn,
    ...(operation === undefined ? {} : { operation: async () => ofApp(await operation(), route.path) }),
  }
}

/** The same for a route that is public under /v1: in the app it requires a session. */
export function inAppOnly<Parts>(route: Route<Parts>): Route<Parts> {
  return inApp({
    ...route,
    handle: async (parts, call) => {
      await call.caller()
      return route.handle(parts, call)
    },
  })
}

async function ofApp(operation: Operation, path: string): Promise<Operation> {
  const { ofCaller, ofKeyedCall } = await import('../docs/openapi-errors.ts')
  const ofKeys: ReadonlySet<string> = new Set(ofKeyedCall)
  const shown = operation.path ?? path
  return {
    ...operation,
    id: `${operation.id}InApp`,
    ...(operation.path === undefined ? {} : { path: `/app${operation.path}` }),
    tag: 'App',
    summary: `${operation.summary}, from the app`,
    description: `As \`${shown}\`, for the account of the session.`,
    security: 'session',
    errors: [...operation.errors.filter((code) => !ofKeys.has(code)), ...ofCaller],
  }
}
