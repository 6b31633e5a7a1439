// A model id as it stands in a path.

import { GatewayError } from '../../errors.ts'

/** The id without its escapes. Throws `invalid_model_id` for an escape that is none. */
export function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    throw new GatewayError('invalid_model_id', { message: 'The model id in the path is not valid.', cause })
  }
}
