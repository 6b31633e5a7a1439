// One end of the connection between the ledger's process and a worker: either side asks the other, and tells it things.

import { GatewayError, type ErrorCode, type ErrorDetails } from '../../../errors.ts'
import { FrameReader, frameOf } from './frames.ts'
import { packed, unpacked } from './values.ts'

/** What the link needs of a socket. */
export interface Wire {
  /** Takes as many of the bytes as it can now, and says how many; fewer than zero when it is closed. */
  write(bytes: Uint8Array): number
  /** Closes when all that was written is on its way. */
  end(): void
}

export interface LinkParts {
  readonly wire: Wire
  /** What the other side may ask for: functions by name. What they throw, or reject with, is what the asker gets. */
  readonly handlers: object
  /** Called with what broke inside a handler, and is no answer: a fault of ours. */
  readonly failed: (method: string, error: unknown) => void
}

/** Messages of one turn of the loop go as one frame, or as several of about this many characters. */
const frameCharacters = 1024 ** 2
/** More than this not yet taken by the other side, bytes: it is too slow, or it hangs. */
const congestedBytes = 32 * 1024 ** 2

/** A message: a request has a number above zero and asks for a reply, 0 asks for none; a reply has the number negated. */
type Message =
  | readonly [number: number, method: string, given: unknown[]]
  | readonly [number: number, ok: true, value: unknown]
  | readonly [number: number, ok: false, error: SentError]

interface SentError {
  /** null for what is no GatewayError. */
  readonly code: ErrorCode | null
  readonly details: ErrorDetails
}

interface Asked {
  resolve(value: unknown): void
  reject(error: unknown): void
}

/**
 * Requests are carried out in the order they were sent; replies come as they are made. `Theirs` is what the other side
 * answers, `Hears` what it is only told.
 */
export class Link<
  Theirs extends { [K in keyof Theirs]: (...given: never[]) => unknown },
  Hears extends { [K in keyof Hears]: (...given: never[]) => unknown },
