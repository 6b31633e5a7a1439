// An item of an answer while it is written.

import type { JsonObject } from '../../../conversation/request.ts'

/** Writes one event. */
export type Tell = (type: string, fields: JsonObject) => void

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** An item's place in the answer. */
export interface Place {
  readonly id: string
  readonly index: number
}

export abstract class OutputItem {
  readonly id: string
  readonly index: number
  protected readonly tell: Tell
  #status: ItemStatus = 'in_progress'

  constructor(place: Place, tell: Tell) {
    this.id = place.id
    this.index = place.index
    this.tell = tell
  }

  get status(): ItemStatus {
    return this.#status
  }

  get open(): boolean {
    return this.#status === 'in_progress'
  }

  /** The item as it stands. */
  abstract json(status?: ItemStatus): JsonObject

  protected begin(): void {
    this.tell('response.output_item.added', { output_index: this.index, item: this.json() })
  }

  /** Ends whatever of the item is open, and the item. */
  close(status: ItemStatus): void {
    if (!this.open) return
    this.endParts()
    this.#status = status
    this.tell('response.output_item.done', { output_index: this.index, item: this.json() })
  }

  protected endParts(): void {}

  /** An event about this item. */
  protected about(type: string, fields: JsonObject): void {
    this.tell(type, { item_id: this.id, output_index: this.index, ...fields })
  }
}
