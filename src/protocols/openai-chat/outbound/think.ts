// Separates reasoning in `<think>…</think>` at the start of the text, while it streams.

/** The position in the text. `held` may turn out to be part of a tag. */
export interface ThinkState {
  readonly phase: 'start' | 'opened' | 'inside' | 'after' | 'text'
  readonly held: string
}

/** A piece of the answer: text or reasoning. */
export interface ThinkSplit {
  readonly reasoning: string
  readonly text: string
}

const opening = '<think>'
const closing = '</think>'

/** Before the first text: the opening tag may follow. */
export const beforeThinking: ThinkState = { phase: 'start', held: '' }

/** Splits a further piece of text. Only a tag at the very start opens reasoning; later ones are text. */
export function splitThinking(state: ThinkState, piece: string): readonly [ThinkState, ThinkSplit] {
  const text = state.held + piece
  switch (state.phase) {
    case 'text':
      return [state, { reasoning: '', text }]
    case 'start':
      return start(text)
    case 'opened':
      return openThink(text)
    case 'inside':
      return inside(text)
    case 'after':
      return after(text)
  }
}

/** The text still held at the end: an incomplete tag is text. */
export function endThinking(state: ThinkState): ThinkSplit {
  return state.phase === 'inside' ? { reasoning: state.held, text: '' } : { reasoning: '', text: state.held }
}

function start(text: string): readonly [ThinkState, ThinkSplit] {
  const visible = text.trimStart()
  if (visible.startsWith(opening)) return openThink(visible.slice(opening.length))
  if (opening.startsWith(visible))
    return [
      { phase: 'start', held: text },
      { reasoning: '', text: '' },
    ]
  return [
    { phase: 'text', held: '' },
    { reasoning: '', text },
  ]
}

/** Drops the line break after the opening tag, even if it comes in another piece. */
function openThink(text: string): readonly [ThinkState, ThinkSplit] {
  const visible = text.trimStart()
  return visible === ''
    ? [
        { phase: 'opened', held: '' },
        { reasoning: '', text: '' },
      ]
    : inside(visible)
}

function inside(text: string): readonly [ThinkState, ThinkSplit] {
  const end = text.indexOf(closing)
  if (end >= 0) {
    const [state, rest] = after(text.slice(end + closing.length))
    return [state, { reasoning: text.slice(0, end), text: rest.text }]
  }
  const held = tagPrefixAtEnd(text)
  return [
    { phase: 'inside', held: text.slice(text.length - held) },
    { reasoning: text.slice(0, text.length - held), text: '' },
  ]
}

/** Drops the blank lines between the closing tag and the answer. */
function after(text: string): readonly [ThinkState, ThinkSplit] {
  const visible = text.trimStart()
  return [
    { phase: visible === '' ? 'after' : 'text', held: '' },
    { reasoning: '', text: visible },
  ]
}

/** The length of a possible beginning of the closing tag at the end of the text. */
function tagPrefixAtEnd(text: string): number {
  for (let length = Math.min(closing.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(closing.slice(0, length))) return length
  }
  return 0
}
