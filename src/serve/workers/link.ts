// One end of the connection between the ledger's process and a worker: requests and notifications in both directions.

import { ShortLivedMap } from '../../async/async.ts'
import { type ErrorCode, type ErrorDetails, GatewayError } from '../../errors/errors.ts'

/** The socket of a link. */
interface Wire {
  /** Writes as many of the bytes as it can now and returns their number; negative if it is closed. */
  write(bytes: Uint8Array): number
  /** Closes after everything written has been sent. */
  end(): void
}

/** The near end of a link. */
interface NearEnd {
  readonly wire: Wire
  /** Handlers for the other side's requests, by method. Their errors are sent back. */
  readonly handlers: object
  /** Called with errors of handlers other than GatewayError: faults of ours. */
  readonly onFailure: (method: string, error: unknown) => void
}

/** The messages of one turn of the event loop are sent as one frame, or as several of about this many characters. */
const frameCharacters = 1024 ** 2
/** With more unsent bytes than this, the other side is too slow or hangs. */
const congestedBytes = 32 * 1024 ** 2

/** A request has a number above zero, a notification has 0; a reply has the negated number of its request. */
type Message =
  | readonly [number: number, method: string, given: unknown[]]
  | readonly [number: number, ok: true, value: unknown]
  | readonly [number: number, ok: false, error: SentError]

interface SentError {
  /** null for errors other than GatewayError. */
  readonly code: ErrorCode | null
  readonly details: ErrorDetails
}

interface Asked {
  resolve(value: unknown): void
  reject(error: unknown): void
}

/**
 * Requests are handled in the order in which they were sent; replies are sent when they are ready. `Requests` and
 * `Notifications` are the methods of the other side.
 */
export class Link<
  Requests extends { [K in keyof Requests]: (...given: never[]) => unknown },
  Notifications extends { [K in keyof Notifications]: (...given: never[]) => unknown },
