// Limits the unread bytes of all streams together: two thousand slow clients must not fill the memory.

import { ShortLivedMap } from '../../short-lived.ts'

export class Buffered {
  readonly #mostBytes: number
  #bytes = 0
  /** How many streams of each account have something unread. */
  readonly #streams = new ShortLivedMap<string, number>()

  /** `mostBytes`: the limit for all streams together. */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Opens the account of one stream. Return it with `close`. */
  open(account: string): Waiting {
    return new Waiting(this, account)
  }

  /** Unread bytes of all streams. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Whether a stream with `bytes` unread may buffer more: all of them within the limit, it within its share. Accounts
   * have equal shares, and leave one for another that comes; the streams of an account have equal shares of its own.
   */
  hasRoomFor(account: string, bytes: number): boolean {
    const shares = (this.#streams.size + 1) * Math.max(1, this.#streams.get(account) ?? 0)
    return this.#bytes < this.#mostBytes && bytes < this.#mostBytes / shares
  }

  note(account: string, before: number, now: number): void {
    this.#bytes += now - before
    if (before > 0 === now > 0) return
    const streams = (this.#streams.get(account) ?? 0) + (now > 0 ? 1 : -1)
    if (streams > 0) this.#streams.set(account, streams)
    else this.#streams.take(account)
  }
}

/** The unread bytes of one stream. */
export class Waiting {
  readonly #all: Buffered
  readonly #account: string
  #bytes = 0

  constructor(all: Buffered, account: string) {
    this.#all = all
    this.#account = account
  }

  /** Records the unread bytes; returns whether more may be read from the provider. An empty stream always may. */
  mayGrow(bytes: number): boolean {
    this.#set(bytes)
    return bytes === 0 || this.#all.hasRoomFor(this.#account, bytes)
  }

  close(): void {
    this.#set(0)
  }

  #set(bytes: number): void {
    this.#all.note(this.#account, this.#bytes, bytes)
    this.#bytes = bytes
  }
}
