// What the deployments of providers are asked in a minute, and at once: their limits are kept ahead of their 429, so that
// a call goes to another one at once instead of being refused first.

import type { ConfiguredProvider, DeploymentLimits } from '../../providers/provider.ts'
import { DeploymentFull } from './fault-error.ts'

/** A minute, whole: the second that is running counts as well. */
const windowSeconds = 61
/** When to look again for a place among those in flight, milliseconds: nobody knows when one ends. */
const placeMs = 1_000

/** The use of all deployments in this process, by provider and place: it outlives a change of the configuration. */
export class DeploymentUse {
  readonly #clock: () => number
  readonly #uses = new Map<string, Use>()

  /** `clock` gives milliseconds, and never goes back. */
  constructor(clock: () => number) {
    this.#clock = clock
  }

  /**
   * Counts a call of so many tokens at a deployment; the result is to be called when it has ended. Throws DeploymentFull,
   * with the time until there may be room, if that would be more than it may have. A call that is larger than the limit
   * of a minute is let through where nothing else has been in it.
   */
  take({ id, deployment }: ConfiguredProvider, tokens: number): () => void {
    const { limits, firstKey } = deployment!
    const name = `${id}\n${firstKey}`
    let use = this.#uses.get(name)
    if (use === undefined) this.#uses.set(name, (use = new Use()))
    const waitMs = use.waitMs(limits!, tokens, this.#clock())
    if (waitMs > 0) throw new DeploymentFull(waitMs)
    return use.begin(tokens, this.#clock())
  }
}

/** One deployment: a minute of seconds, and what is in flight. */
class Use {
  readonly #requests = new Float64Array(windowSeconds)
  readonly #tokens = new Float64Array(windowSeconds)
  #second = 0
  #inFlight = 0

  /** 0 if there is room; otherwise the time until there may be, milliseconds. */
  waitMs(
    { requestsPerMinute, tokensPerMinute, inFlight }: DeploymentLimits,
    tokens: number,
    now: number,
  ): number {
    this.#passTo(now)
    return Math.max(
      inFlight !== undefined && this.#inFlight >= inFlight ? placeMs : 0,
      requestsPerMinute === undefined ? 0 : this.#waitFor(this.#requests, 1, requestsPerMinute, now),
      tokensPerMinute === undefined ? 0 : this.#waitFor(this.#tokens, tokens, tokensPerMinute, now),
    )
  }

  begin(tokens: number, now: number): () => void {
    this.#passTo(now)
    const slot = this.#second % windowSeconds
    this.#requests[slot]! += 1
    this.#tokens[slot]! += tokens
    this.#inFlight += 1
    return () => {
      this.#inFlight -= 1
    }
  }

  /** How long until so much of the oldest seconds is out of the window that this fits in. */
  #waitFor(counts: Float64Array, more: number, limit: number, now: number): number {
    let counted = 0
    for (const count of counts) counted += count
    if (counted === 0 || counted + more <= limit) return 0
    for (let passed = 1; passed <= windowSeconds; passed++) {
      counted -= counts[(this.#second + passed) % windowSeconds]!
      if (counted <= 0 || counted + more <= limit) return (this.#second + passed) * 1_000 - now
    }
    return windowSeconds * 1_000
  }

  /** Clears the seconds that are out of the window. */
  #passTo(now: number): void {
    const second = Math.floor(now / 1_000)
    const passed = Math.min(Math.max(0, second - this.#second), windowSeconds)
    for (let step = 1; step <= passed; step++) {
      const slot = (this.#second + step) % windowSeconds
      this.#requests[slot] = 0
      this.#tokens[slot] = 0
    }
    this.#second = Math.max(this.#second, second)
  }
}
