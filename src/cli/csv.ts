// CSV as spreadsheets and providers write it: RFC 4180 with a heading; cells are quoted where necessary.

/** A fault in a file, with its line. */
export class FileFault extends Error {}

export interface CsvRow {
  /** The line of the file on which the row begins, from 1. */
  readonly line: number
  readonly cells: readonly string[]
}

/**
 * The rows of a CSV text, including the heading, without blank lines. The separator is the comma, or semicolon or tab
 * if the heading has those. Throws FileFault for a quote that is out of place or never closed.
 */
export function csvRows(text: string): CsvRow[] {
  const heading = text.slice(0, text.search(/[\r\n]|$/)).replace(/"[^"]*"/g, '')
  const separator = [',', ';', '\t'].find((mark) => heading.includes(mark)) ?? ','
  const rows: CsvRow[] = []
  let line = 1
  let at = 0
  while (at < text.length) {
    const begins = line
    const cells: string[] = []
    for (;;) {
      const cell =
        text[at] === '"' ? quotedCell(text, at, separator, line) : plainCell(text, at, separator, line)
      cells.push(cell.value)
      line += cell.lines
      at = cell.end
      if (text[at] !== separator) break
      at++
    }
    if (text[at] === '\r') at++
    if (text[at] === '\n') at++
    line++
    if (cells.length > 1 || cells[0] !== '') rows.push({ line: begins, cells })
  }
  return rows
}

interface Cell {
  readonly value: string
  /** Where it ends in the text, and how many line breaks are in it. */
  readonly end: number
  readonly lines: number
}

function plainCell(text: string, from: number, separator: string, line: number): Cell {
  let end = from
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end++
  const value = text.slice(from, end)
  if (value.includes('"'))
    throw new FileFault(`line ${line}: a quote stands inside a cell that does not begin with one`)
  return { value: value.trim(), end, lines: 0 }
}

function quotedCell(text: string, from: number, separator: string, line: number): Cell {
  let value = ''
  let at = from + 1
  for (;;) {
    const quote = text.indexOf('"', at)
    if (quote < 0) throw new FileFault(`line ${line}: a quote is opened and never closed`)
    value += text.slice(at, quote)
    at = quote + 1
    if (text[at] !== '"') break
    value += '"'
    at++
  }
  const lines = value.split('\n').length - 1
  if (at < text.length && ![separator, '\r', '\n'].includes(text[at]!)) {
    throw new FileFault(`line ${line + lines}: a cell goes on behind its closing quote`)
  }
  return { value, end: at, lines }
}
