// Reads the beginning of a streamed answer, up to where failing over is no longer possible.

import type { ChatEvent } from '../../conversation/event.ts'
import { isObject, parseJson } from '../../protocols/json.ts'
import type { Memory } from '../../observe/memory.ts'
import type { ChatLimits } from '../limits.ts'
import { AttemptFailed, transportFault } from '../routing/fault-error.ts'
import type { ByteReader } from './relay.ts'
import { pushFrames, type StreamChannel } from './channel.ts'
import { isSmall, stepsOf, type Turns } from './turns.ts'

export interface Head {
  readonly reader: ByteReader
  /** The client's bytes so far. */
  readonly head: Uint8Array[]
  /** The provider's body ended within the head. */
  readonly ended: boolean
}

interface HeadParts {
  readonly turns: Turns
  readonly memory: Pick<Memory, 'makeRoom'>
  readonly limits: Pick<ChatLimits, 'answerBytes'>
}

/**
 * Reads a stream up to its first content or its end. A whole document labelled as a stream, as many errors and some
 * answers are, is read by `whole`. Rejects with AttemptFailed if there is no content in as many bytes as a whole answer
 * may have.
 */
export async function readHead(
  reader: ByteReader,
  channel: StreamChannel,
  whole: (body: unknown) => readonly ChatEvent[],
  { turns, memory, limits }: HeadParts,
): Promise<Head> {
  const received: Uint8Array[] = []
  let size = 0
  const head: Uint8Array[] = []
  const hasBegun = () => {
    const { started, finished, fault } = channel.progress
    return started || finished || fault !== undefined
  }
  for (;;) {
    const read = await reader.readMany()
    reader.onRead(read)
    const { done, value } = read
    const steps = (value ?? []).flatMap((bytes) => [...stepsOf(bytes)])
    for (const [at, piece] of steps.entries()) {
      received.push(piece)
      size += piece.length
      if (size > limits.answerBytes) {
        const message = `the stream has no content in ${limits.answerBytes} bytes`
        throw new AttemptFailed(transportFault('too-large', message))
      }
      if (!isSmall(piece)) memory.makeRoom()
      const made = pushFrames(turns, channel, piece, isSmall(piece) ? 'soon' : 'later')
      head.push(...(made instanceof Promise ? await made : made))
      // Anything after the first content is buffered for the client like the rest of the stream.
      if (hasBegun() && at + 1 < steps.length)
        return { reader: readerAfter(steps.slice(at + 1), done, reader), head, ended: false }
    }
    if (hasBegun()) {
      if (done) head.push(...channel.end())
      return { reader, head, ended: done }
    }
    if (!done) continue
    const document = parseJson(Buffer.concat(received).toString('utf8'))
    head.push(
      ...(isObject(document) ? await turns.whole(() => channel.take(whole(document))) : channel.end()),
    )
    return { reader, head, ended: true }
  }
}

/** A reader that returns the bytes already read, then the rest of the body. */
function readerAfter(read: readonly Uint8Array[], done: boolean, reader: ByteReader): ByteReader {
  const begun = [...read]
  let again: Uint8Array[] | undefined = begun
  return {
    readMany: () => {
      if (again === undefined) return done ? { done: true } : reader.readMany()
      const value = again
      again = undefined
      return { done: false, value }
    },
    onRead: (next) => {
      // The first of them came with the head.
      if (next.value !== begun) reader.onRead(next)
    },
    cancel: () => reader.cancel(),
  }
}

/** Whether a body labelled as JSON is a stream after all: server-sent events, or several lines of JSON. */
export function looksLikeStream(text: string): boolean {
  if (/^\s*(data|event|id|retry)?:/.test(text)) return true
  const [first, second] = text.trim().split('\n', 2)
  return second !== undefined && isObject(parseJson(first!)) && second.startsWith('{')
}
