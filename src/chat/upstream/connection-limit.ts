// Limits concurrent requests to providers: more are refused, not queued.

import { plural } from '../../counted.ts'
import { GatewayError } from '../../errors.ts'
import { Shares } from '../../shares.ts'

/** Who asks, and whether over a connection: the simulator is asked without one. */
export interface Asking {
  readonly account: string
  readonly transport: 'http' | 'builtin'
}

export class ConnectionLimit {
  readonly #most: number
  readonly #open = new Shares()
  #simulated = 0

  constructor(most: number) {
    this.#most = most
  }

  /**
   * Counts a request, which must be given back once. Throws `overloaded` if all connections are in use, and
   * `rate_limit_exceeded` if the account has as many as are left for all others.
   */
  take({ account, transport }: Asking): void {
    if (transport === 'builtin') {
      this.#simulated += 1
      return
    }
    if (this.#open.isFull(this.#most)) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    if (this.#open.isShareUsed(this.#most, account)) {
      const message = `The account has ${plural(this.#open.of(account), 'request')} to providers open, its share of those that can be.`
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
    }
    this.#open.take(account)
  }

  giveBack({ account, transport }: Asking): void {
    if (transport === 'builtin') this.#simulated -= 1
    else this.#open.giveBack(account)
  }

  /** Requests that wait for an answer, simulated ones included. */
  get taken(): number {
    return this.#open.taken + this.#simulated
  }
}
