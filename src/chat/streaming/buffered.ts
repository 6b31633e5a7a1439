// How much of all answers waits for their clients, in sum: what one client may leave unread is little, what two thousand
// may is the memory.

export class Buffered {
  readonly #mostBytes: number
  #bytes = 0
  #streams = 0

  /** `mostBytes`: what all streams may hold together. */
  constructor(mostBytes: number) {
    this.#mostBytes = mostBytes
  }

  /** A stream's account of what waits for its client. Give it back with `close`. */
  open(): Waiting {
    return new Waiting(this)
  }

  /** Bytes that wait in all streams. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether a stream of which so much is unread may hold more: all are within the bound, and it within its share. */
  hasRoomFor(bytes: number): boolean {
    return this.#bytes < this.#mostBytes && bytes < this.#mostBytes / Math.max(1, this.#streams)
  }

  /** Called by a stream when its size has changed. */
  note(before: number, now: number): void {
    this.#bytes += now - before
    if (before === 0 && now > 0) this.#streams += 1
    if (before > 0 && now === 0) this.#streams -= 1
  }
}

/** One stream's part. */
export class Waiting {
  readonly #all: Buffered
  #bytes = 0

  /** Made by `Buffered.open`. */
  constructor(all: Buffered) {
    this.#all = all
  }

  /** Notes how many bytes wait now; whether more may be read from the provider. What is empty may always be filled. */
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
