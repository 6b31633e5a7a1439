/**
 * Copies a text. Browsers have `navigator.clipboard` on secure origins only; elsewhere the text is selected in a field
 * beside `near` (a modal dialog makes the rest of the page inert) and copied from there. Resolves with whether it was.
 */
export async function copyText(text: string, near: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copySelected(text, near)
  }
}

function copySelected(text: string, near: Element): boolean {
  const focused = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.readOnly = true
  field.className = 'sr-only'
  near.after(field)
  field.select()
  // Deprecated, and the only way without navigator.clipboard.
  const copied = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return copied
}
