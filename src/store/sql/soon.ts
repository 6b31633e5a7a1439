// What is kept in memory first, and written a moment later.

import type { Awaitable } from '../../async/async.ts'

/** Rows that no charge depends on are written after so long at the latest, milliseconds. */
const latestMs = 250

/** Does something soon after it was asked for, once for all who ask meanwhile, and never twice at a time. */
export class Soon {
  readonly #act: () => Awaitable<void>
  #timer: ReturnType<typeof setTimeout> | undefined
  #running: Promise<void> | undefined

  /** `act` does not throw. It may ask for itself again. */
  constructor(act: () => Awaitable<void>) {
    this.#act = act
  }

  ask(): void {
    this.#timer ??= setTimeout(() => void this.now(), latestMs)
  }

  /** At once, after what is under way. */
  async now(): Promise<void> {
    this.forget()
    const before = this.#running
    const running = (async () => {
      await before
      await this.#act()
    })()
    this.#running = running
    await running
    if (this.#running === running) this.#running = undefined
  }

  /** Nobody asks any more. */
  forget(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
