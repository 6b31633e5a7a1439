// Events of an answer in pieces: a provider may send megabytes in one, and each is written out in one go.

import type { ChatEvent } from './event.ts'
import type { ReasoningDetail } from './request.ts'

/** Characters of text in one piece. */
export const pieceCharacters = 65_536
/** Log probabilities in one piece. */
const pieceEntries = 256

/** The same answer in events without long texts or many log probabilities. An image stays whole. */
export function* inPieces(events: Iterable<ChatEvent>): Generator<ChatEvent> {
  for (const event of events) yield* piecesOf(event)
}

function* piecesOf(event: ChatEvent): Generator<ChatEvent> {
  switch (event.kind) {
    case 'text-delta':
    case 'refusal-delta':
      for (const text of textPieces(event.text)) yield { ...event, text }
      return
    case 'reasoning-delta':
      for (const detail of detailPieces(event.detail)) yield { ...event, detail }
      return
    case 'tool-call-delta':
      for (const text of textPieces(event.arguments)) yield { ...event, arguments: text }
      return
    case 'logprobs':
      if (event.content.length <= pieceEntries) return yield event
      for (let at = 0; at < event.content.length; at += pieceEntries) {
        const content = event.content.slice(at, at + pieceEntries)
        yield { ...event, content, refusal: at === 0 ? event.refusal : [] }
      }
      return
    default:
      yield event
  }
}

/** What closes a detail, its signature and what is encrypted, comes with its last piece. */
function* detailPieces(detail: ReasoningDetail): Generator<ReasoningDetail> {
  const { text } = detail
  if (text == null || text.length <= pieceCharacters) return yield detail
  const pieces = textPieces(text)
  const last = pieces.pop()!
  for (const piece of pieces)
    yield { type: detail.type, format: detail.format, index: detail.index, text: piece }
  yield { ...detail, text: last }
}

/** A text in pieces; the two halves of a character stay together. */
export function textPieces(text: string): string[] {
  if (text.length <= pieceCharacters) return [text]
  const pieces: string[] = []
  for (let from = 0; from < text.length;) {
    let to = from + pieceCharacters
    const last = text.charCodeAt(to - 1)
    if (last >= 0xd800 && last <= 0xdbff) to--
    pieces.push(text.slice(from, to))
    from = to
  }
  return pieces
}

/** Characters that an event is written in, about. */
export function sizeOf(event: ChatEvent): number {
  const frame = 256
  switch (event.kind) {
    case 'text-delta':
    case 'refusal-delta':
      return frame + event.text.length
    case 'reasoning-delta':
      return frame + (event.detail.text?.length ?? 0)
    case 'tool-call-delta':
      return frame + event.arguments.length
    case 'logprobs':
      return frame + 128 * event.content.length
    default:
      return frame
  }
}
