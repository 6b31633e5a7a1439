// Reads the body of a provider's answer within bounds, and parses it.

import type { Awaitable } from '../../awaitable.ts'
import type { Fault } from '../../conversation/event.ts'
import { decodeSteps } from '../../json/decode.ts'
import { type OpaqueNames, parseOpaque } from '../../json/exact.ts'
import { parseSteps } from '../../json/parse.ts'
import { shapeFault, shapeFaultSteps } from '../../json/shape.ts'
import { stepCharacters } from '../../json/steps.ts'
import { opaqueInAnswers } from '../../protocols/json.ts'
import { AttemptFailed, transportFault } from '../routing/fault-error.ts'
import type { BodyReader } from '../streaming/relay.ts'
import { littleCharacters, Turns } from '../streaming/turns.ts'

/** Objects, arrays and items of an answer; the log probabilities of a long one are many. */
const mostValues = 2_000_000
/** Bodies announced as at most this size are read in one go. */
const smallBodyBytes = 65_536

/**
 * The JSON of an answer. Throws, or rejects with, AttemptFailed if it is not JSON or is nested too deeply: the attempt failed like
 * any other and is not charged. `most` bounds the number of objects, arrays and items. Long integers are exact inside of
 * objects with an `opaque` name.
 */
export function parsedAnswer(
  response: Response,
  text: string,
  turns: Turns,
  most = mostValues,
  opaque = opaqueInAnswers,
): Awaitable<unknown> {
  if (text.length > littleCharacters) return parsedInSteps(response, text, turns, most, opaque)
  refuseShape(shapeFault(text, most))
  try {
    return parseOpaque(text, opaque)
  } catch {
    throw notJson(response, text)
  }
}

async function parsedInSteps(
  response: Response,
  text: string,
  turns: Turns,
  most: number,
  opaque: OpaqueNames,
): Promise<unknown> {
  // The runtime's own parser is the fastest, but takes the whole text in one step.
  const isOneStep = text.length <= stepCharacters
  refuseShape(isOneStep ? shapeFault(text, most) : await turns.through(shapeFaultSteps(text, most)))
  try {
    return await (isOneStep
      ? turns.run(() => parseOpaque(text, opaque))
      : turns.through(parseSteps(text, opaque)))
  } catch {
    throw notJson(response, text)
  }
}

function refuseShape(fault: string | undefined): void {
  if (fault !== undefined) throw new AttemptFailed(transportFault('too-large', `the answer ${fault}`))
}

function notJson(response: Response, text: string): AttemptFailed {
  const type = response.headers.get('content-type') ?? 'no content type'
  const what = text.trim() === '' ? 'an empty body' : `a body that is not JSON (${type.slice(0, 60)})`
  return new AttemptFailed(transportFault('broken', `the provider answered ${what}`))
}

/** What is put off with each part of a body. */
interface Deadline {
  extend(ms: number): void
}

const noDeadline: Deadline = { extend: () => undefined }

/** Reads at most `maxBytes` of a body as text, to protect the memory. Each part of it may take `gapMs`. */
export function boundedText(
  response: Response,
  maxBytes: number,
  deadline = noDeadline,
  gapMs = 0,
  turns = new Turns(),
): Promise<string> {
  deadline.extend(gapMs)
  if (announcedBytes(response.headers) <= Math.min(maxBytes, smallBodyBytes)) return response.text()
  return textInParts(response, maxBytes, deadline, gapMs, turns)
}

/** NaN if unknown: the length of a compressed body says nothing about its text, which can be a million times as long. */
function announcedBytes(headers: Headers): number {
  return headers.has('content-encoding') ? Number.NaN : Number(headers.get('content-length') ?? Number.NaN)
}

async function textInParts(
  response: Response,
  maxBytes: number,
  deadline: Deadline,
  gapMs: number,
  turns: Turns,
): Promise<string> {
  const reader = readerOf(response)
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.readMany()
    deadline.extend(gapMs)
    for (const bytes of value ?? []) {
      chunks.push(bytes)
      size += bytes.length
    }
    if (size > maxBytes) {
      await reader.cancel()
      const fault: Fault = transportFault('too-large', `the answer is larger than ${maxBytes} bytes`)
      throw new AttemptFailed(fault)
    }
    if (done) {
      return turns.through(decodeSteps(chunks))
    }
  }
}

export function readerOf(response: Response): BodyReader {
  const { body } = response
  if (!body) return { readMany: () => ({ done: true }), cancel: () => Promise.resolve() }
  return body.getReader() as unknown as BodyReader
}

/** A protocol's reading of an answer. Throws AttemptFailed if the answer cannot be read, like a broken stream. */
export function readWhole<Read>(read: () => Read): Read {
  try {
    return read()
  } catch (error) {
    throw new AttemptFailed(transportFault('broken', `the answer could not be read: ${String(error)}`))
  }
}
