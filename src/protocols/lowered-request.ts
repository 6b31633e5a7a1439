// A request in a provider's protocol, with warnings for what was left out.

import type { JsonObject } from '../conversation/request.ts'

/** Something in the request that is not honoured, reported to the client. */
export interface Warning {
  readonly param: string
  readonly message: string
}

/** A request in the provider's protocol. `path` is appended to the provider's base URL. */
export interface LoweredRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
  readonly warnings: readonly Warning[]
  /** Tools renamed because the client's names are not allowed there: wire name to client name. */
  readonly toolNames?: Readonly<Record<string, string>>
}
