// Limits the unread bytes of all streams together: two thousand slow clients must not fill the memory.

export class Buffered {
  readonly #mostBytes: number
  #bytes = 0
  #streams = 0

  /** `mostBytes`: the limit for all streams together. */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** Opens the account of one stream. Return it with `close`. */
  open(): Waiting {
    return new Waiting(this)
  }

  /** Unread bytes of all streams. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether a stream with `bytes` unread may buffer more: all of them within the limit, it within its share. */
  hasRoomFor(bytes: number): boolean {
    return this.#bytes < this.#mostBytes && bytes < this.#mostBytes / Math.max(1, this.#streams)
  }

  note(before: number, now: number): void {
    this.#bytes += now - before
    if (before === 0 && now > 0) this.#streams += 1
    if (before > 0 && now === 0) this.#streams -= 1
  }
}

/** The unread bytes of one stream. */
export class Waiting {
  readonly #all: Buffered
  #bytes = 0

  constructor(all: Buffered) {
    this.#all = all
  }

  /** Records the unread bytes; returns whether more may be read from the provider. An empty stream always may. */
  mayGrow(bytes: number): boolean {
    this.#set(bytes)
    return bytes === 0 || this.#all.hasRoomFor(bytes)
  }

  close(): void {
    this.#set(0)
  }

  #set(bytes: number): void {
    this.#all.note(this.#bytes, bytes)
    this.#bytes = bytes
  }
}
