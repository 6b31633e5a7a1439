// Limits unsigned messages per network. Signed ones are never counted and always accepted, whoever else uses the same
// address: thousands of payments may be reported at once.

import { WindowLimit } from '../../accounts/identity/sign-in-limits.ts'
import { networkOf } from '../../accounts/identity/network.ts'
import { GatewayError } from '../../errors/errors.ts'

const minuteMs = 60_000
/** Messages of processors have a few kilobytes. */
const mostBytes = 256 * 1024
/** What is read of a message of a network that has sent too many: its signature costs next to nothing to compare. */
const fewBytes = 32 * 1024

export class HookLimit {
  readonly #refused: WindowLimit

  /** `most` refused messages in a minute from one network; `clock` gives milliseconds. */
  constructor(most: number, clock: () => number) {
    this.#refused = new WindowLimit(most, minuteMs, clock)
  }

  /**
   * Reads and verifies a message that came from `address` by `verified`, which is given how many bytes it may read. What
   * that refuses is counted. Rejects as it does, and with `rate_limit_exceeded` instead when its network has sent too
   * many: then a message is read when it is short, or, where verifying costs more than reading, not at all.
   */
  async check<Message>(
    address: string,
    beyond: 'short' | 'unread',
    verified: (mostBytes: number) => Promise<Message>,
  ): Promise<Message> {
    const network = networkOf(address)
    const retryAfterMs = this.#refused.waitMs(network)
    const tooMany = (cause?: unknown) => {
      const message = 'Too many messages without a valid signature came from this network.'
      return new GatewayError('rate_limit_exceeded', { message, retryAfterMs, cause })
    }
    if (retryAfterMs > 0 && beyond === 'unread') throw tooMany()
    try {
      return await verified(retryAfterMs > 0 ? fewBytes : mostBytes)
    } catch (error) {
      this.#refused.take(network)
      throw retryAfterMs > 0 ? tooMany(error) : error
    }
  }
}
