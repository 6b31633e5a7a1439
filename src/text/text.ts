// CSV: as this gateway writes it, by RFC 4180 with nothing that a spreadsheet would run, and as people give it.

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

interface CsvRow {
  /** Where it begins, counted from 1. */
  readonly line: number
  readonly cells: readonly string[]
}

/**
 * The rows of a file, empty lines left out; cells are trimmed. Its separator is the first of comma, semicolon and tab
 * that its first line with anything in it has. Throws `SyntaxError` with the line of a quote that does not end.
 */
export function parseCsv(text: string): CsvRow[] {
  const whole = text.replace(/^\uFEFF/, '')
  const [heading = ''] = whole.replace(/^[\r\n]+/, '').split(/\r?\n/, 1)
  const separator = [',', ';', '\t'].find((each) => heading.includes(each)) ?? ','
  const rows: CsvRow[] = []
  let [at, line] = [0, 1]
  while (at < whole.length) {
    const begins = line
    const cells: string[] = []
    for (;;) {
      let cell = ''
      if (whole[at] === '"') {
        let end = at + 1
        for (;;) {
          const quote = whole.indexOf('"', end)
          if (quote < 0) throw new SyntaxError(`the quote in line ${line} does not end`)
          cell += whole.slice(end, quote)
          end = quote + 1
          if (whole[end] !== '"') break
          cell += '"'
          end++
        }
        line += cell.split('\n').length - 1
        at = end
      }
      const rest = at
      while (at < whole.length && whole[at] !== separator && whole[at] !== '\n') at++
      cells.push((cell + whole.slice(rest, at)).trim())
      if (whole[at] !== separator) break
      at++
    }
    at++
    line++
    if (cells.some((cell) => cell !== '')) rows.push({ line: begins, cells })
  }
  return rows
}

// Text within HTML.

/** The text as HTML shows it, between tags and in attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

// The closest of a few names to a mistyped one.

/** The name among `candidates` that `typed` most likely meant; undefined when none is close. */
export function nearest(typed: string, candidates: readonly string[]): string | undefined {
  const wanted = typed.toLowerCase()
  const begun = candidates.filter((candidate) => candidate.toLowerCase().startsWith(`${wanted}_`))
  if (begun.length === 1) return begun[0]
  const allowed = Math.max(1, Math.floor(wanted.length / 3))
  let best: string | undefined
  let least = allowed + 1
  for (const candidate of candidates) {
    if (Math.abs(candidate.length - wanted.length) > allowed) continue
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (distance < least) [best, least] = [candidate, distance]
  }
  return best
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
export function editDistance(a: string, b: string): number {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      let cost = Math.min(above[column]! + 1, current[column - 1]! + 1, above[column - 1]! + (same ? 0 : 1))
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (swapped) cost = Math.min(cost, before[column - 2]! + 1)
      current.push(cost)
    }
    ;[before, above] = [above, current]
  }
  return above[b.length]!
}
