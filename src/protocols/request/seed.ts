// The seed of a request. OpenAI's and Cohere's have 64 bits, more than a double holds.

import { z } from 'zod'
import { isRaw, type RawInteger } from '../../json/exact.ts'

/** A whole number; as it was written where it is beyond 2^53: rounded, the largest would be refused. */
export const seed = z
  .unknown()
  .refine(
    (value): value is number | RawInteger => Number.isInteger(value) || isRaw(value),
    'must be a whole number',
  )
  .meta({ type: 'integer' })
