// A request in a provider's protocol, with warnings for what was left out.

import type { JsonObject } from '../conversation/request.ts'

/** Something the client asked for and will not get: named, never silent. */
export interface Warning {
  readonly param: string
  readonly message: string
}

/** One request as the provider wants it. `path` is appended to the provider's base URL. */
export interface LoweredRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
  readonly warnings: readonly Warning[]
  /** Tools that the wire knows by other names, because the client's are not allowed there: from those to the client's. */
  readonly toolNames?: Readonly<Record<string, string>>
}
