// The beginning of a streamed answer: read as far as failing over is possible, and whatever its content type says.

import type { ChatEvent } from '../../conversation/event.ts'
import { isObject, parseJson } from '../../protocols/json.ts'
import type { ByteReader } from './relay.ts'
import type { StreamChannel } from './channel.ts'
import { isSmall, stepsOf, type Turns } from './turns.ts'

/** The beginning of a stream, and a reader for the rest. */
export interface Head {
  readonly reader: ByteReader
  /** What the client gets for it. */
  readonly head: Uint8Array[]
  /** The provider's body has ended within. */
  readonly ended: boolean
}

/**
 * Reads a stream up to its first content, or its end. A whole document that only calls itself a stream, as many an
 * error does and some answers, is read by `whole`.
 */
export async function readHead(
  reader: ByteReader,
  channel: StreamChannel,
  whole: (body: unknown) => readonly ChatEvent[],
  turns: Turns,
): Promise<Head> {
  const received: Uint8Array[] = []
  const head: Uint8Array[] = []
  const hasBegun = () => {
    const { started, finished, fault } = channel.progress
    return started || finished || fault !== undefined
  }
  for (;;) {
    const { done, value } = await reader.readMany()
    const steps = (value ?? []).flatMap((bytes) => [...stepsOf(bytes)])
    for (const [at, piece] of steps.entries()) {
      received.push(piece)
      const made = turns.through(channel.push(piece), isSmall(piece) ? 'soon' : 'later')
      head.push(...(made instanceof Promise ? await made : made))
      // What has come beyond the first content waits for the client like all the rest.
      if (hasBegun() && at + 1 < steps.length)
        return { reader: continued(steps.slice(at + 1), done, reader), head, ended: false }
    }
    if (hasBegun()) {
      if (done) head.push(...channel.end())
      return { reader, head, ended: done }
    }
    if (!done) continue
    const document = parseJson(Buffer.concat(received).toString('utf8'))
    head.push(...(isObject(document) ? await turns.through(channel.take(whole(document))) : channel.end()))
    return { reader, head, ended: true }
  }
}

/** A reader that gives again what has been read of a body, and then the rest of it. */
function continued(read: readonly Uint8Array[], done: boolean, reader: ByteReader): ByteReader {
  let again: Uint8Array[] | undefined = [...read]
  return {
    readMany: () => {
      if (again === undefined) return done ? { done: true } : reader.readMany()
      const value = again
      again = undefined
      return { done: false, value }
    },
    cancel: () => reader.cancel(),
  }
}

/** Whether a body that calls itself JSON is a stream all the same: of events, or of several lines of JSON. */
export function looksLikeStream(text: string): boolean {
  if (/^\s*(data|event|id|retry)?:/.test(text)) return true
  const [first, second] = text.trim().split('\n', 2)
  return second !== undefined && isObject(parseJson(first!)) && second.startsWith('{')
}
