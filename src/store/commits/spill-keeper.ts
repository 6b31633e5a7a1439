// Copies the ends of calls that wait to the spill file, in case this process dies before the disk is back.

import type { Entry, SpillTarget } from './group.ts'

/**
 * A read-only disk takes the spill file along. That must not end the process: the commands wait in memory, and the file is
 * tried again with the next command and with every try of the disk.
 */
export class SpillKeeper {
  #target: SpillTarget | null = null
  #used = false

  /** Whether the file may hold anything. */
  get used(): boolean {
    return this.#used
  }

  spillTo(target: SpillTarget): void {
    this.#target = target
  }

  /** Writes what the file has not got yet. */
  keep(queue: readonly Entry[]): void {
    const target = this.#target
    if (!target) return
    for (const entry of queue) {
      if (entry.kept || entry.record === null) continue
      this.#used = true
      if (!succeeds(() => target.append(entry.record))) break
      entry.kept = true
    }
    succeeds(() => target.sync())
  }

  /** To be called when nothing of it is anywhere but on the disk. */
  clear(): void {
    if (succeeds(() => this.#target?.clear())) this.#used = false
  }
}

function succeeds(write: () => void): boolean {
  try {
    write()
    return true
  } catch {
    return false
  }
}
