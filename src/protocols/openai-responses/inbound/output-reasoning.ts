// A reasoning item while it is being streamed.

import type { JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { seal } from '../../request/sealed-reasoning.ts'
import { type ItemStatus, OutputItem, type Place, type Emit } from './output-item.ts'

interface ReasoningPart {
  readonly kind: 'summary' | 'text'
  /** The index of its reasoning detail. */
  readonly of: number
  text: string
}

export class ReasoningItem extends OutputItem {
  readonly #details = new Map<number, ReasoningDetail>()
  readonly #parts: ReasoningPart[] = []
  #last: ReasoningDetail
  /** Whether the client requested a summary: then reasoning is sent as a summary. */
  readonly #summarised: boolean
  /** Encrypted content; set when the item has ended. */
  #sealed: string | undefined

  constructor(
    place: Place,
    emit: Emit,
    { known, delta, summarised }: { known: ReasoningDetail; delta: ReasoningDetail; summarised: boolean },
  ) {
    super(place, emit)
    this.#summarised = summarised
    this.#last = known
    this.begin()
    this.take(known, delta)
  }

  /**
   * Whether a detail continues this item: the same detail, or another part of the same item. xAI gives several items of
   * one answer the same id; the encrypted part is the last of each.
   */
  continuedBy(detail: ReasoningDetail): boolean {
    if (this.#details.has(detail.index)) return true
    const { id, format, type } = this.#last
    return id != null && id === detail.id && format === detail.format && type !== 'reasoning.encrypted'
  }

  /** Continues the detail: `known` is all of it so far, `delta` has not been sent yet. */
  take(known: ReasoningDetail, delta: ReasoningDetail): void {
    this.#details.set(known.index, known)
    this.#last = known
    this.#show(delta)
  }

  get details(): readonly ReasoningDetail[] {
    return [...this.#details.values()]
  }

  json(status: ItemStatus = this.status): JsonObject {
    const visiblePart = (kind: ReasoningPart['kind'], type: string) =>
      this.#parts.filter((part) => part.kind === kind).map(({ text }): JsonObject => ({ type, text }))
    const content = visiblePart('text', 'reasoning_text')
    return {
      id: this.id,
      type: 'reasoning',
      status,
      summary: visiblePart('summary', 'summary_text'),
      ...(content.length === 0 ? {} : { content }),
      ...(this.#sealed === undefined ? {} : { encrypted_content: this.#sealed }),
    }
  }

  protected override endParts(): void {
    this.#endPart()
    this.#sealed = seal(this.details)
  }

  #show(detail: ReasoningDetail): void {
    const kind = this.#kindOf(detail)
    const delta = readableText(detail)
    if (delta === '') return
    let part = this.#parts.at(-1)
    if (part?.kind !== kind || part.of !== detail.index) part = this.#openPart(kind, detail.index)
    part.text += delta
    const type =
      kind === 'summary' ? 'response.reasoning_summary_text.delta' : 'response.reasoning_text.delta'
    this.about(type, { ...this.#where(part), delta })
  }

  /** Providers of this protocol distinguish summaries from reasoning; others only return what may be shown. */
  #kindOf({ type, format }: ReasoningDetail): ReasoningPart['kind'] {
    if (type === 'reasoning.summary') return 'summary'
    return this.#summarised && !format?.includes('responses') ? 'summary' : 'text'
  }

  #openPart(kind: ReasoningPart['kind'], of: number): ReasoningPart {
    this.#endPart()
    const part: ReasoningPart = { kind, of, text: '' }
    this.#parts.push(part)
    const type = kind === 'summary' ? 'response.reasoning_summary_part.added' : 'response.content_part.added'
    this.about(type, { ...this.#where(part), part: wireReasoningPart(part) })
    return part
  }

  #endPart(): void {
    const part = this.#parts.at(-1)
    if (!part) return
    const where = this.#where(part)
    const summary = part.kind === 'summary'
    const { text } = part
    this.about(summary ? 'response.reasoning_summary_text.done' : 'response.reasoning_text.done', {
      ...where,
      text,
    })
    this.about(summary ? 'response.reasoning_summary_part.done' : 'response.content_part.done', {
      ...where,
      part: wireReasoningPart(part),
    })
  }

  /** Summaries and texts are numbered separately. */
  #where(part: ReasoningPart): JsonObject {
    const at = this.#parts.filter(({ kind }) => kind === part.kind).indexOf(part)
    return part.kind === 'summary' ? { summary_index: at } : { content_index: at }
  }
}

function wireReasoningPart({ kind, text }: ReasoningPart): JsonObject {
  return { type: kind === 'summary' ? 'summary_text' : 'reasoning_text', text }
}

/** The readable text of a detail. */
export function readableText(detail: ReasoningDetail): string {
  return (detail.type === 'reasoning.summary' ? detail.summary : detail.text) ?? ''
}