> {
  readonly #parts: NearEnd
  readonly #reader = new FrameReader()
  readonly #asked = new ShortLivedMap<number, Asked>()
  /** Requests that take their time, by the order of their beginning. */
  readonly #working = new ShortLivedMap<number, Promise<void>>()
  #begun = 0
  #last = 0
  #outgoing: string[] = []
  #outgoingCharacters = 0
  #scheduled = false
  #unsent: Buffer[] = []
  #unsentBytes = 0
  #ending = false
  #closed = false

  constructor(parts: NearEnd) {
    this.#parts = parts
  }

  /** Rejects with the handler's error, or with `store_unavailable` if the link breaks. */
  request<K extends keyof Requests & string>(
    method: K,
    ...given: Parameters<Requests[K]>
  ): Promise<Awaited<ReturnType<Requests[K]>>> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#ending) {
        reject(linkError())
        return
      }
      const number = ++this.#last
      this.#send([number, method, given])
      this.#asked.set(number, { resolve: resolve as Asked['resolve'], reject })
    })
  }

  /** Sends a notification; it is dropped if the link has ended. */
  notify<K extends keyof Notifications & string>(method: K, ...given: Parameters<Notifications[K]>): void {
    if (!this.#closed && !this.#ending) this.#send([0, method, given])
  }

  /** Whether too many bytes are waiting to be sent. */
  get congested(): boolean {
    return this.#unsentBytes + this.#outgoingCharacters > congestedBytes
  }

  /** To be called with received bytes. Throws if they are not frames; then the link must be closed. */
  onBytes(bytes: Uint8Array): void {
    for (const content of this.#reader.take(bytes))
      for (const message of JSON.parse(content) as Message[]) this.#take(message)
  }

  /** To be called when the socket can take more bytes. */
  onDrain(): void {
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

  /** To be called when the socket has closed. */
  onClose(): void {
    this.#closed = true
    for (const number of this.#asked.keys()) this.#asked.take(number)?.reject(linkError())
    this.#unsent = []
    this.#outgoing = []
  }

  /** Resolves when all requests received so far have been handled. */
  async whenSettled(): Promise<void> {
    await Promise.all(this.#working.values())
  }

  /** Sends what is waiting, then closes the socket. */
  end(): void {
    this.#ending = true
    this.#flush()
    if (this.#unsent.length === 0) this.#parts.wire.end()
  }

  #take([number, what, value]: Message): void {
    if (typeof what === 'string') this.#carryOut(number, what, unpackValue(value) as unknown[])
    else {
      const asked = this.#asked.take(-number)
      if (what) asked?.resolve(unpackValue(value))
      else asked?.reject(errorOf(unpackValue(value) as SentError))
    }
  }

  #carryOut(number: number, method: string, given: unknown[]): void {
    try {
      const value = this.#handler(method)(...given)
      if (!(value instanceof Promise)) {
        if (number > 0) this.#send([-number, true, value])
        return
      }
      const begun = ++this.#begun
      const done = value
        .then((result: unknown) => {
          if (number > 0) this.#send([-number, true, result])
        })
        .catch((error: unknown) => this.#refuse(number, method, error))
        .finally(() => void this.#working.take(begun))
      this.#working.set(begun, done)
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
    if (!(error instanceof GatewayError)) this.#parts.onFailure(method, error)
    if (number === 0) return
    try {
      this.#send([-number, false, sentError(error)])
    } catch (cause) {
      this.#parts.onFailure(method, cause)
      this.#send([-number, false, sentError(new GatewayError('internal_error'))])
    }
  }

  #send([number, what, value]: Message): void {
    if (this.#closed) return
    const text = JSON.stringify([number, what, packValue(value)])
    this.#outgoing.push(text)
    this.#outgoingCharacters += text.length
    if (this.#scheduled) return
    this.#scheduled = true
    // After all callbacks of this turn: their messages become one frame and one write.
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
    this.onDrain()
  }
}

/** The client may try again: the process will be replaced. */
function linkError(): GatewayError {
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

// A link over a socket pair that the worker inherits.

/**
 * A link over an open socket; the link owns the descriptor from now on. `onClose` is called when the other side has
 * closed or died; everything that it sent has been received.
 */
export async function connectLink<
  Requests extends { [K in keyof Requests]: (...given: never[]) => unknown },
  Notifications extends { [K in keyof Notifications]: (...given: never[]) => unknown },
>(
  fd: number,
  { handlers, onFailure }: Omit<NearEnd, 'wire'>,
  onClose: () => void,
): Promise<Link<Requests, Notifications>> {
  const link = new Link<Requests, Notifications>({
    handlers,
    onFailure,
    wire: { write: (bytes) => socket?.write(bytes) ?? 0, end: () => void socket?.end() },
  })
  let socket: Bun.Socket | undefined
  const options = {
    fd,
    socket: {
      data(from: Bun.Socket, bytes: Uint8Array) {
        try {
          link.onBytes(bytes)
        } catch (error) {
          onFailure('a frame', error)
          from.terminate()
        }
      },
      drain: () => link.onDrain(),
      close() {
        link.onClose()
        onClose()
      },
    },
  }
  // Bun accepts a descriptor, but its types do not.
  socket = await Bun.connect(options as unknown as Bun.UnixSocketOptions)
  link.onDrain()
  return link
}

// Messages on a stream of bytes: each frame is its length, four bytes, and a JSON array of messages.

const headerBytes = 4
/** The size limit of a frame; a greater length means that the stream is broken. */
const mostFrameBytes = 512 * 1024 ** 2

/** Messages, each as JSON text, as one frame. */
export function frameOf(messages: readonly string[]): Buffer {
  const text = `[${messages.join(',')}]`
  const bytes = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(headerBytes + bytes)
  frame.writeUInt32LE(bytes)
  frame.write(text, headerBytes)
  return frame
}

/** Assembles frames from chunks of the stream. */
export class FrameReader {
  #pieces: Buffer[] = []
  #bytes = 0

  /** The contents of the frames that are complete now. Throws RangeError for an impossible length. */
  take(piece: Uint8Array): string[] {
    // Copied: the socket reuses its buffer.
    this.#pieces.push(Buffer.from(piece))
    this.#bytes += piece.byteLength
    const contents: string[] = []
    for (let length = this.#length(); length !== undefined; length = this.#length()) {
      if (this.#bytes < headerBytes + length) break
      const all = this.#join()
      contents.push(all.toString('utf8', headerBytes, headerBytes + length))
      this.#pieces = [all.subarray(headerBytes + length)]
      this.#bytes -= headerBytes + length
    }
    return contents
  }

  /** The length of the current frame; undefined until its header has arrived. */
  #length(): number | undefined {
    if (this.#bytes < headerBytes) return undefined
    if (this.#pieces[0]!.length < headerBytes) this.#join()
    const length = this.#pieces[0]!.readUInt32LE()
    if (length > mostFrameBytes) throw new RangeError(`a frame of ${length} bytes`)
    return length
  }

  /** All chunks joined: once for each frame, however many chunks it came in. */
  #join(): Buffer {
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = [all]
    return all
  }
}

// Values in JSON between two processes of one gateway. Types that JSON lacks are strings that begin with `~`.

const mark = '~'
const markCode = mark.charCodeAt(0)

/**
 * A value for JSON: bigint, bytes and `undefined` are marked, strings that begin with the mark are escaped. Throws
 * TypeError for what cannot be restored: functions, class instances, numbers that are not finite.
 */
export function packValue(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return value.charCodeAt(0) === markCode ? mark + value : value
    case 'bigint':
      return `${mark}n${value}`
    case 'undefined':
      return `${mark}u`
    case 'boolean':
      return value
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError('a number that is not finite cannot be sent')
      return value
    case 'object':
      return value === null ? null : packedObject(value)
    default:
      throw new TypeError(`a ${typeof value} cannot be sent`)
  }
}

function packedObject(value: object): unknown {
  if (Array.isArray(value)) return value.map(packValue)
  if (value instanceof Uint8Array)
    return `${mark}b${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}`
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError('an instance of a class cannot be sent')
  // Without a prototype, `__proto__` is an ordinary name.
  const copy: Record<string, unknown> = Object.create(null)
  for (const [name, each] of Object.entries(value)) copy[name] = packValue(each)
  return copy
}

/** The value that `packed` was given, from parsed JSON. Modifies `value`. */
export function unpackValue(value: unknown): unknown {
  if (typeof value === 'string') return value.charCodeAt(0) === markCode ? unmarkValue(value) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = unpackValue(value[at])
    return value
  }
  const fields = value as Record<string, unknown>
  // JSON.parse makes own properties of all names, also of `__proto__`.
  for (const name of Object.keys(fields)) fields[name] = unpackValue(fields[name])
  return fields
}

function unmarkValue(text: string): unknown {
  switch (text[1]) {
    case mark:
      return text.slice(1)
    case 'n':
      return BigInt(text.slice(2))
    case 'b':
      return new Uint8Array(Buffer.from(text.slice(2), 'base64'))
    case 'u':
      return undefined
    default:
      throw new TypeError('a marked value of an unknown kind')
  }
}
