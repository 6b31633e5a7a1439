// Answers that have begun and are not yet saved as the last of their conversation. Kept by the browser, since the page
// may be closed or reloaded in the middle of one; ids only, no texts.

export interface Unsaved {
  /** The id of the response. */
  readonly response: string
  /** Where the conversation stood before; if it stands elsewhere now, another tab has continued it. */
  readonly before: string | null
}

const keyOf = (conversation: string) => `weir.unsaved.${conversation}`

export function rememberUnsaved(conversation: string, unsaved: Unsaved): void {
  try {
    localStorage.setItem(keyOf(conversation), JSON.stringify(unsaved))
  } catch {
    // The browser keeps nothing: then only a page that stays open saves its answers.
  }
}

export function unsavedIn(conversation: string): Unsaved | undefined {
  try {
    const text = localStorage.getItem(keyOf(conversation))
    return text === null ? undefined : (JSON.parse(text) as Unsaved)
  } catch {
    return undefined
  }
}

export function forgetUnsaved(conversation: string): void {
  try {
    localStorage.removeItem(keyOf(conversation))
  } catch {
    // As above.
  }
}
