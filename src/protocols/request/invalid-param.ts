// What zod found wrong, as one GatewayError that names the field the way OpenAI's API does.

import type { z } from 'zod'

import { GatewayError } from '../../errors.ts'

type Path = readonly PropertyKey[]

/** A path in OpenAI's notation: `messages[0].content[1].type`. */
function paramOf(path: Path): string {
  let param = ''
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`
    else param += param === '' ? String(key) : `.${String(key)}`
  }
  return param
}

/**
 * The first thing wrong with a body, as `invalid_request` with its `param`: `within` is the path to what was looked
 * at. Never repeats a value of the body.
 */
export function invalidRequest(error: z.ZodError, within: Path = []): GatewayError {
  const [first] = error.issues
  if (first === undefined) return new GatewayError('invalid_request', { cause: error })
  const { path, message } = deepest(first, within)
  const param = paramOf(path)
  return new GatewayError('invalid_request', {
    message:
      param === '' ? `The body is not valid: ${message}.` : `Invalid value for '${param}': ${message}.`,
    ...(param === '' ? {} : { param }),
    cause: error,
  })
}

/**
 * A union fails with the failures of all its branches; the branch that got furthest is the one the client meant,
 * so a wrong part of a content list is named rather than the list. Of those that got as far, one that takes the type.
 */
function deepest(issue: z.core.$ZodIssue, before: Path): { path: Path; message: string } {
  const path = [...before, ...issue.path]
  const own = { path, message: issue.message.replace(/^Invalid input: /, '').replace(/\.$/, '') }
  if (issue.code !== 'invalid_union') return own
  const branches = issue.errors.flatMap((issues) => issues.slice(0, 1)).map((inner) => deepest(inner, path))
  const furthest = branches.reduce((a, b) => (isFurther(b.path, a.path) ? b : a), own)
  if (furthest !== own) return furthest
  const reasons = [...new Set(branches.map((branch) => branch.message))]
  return reasons.length === 0 ? own : { path, message: reasons.join(', or ') }
}

function isFurther(path: Path, than: Path): boolean {
  if (path.length !== than.length) return path.length > than.length
  return than.at(-1) === 'type' && path.at(-1) !== 'type'
}

/** The same for a fault that no schema covers; `message` follows the name of the field. */
export function invalidParam(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message: `Invalid value for '${param}': ${message}`, param })
}

/** For what is understood and not served. */
export function unsupportedParam(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_parameter', {
    message: `'${param}' cannot be honoured: ${message}`,
    param,
  })
}
