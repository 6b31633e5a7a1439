// The body of a provider's answer: read within bounds, and parsed.

import type { Fault } from '../../conversation/event.ts'
import { decodeSteps } from '../../json/decode.ts'
import { parseSteps } from '../../json/parse.ts'
import { shapeFault, shapeFaultSteps } from '../../json/shape.ts'
import { stepCharacters } from '../../json/steps.ts'
import { AttemptFailed, transportFault } from '../routing/fault-error.ts'
import type { ByteReader } from '../streaming/relay.ts'
import { Turns } from '../streaming/turns.ts'

/** Objects, arrays and items of a chat's answer: the log probabilities of a long one are many. */
const mostValues = 2_000_000
/** Bodies that announce at most this size are read in one go. */
const smallBodyBytes = 65_536

/**
 * The JSON of an answer. Rejects with AttemptFailed where it is none, and where it nests too deep to be given to anybody:
 * that attempt has failed as any other, and is charged to nobody. `most` bounds its objects, arrays and items.
 */
export async function parsedAnswer(
  response: Response,
  text: string,
  turns: Turns,
  most = mostValues,
): Promise<unknown> {
  // What is short is read in one step.
  const isShort = text.length <= stepCharacters
  const fault = isShort ? shapeFault(text, most) : await turns.through(shapeFaultSteps(text, most))
  if (fault !== undefined) throw new AttemptFailed(transportFault('broken', `the answer ${fault}`))
  try {
    return isShort
      ? await turns.run(() => JSON.parse(text) as unknown)
      : await turns.through(parseSteps(text))
  } catch {
    const type = response.headers.get('content-type') ?? 'no content type'
    const what = text.trim() === '' ? 'an empty body' : `a body that is not JSON (${type.slice(0, 60)})`
    throw new AttemptFailed(transportFault('broken', `the provider answered ${what}`))
  }
}

/**
 * Reads a body as text, at most `maxBytes` of it: a provider must not fill the memory. `onBytes` is called whenever
 * some of it has come.
 */
export async function boundedText(
  response: Response,
  maxBytes: number,
  onBytes: () => void = () => undefined,
  turns = new Turns(),
): Promise<string> {
  onBytes()
  const announced = Number(response.headers.get('content-length') ?? Number.NaN)
  if (announced <= Math.min(maxBytes, smallBodyBytes)) return response.text()
  const reader = readerOf(response)
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.readMany()
    onBytes()
    for (const bytes of value ?? []) {
      chunks.push(bytes)
      size += bytes.length
    }
    if (size > maxBytes) {
      await reader.cancel()
      const fault: Fault = transportFault('broken', `the answer is larger than ${maxBytes} bytes`)
      throw new AttemptFailed(fault)
    }
    if (done) {
      return turns.through(decodeSteps(chunks))
    }
  }
}

export function readerOf(response: Response): ByteReader {
  const { body } = response
  if (!body) return { readMany: () => ({ done: true }), cancel: () => Promise.resolve() }
  return body.getReader() as unknown as ByteReader
}

/** What a protocol makes of an answer. Throws AttemptFailed where it cannot be read, as a stream then is broken. */
export function readWhole<Read>(read: () => Read): Read {
  try {
    return read()
  } catch (error) {
    throw new AttemptFailed(transportFault('broken', `the answer could not be read: ${String(error)}`))
  }
}
