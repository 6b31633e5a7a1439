// Classifies Bedrock's errors: `{message}` with the type in a header, and exceptions inside a stream.

import type { Fault, FaultKind } from '../conversation/event.ts'
import { fault, foreignFault, kindOfStatus } from './faults.ts'
import { entryOf, isObject, nonEmpty, parseJson } from './json.ts'
import { retryAfterMs } from './retry-after.ts'

/** By type in lower case: streams and statuses capitalise the names differently. */
const kindOfType: Readonly<Record<string, FaultKind>> = {
  accessdeniedexception: 'credentials',
  expiredtokenexception: 'credentials',
  incompletesignature: 'credentials',
  invalidsignatureexception: 'credentials',
  missingauthenticationtokenexception: 'credentials',
  unrecognizedclientexception: 'credentials',
  servicequotaexceededexception: 'quota',
  resourcenotfoundexception: 'not-found',
  throttlingexception: 'rate-limited',
  modelnotreadyexception: 'overloaded',
  serviceunavailableexception: 'overloaded',
  modeltimeoutexception: 'timeout',
  modelerrorexception: 'broken',
  modelstreamerrorexception: 'broken',
  internalserverexception: 'broken',
  internalfailure: 'broken',
  validationexception: 'invalid-request',
}

const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [
    /input tokens? exceeded|input is too long|prompt is too long|too many input tokens|context (window|length|limit)|maximum (context|tokens)/i,
    'context-length',
  ],
  [/model identifier is invalid|model .*(not found|does ?n.t exist)|end of its life/i, 'not-found'],
  [/too many tokens per day|quota/i, 'quota'],
  [/content filtering policy|blocked by .*polic/i, 'content-filter'],
]

/** An answer with an error status. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const answer = parseJson(body)
  const wait = retryAfterMs(headers)
  if (!isObject(answer)) return foreignFault(status, body, wait)
  // `ValidationException:http://…` in the header; `…#ValidationException` in some bodies.
  const type = headers.get('x-amzn-errortype')?.split(':')[0] ?? nonEmpty(answer.__type)?.split('#').at(-1)
  const message = nonEmpty(answer.message) ?? nonEmpty(answer.Message) ?? 'an error without a message'
  const kind = kindOf(type, message) ?? kindOfStatus(status)
  return fault(kind, message, { status, providerCode: type, retryAfterMs: wait })
}

/** An exception of a stream that had begun. */
export function faultOfException(type: string, data: string): Fault {
  const answer = parseJson(data)
  const message = (isObject(answer) ? nonEmpty(answer.message) : undefined) ?? 'the provider broke off'
  return fault(kindOf(type, message) ?? 'broken', message, { providerCode: type })
}

function kindOf(type: string | undefined, message: string): FaultKind | undefined {
  const byType = type === undefined ? undefined : entryOf(kindOfType, type.toLowerCase())
  const speaks = byType === undefined || byType === 'invalid-request' || byType === 'rate-limited'
  const byWords = speaks ? kindOfWords.find(([words]) => words.test(message))?.[1] : undefined
  return byWords ?? byType
}
