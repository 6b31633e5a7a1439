// What a signed-in account's app calls: the same wire contract under /app/v1, paid by every pool the account has.

import type { Operation } from '../docs/operation.ts'
import type { Route } from '../route.ts'
import { signedIn } from './signed-in.ts'

/** A route under /v1 for the app: the same handler and contract, for the account of a session. */
export function inApp<Parts>(route: Route<Parts>): Route<Parts> {
  const { operation } = route
  return {
    ...route,
    path: `/app${route.path}`,
    identify: signedIn,
    ...(operation === undefined ? {} : { operation: async () => ofApp(await operation(), route.path) }),
  }
}

/** The same where the route under /v1 is open to everybody: the app shows it to signed-in accounts only. */
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
