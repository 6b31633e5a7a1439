// Text of others, made harmless for a terminal, which obeys control characters.

/** The C0 controls without tabs and line breaks (also those of CSV), DEL and the C1 controls. */
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\r(?!\n)/g
/** What JSON.stringify leaves of them. */
const controlsInJson = /[\u007f-\u009f]/g

/** The text with its control characters written as `\u001b`; tabs and line breaks stay. */
export function visible(text: string): string {
  return text.replace(controls, escapeControl)
}

/** The same within one line: tabs and line breaks are escaped, too. */
export function visibleInLine(text: string): string {
  return visible(text).replace(/[\t\r\n]/g, escapeControl)
}

/** JSON text of the same value without any control character. */
export function visibleJson(json: string): string {
  return json.replace(controlsInJson, escapeControl)
}

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}
