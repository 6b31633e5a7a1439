// A request in a provider's protocol, with warnings for what was left out.

import type { JsonObject } from '../conversation/request.ts'

/** Something in the request that is not honoured, reported to the client. */
export interface Warning {
  readonly param: string
  readonly message: string
}

/** What most requests have. */
export const noWarnings: readonly Warning[] = []

/** A request in the provider's protocol. `path` is appended to the provider's base URL. */
export interface LoweredRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
  readonly warnings: readonly Warning[]
  /** Tools renamed because the client's names are not allowed there: wire name to client name. */
  readonly toolNames?: Readonly<Record<string, string>>
}

/** The warnings of both; no copy where one has none, as most have. */
export function joinWarnings(a: readonly Warning[], b: readonly Warning[]): readonly Warning[] {
  if (b.length === 0) return a
  return a.length === 0 ? b : [...a, ...b]
}
