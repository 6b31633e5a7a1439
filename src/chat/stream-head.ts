// The beginning of a streamed answer: read as far as failing over is possible, and whatever its content type says.

import type { ChatEvent } from '../conversation/event.ts'
import { isObject, parseJson } from '../protocols/json.ts'
import type { ByteReader } from './relay.ts'
import type { StreamChannel } from './stream-channel.ts'

/**
 * Reads a stream up to its first content, or its end. A whole document that only calls itself a stream, as many an
 * error does and some answers, is read by `whole`.
 */
export async function readHead(
  reader: ByteReader,
  channel: StreamChannel,
  whole: (body: unknown) => readonly ChatEvent[],
): Promise<{ reader: ByteReader; head: Uint8Array[]; ended: boolean }> {
  const received: Uint8Array[] = []
  const head: Uint8Array[] = []
  for (;;) {
    const { done, value } = await reader.readMany()
    for (const bytes of value ?? []) {
      received.push(bytes)
      head.push(...channel.push(bytes))
    }
    const { started, finished, fault } = channel.progress
    if (started || finished || fault !== undefined) {
      if (done) head.push(...channel.end())
      return { reader, head, ended: done }
    }
    if (!done) continue
    const document = parseJson(Buffer.concat(received).toString('utf8'))
    head.push(...(isObject(document) ? channel.take(whole(document)) : channel.end()))
    return { reader, head, ended: true }
  }
}

/** Whether a body that calls itself JSON is a stream all the same: of events, or of several lines of JSON. */
export function looksLikeStream(text: string): boolean {
  if (/^\s*(data|event|id|retry)?:/.test(text)) return true
  const [first, second] = text.trim().split('\n', 2)
  return second !== undefined && isObject(parseJson(first!)) && second.startsWith('{')
}
