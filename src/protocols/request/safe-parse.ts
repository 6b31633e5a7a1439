// What a schema says of something that a client sent, whatever that is.

import type { z } from 'zod'
import { GatewayError } from '../../errors.ts'

/** The outcome, with its faults where it has any. Throws `invalid_request` for what the schema cannot be held against. */
export function safeParsed<Checked>(
  schema: z.ZodType<Checked>,
  sent: unknown,
): z.ZodSafeParseResult<Checked> {
  try {
    return schema.safeParse(sent)
  } catch (cause) {
    // zod compares the `length` of what is no string, too, and an object that is no number at all throws there.
    throw new GatewayError('invalid_request', { message: 'The body is not valid.', cause })
  }
}
