// A receipt: what a call cost, in lines that can be re-added by hand. Amounts are decimal strings in USD.

import type { Tags } from '../../conversation/request.ts'
import { completionTokens, promptTokens, tokenBuckets } from '../../conversation/usage.ts'
import { formatUsd, type Pico } from '../money.ts'
import { testPriceVersion } from '../price.ts'
import { loanPrefix } from '../wallet.ts'
import type { CallRecord } from './ledger.ts'

export interface ReceiptLine {
  readonly item: string
  readonly quantity: number
  /** USD per unit. */
  readonly rate: string
  /** quantity × rate, exactly. */
  readonly amount: string
  /** The round, in a call with several; tools belong to the round that called them. */
  readonly round?: number
}

export interface Receipt {
  readonly id: string
  readonly object: 'generation'
  readonly model: string
  /** The virtual model that was asked for, and how it came to `model`; null where a model was asked for itself. */
  readonly route: {
    readonly id: string
    readonly reason: string
    readonly passed_over: readonly { readonly model: string; readonly reason: string }[]
  } | null
  /** `test`: made with a test key, answered by the simulator for free. */
  readonly mode: 'live' | 'test'
  /** What the client said that it is for; `user` is who it was made for. */
  readonly tags: Tags
  /** The id of the API key; null for a call of the app. */
  readonly key: string | null
  /** The account of whoever made the call. */
  readonly person: string
  /** The group that the key was made in; null for a call in none. */
  readonly group: string | null
  /** Whose credit paid: an account, or a group that has credit of its own. */
  readonly paid_by: string
  readonly state: CallRecord['state']
  /** How the call ended; null while it runs and if it was released. */
  readonly ending: CallRecord['ending']
  /** The error code of a call that served nothing, otherwise null. */
  readonly error: string | null
  /** ISO 8601. */
  readonly created_at: string
  readonly ended_at: string | null
  readonly usage: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly estimated: boolean
    /** The tokens in disjoint buckets, as priced. */
    readonly tokens: Readonly<Record<string, number>>
  } | null
  readonly lines: readonly ReceiptLine[]
  /** The sum of the lines. */
  readonly total: string
  /** What the account paid; `absorbed` is paid by the operator. charged + absorbed = total. */
  readonly charged: string
  readonly absorbed: string
  /** The provider's bill took the key beyond its limit, or its group beyond a budget. */
  readonly over_limit: boolean
  /** Held while the call runs. */
  readonly held: string
  readonly price_version: string
  /** The service tier reported by the provider; null for the standard tier. */
  readonly service_tier: string | null
  /**
   * What was charged at the standard rate because the catalog has no rate for it, so that the provider's bill may
   * differ: `service_tier:priority`, `input_audio`. Empty if the charge is exact.
   */
  readonly unpriced: readonly string[]
  /** The part of `charged` that was paid on the credit line and is now owed. */
  readonly on_credit: string
  readonly drawn: readonly { readonly pool: string; readonly lot: string; readonly amount: string }[]
  readonly provider: string | null
  readonly upstream_model: string | null
  readonly upstream_id: string | null
  readonly finish_reason: string | null
  readonly stream: boolean | null
  readonly attempts: readonly {
    readonly provider: string
    readonly outcome: string
    readonly code: string | null
    readonly upstream_id: string | null
    readonly ms: number
    /** The provider's HTTP status, and why the attempt failed. */
    readonly status: number | null
    readonly reason: string | null
  }[]
  readonly first_byte_ms: number | null
  readonly total_ms: number | null
  /** What the operator's guardrails have decided: of the request, and of the answer. */
  readonly guardrails: readonly {
    readonly guardrail: string
    readonly on: string
    readonly decision: string
    readonly code: string | null
    readonly times: number
  }[]
}

export function receiptOf(record: CallRecord): Receipt {
  const { served, usage } = record
  return {
    id: record.call,
    object: 'generation',
    model: served?.model ?? served?.route?.model ?? record.model,
    route: served?.route
      ? { id: served.route.id, reason: served.route.reason, passed_over: served.route.passedOver }
      : null,
    mode: (served?.priceVersion ?? record.priceVersion) === testPriceVersion ? 'test' : 'live',
    tags: record.tags,
    key: record.key,
    person: record.inGroup?.person ?? record.account,
    group: record.inGroup?.group ?? null,
    paid_by: record.account,
    state: record.state,
    ending: record.ending,
    error: record.released,
    created_at: new Date(record.openedAt).toISOString(),
    ended_at: record.endedAt === null ? null : new Date(record.endedAt).toISOString(),
    usage: usage && {
      prompt_tokens: promptTokens(usage),
      completion_tokens: completionTokens(usage),
      estimated: record.estimated,
      tokens: Object.fromEntries(tokenBuckets.map((bucket) => [wireName(bucket), usage[bucket]])),
    },
    lines: record.lines.map((line) => ({
      item: line.item.startsWith('call:') ? line.item : wireName(line.item),
      quantity: line.quantity,
      rate: formatUsd(line.rate),
      amount: formatUsd(line.amount),
      ...(line.round === undefined ? {} : { round: line.round }),
    })),
    total: formatUsd(record.cost),
    charged: formatUsd(record.charged),
    absorbed: formatUsd(record.absorbed),
    over_limit: record.overLimit,
    held: formatUsd(record.state === 'open' ? record.hold : 0n),
    price_version: served?.priceVersion ?? record.priceVersion,
    service_tier: usage?.serviceTier ?? null,
    unpriced: (served?.unpriced ?? []).map((what) => (what.includes(':') ? what : wireName(what))),
    on_credit: formatUsd(onCredit(record)),
    drawn: record.drawn.map(({ pool, lot, amount }) => ({ pool, lot, amount: formatUsd(amount) })),
    provider: served?.provider ?? null,
    upstream_model: served?.upstreamModel ?? null,
    upstream_id: served?.upstreamId ?? null,
    finish_reason: served?.finishReason ?? null,
    stream: served?.stream ?? null,
    attempts: record.attempts.map(({ provider, outcome, code, upstreamId, ms, status, reason }) => ({
      provider,
      outcome,
      code,
      upstream_id: upstreamId,
      ms,
      status,
      reason,
    })),
    guardrails: (served?.guards ?? []).map(({ guard, on, decision, code, times }) => ({
      guardrail: guard,
      on,
      decision,
      code: code ?? null,
      times,
    })),
    first_byte_ms: served?.firstByteMs ?? null,
    total_ms: served?.totalMs ?? null,
  }
}

function onCredit({ drawn }: CallRecord): Pico {
  return drawn.reduce((sum, { lot, amount }) => (lot.startsWith(loanPrefix) ? sum + amount : sum), 0n)
}

/** `cacheWrite5m` → `cache_write_5m`, `inputAudio` → `input_audio`. */
function wireName(name: string): string {
  return name.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)
}
