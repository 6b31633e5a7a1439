// Reasoning of any provider in the reasoning items of clients. All details, also encrypted ones and signatures, are in
// `encrypted_content`.

import type { ReasoningDetail } from '../../../conversation/request.ts'
import { isSealed, unseal } from '../../request/sealed-reasoning.ts'
import type { KnownItem } from './schema.ts'

/**
 * The details of a client's reasoning item; `next` is the index of the first if the item has none. Encrypted content
 * that is not ours is OpenAI's: clients bring their history along. Text without encrypted content has no known format.
 */
export function detailsOf(item: Extract<KnownItem, { type: 'reasoning' }>, next: number): ReasoningDetail[] {
  const sealed = item.encrypted_content ?? ''
  const ours = unseal(sealed)
  if (ours !== undefined) return ours
  const foreign = sealed !== '' && !isSealed(sealed)
  const format = foreign ? 'openai-responses-v1' : null
  const id = foreign && item.id != null ? { id: item.id } : {}
  const parts: Omit<ReasoningDetail, 'index'>[] = [
    ...(item.summary ?? []).map(({ text }) => ({ type: 'reasoning.summary', format, ...id, summary: text })),
    ...(item.content ?? []).map(({ text }) => ({ type: 'reasoning.text', format, ...id, text })),
    ...(foreign ? [{ type: 'reasoning.encrypted', format, ...id, data: sealed }] : []),
  ]
  return parts.map((part, at): ReasoningDetail => ({ ...part, index: next + at }))
}

/** The reasoning of one turn, collected item by item. */
export class TurnReasoning {
  readonly details: ReasoningDetail[] = []
  /** The position of the last detail of each index. */
  readonly #places = new Map<number, number>()

  /** A detail that is sent again, with its signature, replaces the earlier one. */
  add(detail: ReasoningDetail): void {
    const place = this.#places.get(detail.index)
    const earlier = place === undefined ? undefined : this.details[place]
    if (earlier && isSame(earlier, detail)) {
      this.details[place!] = detail
      return
    }
    this.#places.set(detail.index, this.details.length)
    this.details.push(detail)
  }
}

function isSame(a: ReasoningDetail, b: ReasoningDetail): boolean {
  const words = ({ type, format, text, summary, data }: ReasoningDetail) =>
    [type, format, text ?? '', summary ?? '', data ?? ''].join('\n')
  return words(a) === words(b)
}