> {
  readonly #parts: LinkParts
  readonly #reader = new FrameReader()
  readonly #asked = new Map<number, Asked>()
  readonly #working = new Set<Promise<void>>()
  #last = 0
  #outgoing: string[] = []
  #outgoingCharacters = 0
  #scheduled = false
  #unsent: Buffer[] = []
  #unsentBytes = 0
  #ending = false
  #closed = false

  constructor(parts: LinkParts) {
    this.#parts = parts
  }

  /** Asks the other side. Rejects with what its handler threw, and with `store_unavailable` when the link breaks. */
  ask<K extends keyof Theirs & string>(
    method: K,
    ...given: Parameters<Theirs[K]>
  ): Promise<Awaited<ReturnType<Theirs[K]>>> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#ending) {
        reject(broken())
        return
      }
      const number = ++this.#last
      this.#send([number, method, given])
      this.#asked.set(number, { resolve: resolve as Asked['resolve'], reject })
    })
  }

  /** Tells the other side something; dropped once the link has ended. */
  tell<K extends keyof Hears & string>(method: K, ...given: Parameters<Hears[K]>): void {
    if (!this.#closed && !this.#ending) this.#send([0, method, given])
  }

  /** Whether much waits that the other side has not taken. */
  get congested(): boolean {
    return this.#unsentBytes + this.#outgoingCharacters > congestedBytes
  }

  /** Bytes of the other side have arrived. Throws where they are no frames: the link is then to be closed. */
  received(bytes: Uint8Array): void {
    for (const content of this.#reader.take(bytes))
      for (const message of JSON.parse(content) as Message[]) this.#take(message)
  }

  /** The socket takes more. */
  drained(): void {
    while (this.#unsent.length > 0) {
      const bytes = this.#unsent[0]!
      const taken = Math.max(0, this.#parts.wire.write(bytes))
      this.#unsentBytes -= taken
      if (taken < bytes.length) {
        this.#unsent[0] = bytes.subarray(taken)
        return
      }
      this.#unsent.shift()
    }
    if (this.#ending && !this.#scheduled) this.#parts.wire.end()
  }

  /** The socket is gone: nobody answers any more. */
  closed(): void {
    this.#closed = true
    for (const { reject } of this.#asked.values()) reject(broken())
    this.#asked.clear()
    this.#unsent = []
    this.#outgoing = []
  }

  /** Resolves when all that the other side has asked for until now is carried out. */
  async settled(): Promise<void> {
    await Promise.all(this.#working)
  }

  /** Sends what is waiting, then closes. */
  end(): void {
    this.#ending = true
    this.#flush()
    if (this.#unsent.length === 0) this.#parts.wire.end()
  }

  #take([number, what, value]: Message): void {
    if (typeof what === 'string') this.#carryOut(number, what, unpacked(value) as unknown[])
    else {
      const asked = this.#asked.get(-number)
      this.#asked.delete(-number)
      if (what) asked?.resolve(unpacked(value))
      else asked?.reject(errorOf(unpacked(value) as SentError))
    }
  }

  #carryOut(number: number, method: string, given: unknown[]): void {
    try {
      const value = this.#handler(method)(...given)
      if (!(value instanceof Promise)) {
        if (number > 0) this.#send([-number, true, value])
        return
      }
      const done: Promise<void> = value
        .then((result: unknown) => {
          if (number > 0) this.#send([-number, true, result])
        })
        .catch((error: unknown) => this.#refuse(number, method, error))
        .finally(() => this.#working.delete(done))
      this.#working.add(done)
    } catch (error) {
      this.#refuse(number, method, error)
    }
  }

  #handler(method: string): (...given: unknown[]) => unknown {
    const { handlers } = this.#parts
    const handler: unknown = Object.hasOwn(handlers, method) ? Reflect.get(handlers, method) : undefined
    if (typeof handler !== 'function') throw new Error(`nobody answers ${method}`)
    return handler as (...given: unknown[]) => unknown
  }

  #refuse(number: number, method: string, error: unknown): void {
    if (!(error instanceof GatewayError)) this.#parts.failed(method, error)
    if (number === 0) return
    try {
      this.#send([-number, false, sentError(error)])
    } catch (cause) {
      this.#parts.failed(method, cause)
      this.#send([-number, false, sentError(new GatewayError('internal_error'))])
    }
  }

  #send([number, what, value]: Message): void {
    if (this.#closed) return
    const text = JSON.stringify([number, what, packed(value)])
    this.#outgoing.push(text)
    this.#outgoingCharacters += text.length
    if (this.#scheduled) return
    this.#scheduled = true
    // It runs when every callback of this turn has run: what they all send is one frame, and one write.
    setImmediate(() => this.#flush())
  }

  #flush(): void {
    this.#scheduled = false
    let from = 0
    let characters = 0
    for (const [at, { length }] of this.#outgoing.entries()) {
      characters += length
      if (characters < frameCharacters && at < this.#outgoing.length - 1) continue
      const frame = frameOf(this.#outgoing.slice(from, at + 1))
      this.#unsent.push(frame)
      this.#unsentBytes += frame.length
      from = at + 1
      characters = 0
    }
    this.#outgoing = []
    this.#outgoingCharacters = 0
    this.drained()
  }
}

/** What is asked of a process that has gone may be asked again: of its successor. */
function broken(): GatewayError {
  return new GatewayError('store_unavailable', { retryAfterMs: 1000 })
}

function sentError(error: unknown): SentError {
  if (!(error instanceof GatewayError)) {
    const message = error instanceof Error ? error.message : String(error)
    return { code: null, details: { message } }
  }
  const { cause: _, ...details } = error.details
  return { code: error.code, details }
}

function errorOf({ code, details }: SentError): Error {
  return code === null ? new Error(details.message) : new GatewayError(code, details)
}
