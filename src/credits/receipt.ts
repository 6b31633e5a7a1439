// The receipt of one call: every line is quantity × rate = amount, and the lines add up to the total.

import { tokenBuckets } from '../conversation/usage.ts'
import type { CallRecord } from './ledger.ts'
import { formatUsd, formatUsdPerMillion } from './money.ts'

/** A call's record as its owner sees it. Amounts are decimal strings in US dollars, rates per million tokens. */
export function receiptOf(call: CallRecord) {
  const { served, usage } = call
  return {
    id: call.call,
    upstream_id: served?.upstreamId ?? null,
    model: call.model,
    mode: call.priceVersion === 'pv_test' ? 'test' : 'live',
    provider: served?.provider ?? null,
    upstream_model: served?.upstreamModel ?? null,
    api_key: call.key,
    state: call.state,
    stream: served?.stream ?? null,
    created_at: new Date(call.openedAt).toISOString(),
    ended_at: call.endedAt === null ? null : new Date(call.endedAt).toISOString(),
    ending: call.ending,
    finish_reason: served?.finishReason ?? null,
    estimated: call.estimated,
    tokens:
      usage === null
        ? null
        : Object.fromEntries(tokenBuckets.map((bucket) => [snake(bucket), usage[bucket]])),
    lines: call.lines.map((line) => ({
      item: line.item.includes(':') ? line.item : snake(line.item),
      quantity: line.quantity,
      rate: isTokens(line.item) ? formatUsdPerMillion(line.rate) : formatUsd(line.rate),
      rate_per: isTokens(line.item) ? 'million_tokens' : 'unit',
      amount: formatUsd(line.amount),
    })),
    total: formatUsd(call.cost),
    charged: formatUsd(call.charged),
    absorbed: formatUsd(call.absorbed),
    held: formatUsd(call.state === 'open' ? call.hold : 0n),
    price_version: served?.priceVersion ?? call.priceVersion,
    drawn: call.drawn.map(({ lot, pool, amount }) => ({ lot, pool, amount: formatUsd(amount) })),
    attempts: (served?.attempts ?? []).map(({ provider, outcome, code, ms }) => ({
      provider,
      outcome,
      code,
      ms,
    })),
    timings: { first_byte_ms: served?.firstByteMs ?? null, total_ms: served?.totalMs ?? null },
  }
}

const tokenItems: ReadonlySet<string> = new Set(tokenBuckets)

function isTokens(item: string): boolean {
  return tokenItems.has(item)
}

/** `cacheWrite5m` → `cache_write_5m`, `inputAudio` → `input_audio`. */
function snake(name: string): string {
  return name.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)
}
