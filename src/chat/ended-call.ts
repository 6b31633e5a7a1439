// An ended call, as the log line and the request log show it.

import { completionTokens, promptTokens } from '../conversation/usage.ts'
import type { Attempt } from '../credits/ledger/ledger.ts'
import type { GatewayError } from '../errors.ts'
import type { EndedCall } from '../observe/request-log.ts'
import { noCharge, type Charge } from './billing/charge.ts'
import type { PaidCall } from './call.ts'
import { contentsOf } from './transcript.ts'

export interface CallEnding {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly charge: Charge
  readonly ending: string | null
  readonly status: number
  readonly code: string | null
  readonly error: GatewayError | undefined
  readonly attempts: readonly Attempt[]
  readonly firstByteMs: number | null
}

export function endedCall(call: Omit<PaidCall, 'bodyBytes' | 'signal'>, ended: CallEnding): EndedCall {
  const { caller, request, requestId, arrivedAt } = call
  const { charge, attempts, error } = ended
  return {
    requestId,
    at: ended.at,
    account: caller.account.id,
    key: caller.key?.id ?? null,
    lastFour: caller.key?.lastFour ?? null,
    model: request.envelope.model,
    provider: attempts.at(-1)?.provider ?? null,
    stream: request.envelope.stream,
    status: ended.status,
    code: ended.code,
    ending: ended.ending,
    promptTokens: promptTokens(charge.usage),
    completionTokens: completionTokens(charge.usage),
    cost: charge.cost.total,
    attempts: attempts.length,
    firstByteMs: ended.firstByteMs,
    totalMs: Math.round(performance.now() - arrivedAt),
    detail: error === undefined ? null : detailOf(error),
    contents: contentsOf(call),
  }
}

/** A call that was refused before credit was held for it. */
export function refusedCall(
  call: Omit<PaidCall, 'bodyBytes' | 'signal'>,
  error: GatewayError,
  at: number,
  figures: Readonly<Record<string, unknown>> = {},
): EndedCall {
  const { status, code } = error
  const nothing = { charge: noCharge, ending: null, attempts: [], firstByteMs: null }
  return { ...endedCall(call, { ...nothing, at, status, code, error }), detail: detailOf(error, figures) }
}

const longestMessage = 300
const longestDetail = 2_000

/**
 * The details of an error beside its code, as JSON: the amounts of a refusal, the field at fault. Messages about a bad
 * body are left out, because they may quote it. Attempts are on the receipt.
 */
export function detailOf(
  { code, message, details }: GatewayError,
  figures: Readonly<Record<string, unknown>> = {},
): string {
  const { attempts: _, ...metadata } = details.metadata ?? {}
  const said =
    code === 'invalid_request' && details.source !== 'provider'
      ? {}
      : { message: message.slice(0, longestMessage) }
  const param = details.param === undefined ? {} : { param: details.param.slice(0, longestMessage) }
  const whole = JSON.stringify({ ...said, ...param, ...metadata, ...figures })
  return whole.length <= longestDetail ? whole : JSON.stringify({ ...said, ...param })
}
