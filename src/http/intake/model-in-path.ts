import { GatewayError } from '../../errors.ts'

/** The unescaped model id of a path. Throws `invalid_model_id` for an invalid escape. */
export function decodePath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    throw new GatewayError('invalid_model_id', { message: 'The model id in the path is not valid.', cause })
  }
}
