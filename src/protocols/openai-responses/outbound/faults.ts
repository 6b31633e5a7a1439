// Faults for errors of the Responses protocol. The envelope is OpenAI's; some codes occur only here.

import type { Fault, FaultKind } from '../../../conversation/event.ts'
import { faultOf as chatFaultOf, faultOfErrorEvent } from '../../openai/fault.ts'

/** Codes of failed responses, as OpenAI's description of the protocol lists them. */
const kinds: readonly (readonly [RegExp, FaultKind])[] = [
  [/^(image_content_policy_violation|cyber_policy|bio_policy)$/, 'content-filter'],
  [
    /^(invalid_prompt|invalid_image|invalid_image_(format|url|mode)|invalid_base64_image|image_(too_large|too_small|parse_error)|image_file_(too_large|not_found)|unsupported_image_media_type|empty_image_file|failed_to_download_image|invalid_encrypted_content)$/,
    'invalid-request',
  ],
  [/^(server_is_overloaded|slow_down)$/, 'overloaded'],
  [/^vector_store_timeout$/, 'timeout'],
]

/** `invalid_prompt` is mostly a refusal by policy; its message says so. */
const policyWords = /usage polic(y|ies)|flagged/i

/** The fault for an answer with an error status. `body` may be JSON of any shape, HTML, or empty. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  return refineFault(chatFaultOf(status, headers, body))
}

/** The fault of an `error` event, in either of its shapes, or of a failed response's `error`. */
export function faultOfError(error: unknown): Fault {
  return refineFault(faultOfErrorEvent(error))
}

/** The rules of chat completions come first; codes they do not know may be from this protocol. */
function refineFault(fault: Fault): Fault {
  if (fault.kind !== 'broken' && fault.kind !== 'invalid-request') return fault
  const code = fault.providerCode ?? ''
  if (code === 'invalid_prompt' && policyWords.test(fault.message))
    return { ...fault, kind: 'content-filter' }
  const kind = kinds.find(([codes]) => codes.test(code))?.[1]
  return kind === undefined ? fault : { ...fault, kind }
}
