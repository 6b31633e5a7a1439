// The request log as clients see it, and the cursor of a page.

import { z } from 'zod'
import { tagsOf } from '../../conversation/tags.ts'
import type { LedgerStore } from '../../credits/ledger/ledger.ts'
import { receiptOf } from '../../credits/ledger/receipt.ts'
import { formatUsd } from '../../credits/money.ts'
import type { LoggedRequest, RequestPage, RequestPlace } from '../../observe/call-log.ts'

/** One logged call. `detail`: the details of its error. */
export function requestObject(row: LoggedRequest) {
  return {
    id: row.requestId,
    object: 'request' as const,
    ended_at: new Date(row.at).toISOString(),
    key: row.key,
    model: row.model === '' ? null : row.model,
    provider: row.provider,
    stream: row.stream,
    status: row.status,
    code: row.code,
    ending: row.ending,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    cost: formatUsd(row.cost),
    attempts: row.attempts,
    first_byte_ms: row.firstByteMs,
    total_ms: row.totalMs,
    detail: jsonObject(row.detail),
    tags: tagsOf(row.tags),
  }
}

export function requestList({ rows, next }: RequestPage) {
  return {
    object: 'list' as const,
    data: rows.map(requestObject),
    has_more: next !== null,
    next_cursor: next === null ? null : cursorText(next),
  }
}

/** One call with its receipt and contents, if there are any. */
export async function requestWhole(row: LoggedRequest, ledger: Pick<LedgerStore, 'call'>) {
  const call = await ledger.call(row.account, row.requestId)
  return {
    ...requestObject(row),
    receipt: call === undefined ? null : receiptOf(call),
    contents: jsonObject(row.contents),
  }
}

export function cursorText({ at, seq }: RequestPlace): string {
  return `${at}_${seq}`
}

export function placeOf(cursor: string): RequestPlace | undefined {
  const [, at, seq] = /^(\d{1,15})_(\d{1,15})$/.exec(cursor) ?? []
  return at === undefined ? undefined : { at: Number(at), seq: Number(seq) }
}

/** Parses a stored JSON object; anything else is left out. */
function jsonObject(stored: string | null): Record<string, unknown> | null {
  if (stored === null) return null
  const read = z.record(z.string(), z.unknown()).safeParse(JSON.parse(stored))
  return read.success ? read.data : null
}
