// Fair shares of what all have together: places of calls, connections, bytes.

import { ShortLivedMap } from '../async/async.ts'

/**
 * How much each has taken of a bounded whole. One may take as much as is then left free for others, so that nobody takes
 * all: one alone has half of it, two have a third each, and however many there are, one that comes finds something left.
 */
export class Shares {
  readonly #taken = new ShortLivedMap<string, number>()
  #total = 0

  /** What all have taken. */
  get taken(): number {
    return this.#total
  }

  /** What one has taken. */
  of(name: string): number {
    return this.#taken.get(name) ?? 0
  }

  /** Whether so much is not left of the whole. */
  isFull(whole: number, amount = 1): boolean {
    return this.#total + amount > whole
  }

  /** Whether taking so much would leave less for others than this one has then; who has nothing may take what there is. */
  isShareUsed(whole: number, name: string, amount = 1): boolean {
    const own = this.of(name)
    return own > 0 && own + amount > whole - this.#total - amount
  }

  /** Counts what one takes, whether it may or not. */
  take(name: string, amount = 1): void {
    this.#taken.set(name, this.of(name) + amount)
    this.#total += amount
  }

  giveBack(name: string, amount = 1): void {
    this.#total -= amount
    const left = this.of(name) - amount
    if (left > 0) this.#taken.set(name, left)
    else this.#taken.take(name)
  }
}
