// Parses query parameters with a schema. Unknown ones are refused, like unknown fields of a body.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'

/** The `limit` of a list: how many entries a page has. */
export const pageLimit = z
  .string()
  .regex(/^\d{1,3}$/, 'It takes a whole number from 1 to 200.')
  .transform(Number)
  .pipe(z.number().min(1).max(200))
  .default(50)

const repeated = 'It is there more than once.'
const unknownName = 'It is not known here.'

/** Throws `invalid_request` if a parameter is unknown, invalid or repeated. An empty one counts as absent. */
export function queryOf<Schema extends z.ZodType>(schema: Schema, request: Request): z.infer<Schema> {
  const given = Object.create(null) as Record<string, string>
  for (const [name, value] of new URL(request.url).searchParams) {
    if (name in given) throw wrong(name, repeated)
    if (value !== '') given[name] = value
  }
  return parseQuery(schema, given)
}

/** Throws `invalid_request` for a parameter that is none of `names`, or is there more than once. */
export function requireKnown(query: URLSearchParams, names: readonly string[]): void {
  for (const name of query.keys()) {
    if (!names.includes(name)) throw wrong(name, unknownName)
    if (query.getAll(name).length > 1) throw wrong(name, repeated)
  }
}

/** Parses a value with the schema. Throws `invalid_request` with the first fault and its field. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  const issue = read.error.issues[0]
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined
  const path = [...(issue?.path ?? []), ...(unknown === undefined ? [] : [unknown])]
  throw wrong(path.join('.'), unknown === undefined ? (issue?.message ?? 'It is wrong.') : unknownName)
}

function wrong(param: string, why: string): GatewayError {
  const name = param.slice(0, 100)
  return new GatewayError('invalid_request', {
    message: name === '' ? why : `${name}: ${why}`,
    ...(name === '' ? {} : { param: name }),
  })
}

/** The unescaped model id of a path. Throws `invalid_model_id` for an invalid escape. */
export function decodePath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    throw new GatewayError('invalid_model_id', { message: 'The model id in the path is not valid.', cause })
  }
}
