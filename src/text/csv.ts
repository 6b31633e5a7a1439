// CSV as this gateway writes it: RFC 4180, and nothing that a spreadsheet would run.

type Cell = string | number | null

/** A heading and rows, each line with its end. */
export function csvOf<Column extends string>(
  headings: readonly Column[],
  rows: readonly Readonly<Record<Column, Cell>>[],
): string {
  return `${csvLine(headings)}${csvLines(headings, rows)}`
}

/** The lines of rows alone, each with its end. */
export function csvLines<Column extends string>(
  headings: readonly Column[],
  rows: readonly Readonly<Record<Column, Cell>>[],
): string {
  return rows.map((row) => csvLine(headings.map((heading) => row[heading]))).join('')
}

/** One line with its end; null is an empty cell. Text that a spreadsheet would take for a formula is marked as text. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(writeCell).join(',')}\r\n`
}

function writeCell(cell: Cell): string {
  if (cell === null) return ''
  const text =
    typeof cell === 'string' && /^[=+\-@\t\r]/.test(cell) && !isAmount(cell) ? `'${cell}` : String(cell)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function isAmount(text: string): boolean {
  return /^[+-]?\d+(\.\d+)?$/.test(text)
}

/** A count with its noun, in English: `1 model`, `2 models`; `entry` needs its plural. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
