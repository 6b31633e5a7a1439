// Splits a chunk with megabytes of text into several: each is repaired, measured and sent separately.

import { pieceCharacters, textPieces } from '../../../conversation/pieces.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { parseSteps } from '../../../json/parse.ts'
import type { Steps } from '../../../json/steps.ts'
import type { Frame } from '../../framing/sse.ts'
import { isObject } from '../../json.ts'

/** The text fields of a delta, which can be split. */
const textFields = ['content', 'reasoning_content', 'reasoning'] as const

/** Whether a frame may have to be taken apart. */
export function isLarge({ data }: Frame): boolean {
  return data.length > pieceCharacters
}

/** Splits a frame into several with a part of its text each; one that is small, or large otherwise, stays. */
export function* framesOf(frame: Frame): Steps<readonly Frame[]> {
  if (!isLarge(frame)) return [frame]
  yield
  try {
    const chunk = yield* parseSteps(frame.data)
    const chunks = isObject(chunk) ? piecesOf(chunk) : undefined
    return chunks?.map((piece) => ({ event: frame.event, data: JSON.stringify(piece) })) ?? [frame]
  } catch {
    // Not JSON; the reader of the frame reports it.
    return [frame]
  }
}

/** The parts of a chunk with one choice and one long text. */
function piecesOf(chunk: JsonObject): JsonObject[] | undefined {
  const { choices } = chunk
  const choice = Array.isArray(choices) && choices.length === 1 ? choices[0] : undefined
  if (!isObject(choice) || !isObject(choice.delta)) return undefined
  const { delta } = choice
  const field = textFields.find((name) => isLong(delta[name]))
  if (field === undefined) return undefined
  const [first, ...others] = textPieces(String(delta[field]))
  const { usage, ...opening } = chunk
  const { finish_reason = null, ...begun } = choice
  const pieceOf = (more: JsonObject, ending: JsonObject = {}): JsonObject => ({
    ...envelopeOf(chunk),
    choices: [{ ...('index' in choice ? { index: choice.index! } : {}), delta: more, ...ending }],
  })
  return [
    { ...opening, choices: [{ ...begun, delta: { ...delta, [field]: first! } }] },
    ...others.map((text) => pieceOf({ [field]: text })),
    ...(finish_reason === null && usage == null
      ? []
      : [{ ...pieceOf({}, { finish_reason }), ...(usage == null ? {} : { usage }) }]),
  ]
}

function isLong(value: Json | undefined): boolean {
  return typeof value === 'string' && value.length > pieceCharacters
}

function envelopeOf({ id, object, created, model }: JsonObject): JsonObject {
  const fields = { id, object, created, model }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject
}
