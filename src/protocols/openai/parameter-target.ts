// Input and result of lowering the parameters of a request.

import type { JsonObject } from '../../conversation/request.ts'
import type { Target, Warning } from '../protocol.ts'
import type { ParameterQuirks } from './quirks.ts'

export type ParameterTarget = Target<ParameterQuirks>

/** Fields of the body, and what was left out of it. */
export interface LoweredFields {
  readonly fields: JsonObject
  readonly warnings: readonly Warning[]
}

/** For a request that sets none of the parameters. */
export const nothingLowered: LoweredFields = { fields: {}, warnings: [] }
