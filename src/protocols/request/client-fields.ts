// What errors and warnings call a field: providers' protocols are lowered from one request, and speak of it in the
// words of chat completions; errors name the field as the client wrote it.

import type { Message } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import type { Warning } from '../lowered-request.ts'

/** How a client of another protocol than chat completions calls what it sent. */
export interface ClientFields {
  /** Where it wrote each message of the request, in its own notation. */
  messages(): readonly string[]
  /** Its names of the parameters that are called otherwise in chat completions. */
  readonly names: Readonly<Record<string, string>>
  /** Whether it writes places in a list as `.1`, not as `[1]`. */
  readonly dotted?: boolean
  /** Its messages have other members than those of chat completions: an error names the message alone. */
  readonly membersDiffer?: boolean
}

/** A message of a request with where its client wrote it. */
export interface Placed {
  readonly message: Message
  readonly field: string
}

/** Fields that hold the content of a message and nothing else of it. */
const instructionFields: ReadonlySet<string> = new Set(['system', 'instructions'])

/** The client's own name of a field; itself for a client of chat completions. */
export function fieldOf(param: string, fields: ClientFields | undefined): string {
  if (fields === undefined) return param
  const message = /^messages\[(\d+)\](.*)$/.exec(param)
  if (message) {
    const own = fields.messages()[Number(message[1])]
    if (own === undefined) return param
    if (fields.membersDiffer === true) return own
    const within = instructionFields.has(own) ? message[2]!.replace(/^\.content/, '') : message[2]!
    return own + (fields.dotted === true ? within.replaceAll(/\[(\d+)\]/g, '.$1') : within)
  }
  const [, name = param, rest = ''] = /^([^.[]+)(.*)$/.exec(param) ?? []
  return Object.hasOwn(fields.names, name) ? fields.names[name]! + rest : param
}

/** The same warnings under the client's own names. */
export function warningsFor(
  warnings: readonly Warning[],
  fields: ClientFields | undefined,
): readonly Warning[] {
  if (fields === undefined || warnings.length === 0) return warnings
  // Reading all messages again for each warning would take seconds: a long conversation may have one for each message.
  let places: readonly string[] | undefined
  const read: ClientFields = { ...fields, messages: () => (places ??= fields.messages()) }
  return warnings.map((warning) => ({ ...warning, param: fieldOf(warning.param, read) }))
}

/** The same error under the client's own name; anything else as it is. */
export function errorFor(error: unknown, fields: ClientFields | undefined): unknown {
  if (!(error instanceof GatewayError) || error.details.param == null) return error
  const param = fieldOf(error.details.param, fields)
  if (param === error.details.param) return error
  const message = error.message.replaceAll(error.details.param, param)
  return new GatewayError(error.code, { ...error.details, message, param, cause: error })
}
