// What was committed, in its order, and how much of it the disk has: a power cut leaves that much.

import { Oracle } from './oracle.ts'
import type { Entry } from './process.ts'

/** One thing that was committed, as it happens to an oracle. */
export interface Booked {
  readonly entry: Entry | null
  /** The time it has left in the file; 0 when it has left none. */
  time: number
  happenTo(oracle: Oracle): void
}

export class History {
  #booked: Booked[] = []
  #durable = 0

  add(booked: Booked): void {
    this.#booked.push(booked)
  }

  /** How much there is now: what a sync that begins now covers. */
  get length(): number {
    return this.#booked.length
  }

  /** So much of it is on the disk: its answers may be given. */
  synced(length: number): void {
    for (; this.#durable < length; this.#durable++) {
      const { entry } = this.#booked[this.#durable]!
      if (entry) entry.issue.durable = entry.answer
    }
  }

  /** Forgets what no sync has covered, and gives an oracle to which only the rest has happened. */
  cut(): Oracle {
    this.#booked.length = this.#durable
    const oracle = new Oracle()
    for (const booked of this.#booked) booked.happenTo(oracle)
    return oracle
  }

  /** The latest time in the file. */
  get time(): number {
    return this.#booked.reduce((latest, { time }) => Math.max(latest, time), 0)
  }
}
