// An output item while it is being streamed.

import type { JsonObject } from '../../../conversation/request.ts'

/** Writes one event. */
export type Emit = (type: string, fields: JsonObject) => void

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** An item's index and id in the answer. */
export interface Place {
  readonly id: string
  readonly index: number
}

export abstract class OutputItem {
  readonly id: string
  readonly index: number
  protected readonly emit: Emit
  #status: ItemStatus = 'in_progress'

  constructor(place: Place, emit: Emit) {
    this.id = place.id
    this.index = place.index
    this.emit = emit
  }

  get status(): ItemStatus {
    return this.#status
  }

  get open(): boolean {
    return this.#status === 'in_progress'
  }

  abstract json(status?: ItemStatus): JsonObject

  protected begin(): void {
    this.emit('response.output_item.added', { output_index: this.index, item: this.json() })
  }

  /** Closes the item and its open parts. */
  close(status: ItemStatus): void {
    if (!this.open) return
    this.endParts()
    this.#status = status
    this.emit('response.output_item.done', { output_index: this.index, item: this.json() })
  }

  protected endParts(): void {}

  /** An event about this item. */
  protected about(type: string, fields: JsonObject): void {
    this.emit(type, { item_id: this.id, output_index: this.index, ...fields })
  }
}
