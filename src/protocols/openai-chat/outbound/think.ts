// Reasoning that arrives inside the text, as `<think>…</think>` at its start: taken apart while it streams.

/** Where in the text we are. `held` is text that may turn out to be part of a tag. */
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

/** Before the first text: the opening tag may come. */
export const beforeThinking: ThinkState = { phase: 'start', held: '' }

/** Tells a further piece of text apart. Only a tag at the very start opens reasoning; later ones are text. */
export function splitThinking(state: ThinkState, piece: string): readonly [ThinkState, ThinkSplit] {
  const text = state.held + piece
  switch (state.phase) {
    case 'text':
      return [state, { reasoning: '', text }]
    case 'start':
      return start(text)
    case 'opened':
      return opened(text)
    case 'inside':
      return inside(text)
    case 'after':
      return after(text)
  }
}

/** What is still held when the text ends: an unfinished tag is what it looks like, not a tag. */
export function endThinking(state: ThinkState): ThinkSplit {
  return state.phase === 'inside' ? { reasoning: state.held, text: '' } : { reasoning: '', text: state.held }
}

function start(text: string): readonly [ThinkState, ThinkSplit] {
  const visible = text.trimStart()
  if (visible.startsWith(opening)) return opened(visible.slice(opening.length))
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

/** The line break after the opening tag belongs to nothing, whether or not it comes in the same piece. */
function opened(text: string): readonly [ThinkState, ThinkSplit] {
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

/** The blank lines between the closing tag and the answer belong to neither. */
function after(text: string): readonly [ThinkState, ThinkSplit] {
  const visible = text.trimStart()
  return [
    { phase: visible === '' ? 'after' : 'text', held: '' },
    { reasoning: '', text: visible },
  ]
}

/** How many characters at the end may be the beginning of the closing tag. */
function tagPrefixAtEnd(text: string): number {
  for (let length = Math.min(closing.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(closing.slice(0, length))) return length
  }
  return 0
}
