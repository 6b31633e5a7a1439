// When a group of commands has gathered, and is committed.

import type { GroupLimits } from './group.ts'

export class Gathering {
  readonly #waiting: () => number
  readonly #limits: Pick<GroupLimits, 'max' | 'waitMs'>
  readonly #commit: () => void
  #underWay = false

  /** `waiting`: how many commands wait now. `commit` is called once for each `begin` that starts a gathering. */
  constructor(waiting: () => number, limits: Pick<GroupLimits, 'max' | 'waitMs'>, commit: () => void) {
    this.#waiting = waiting
    this.#limits = limits
    this.#commit = commit
  }

  get isUnderWay(): boolean {
    return this.#underWay
  }

  /**
   * Commits when every callback of this turn of the loop has run: a lone command does not wait, and what has arrived while
   * the last group was being synced is in this one. While each turn brings more, that is waited for, up to `max` commands
   * and `waitMs`: calls that are held, asked and ended together cost each of them less.
   */
  begin(): void {
    if (this.#underWay) return
    this.#underWay = true
    const before = this.#waiting()
    setImmediate(() => this.#look(before, performance.now()))
  }

  /** `before`: how many waited a turn ago. */
  #look(before: number, since: number): void {
    const { max, waitMs } = this.#limits
    const waiting = this.#waiting()
    if (waiting > before && waiting < max && performance.now() - since < waitMs) {
      setImmediate(() => this.#look(waiting, since))
      return
    }
    this.#underWay = false
    this.#commit()
  }
}
