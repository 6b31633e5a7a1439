// Reads a provider's usage export as lines of id and cost, or of day, model and cost: CSV, JSON or JSON Lines, with
// configurable columns.

import type { BilledLine, InvoiceLine } from '../credits/ledger/reconcile.ts'
import type { Pico } from '../credits/money.ts'

/** The columns that the operator has named. */
export interface ColumnMap {
  readonly upstream_id?: string
  readonly cost?: string
  readonly day?: string
  readonly model?: string
  readonly input_tokens?: string
  readonly output_tokens?: string
}

/** Tried in this order if the operator names no column. */
export const usualColumns: Readonly<Record<keyof ColumnMap, readonly string[]>> = {
  upstream_id: ['upstream_id', 'id', 'generation_id', 'response_id', 'request_id'],
  cost: ['cost', 'cost_usd', 'total_cost', 'amount', 'amount.value', 'usage'],
  day: ['day', 'date', 'usage_date', 'usage_date_utc', 'start_time', 'timestamp'],
  model: ['model', 'model_name', 'model_version', 'snapshot_id', 'line_item', 'sku'],
  input_tokens: ['input_tokens', 'prompt_tokens', 'tokens_prompt'],
  output_tokens: ['output_tokens', 'completion_tokens', 'tokens_completion'],
}

export interface UsageExport {
  readonly lines: readonly BilledLine[]
  /** How many costs were finer than a picodollar and were rounded. */
  readonly rounded: number
}

/** The position of a value, for people: `line 7` or `entry 7`. */
interface Entry {
  readonly where: string
  readonly value: (column: string) => unknown
}

/**
 * Reads an export; the first character shows its format. Throws FileFault with the line and the column of the first
 * value that cannot be read.
 */
export function readUsageExport(text: string, map: ColumnMap): UsageExport {
  const { columns, entries } = entriesOf(text)
  const idColumn = columnOf('upstream_id', map, columns)
  const costColumn = columnOf('cost', map, columns)
  let rounded = 0
  const lines = entries.map((entry): BilledLine => {
    const cost = costOf(entry, costColumn)
    if (cost.rounded) rounded++
    return { upstreamId: idOf(entry, idColumn), cost: cost.amount }
  })
  return { lines, rounded }
}

function entriesOf(text: string): { columns: readonly string[]; entries: Entry[] } {
  const plain = text.replace(/^\uFEFF/, '')
  const first = plain.trimStart()[0]
  if (first === undefined) throw new FileFault('the file is empty')
  return first === '[' || first === '{' ? jsonEntries(plain) : csvEntries(plain)
}

/** Whether an export has sums by model and day: it has columns for both, and none for an id. */
export function isInvoice(text: string, map: ColumnMap): boolean {
  const { columns } = entriesOf(text)
  const has = (meaning: keyof ColumnMap) => findColumn(meaning, map, columns) !== undefined
  if (map.upstream_id !== undefined) return false
  return (
    has('day') && has('model') && (map.day !== undefined || map.model !== undefined || !has('upstream_id'))
  )
}

/** Reads such an export. Throws FileFault as `readUsageExport` does. */
export function readInvoice(text: string, map: ColumnMap): readonly InvoiceLine[] {
  const { columns, entries } = entriesOf(text)
  const day = columnOf('day', map, columns)
  const model = columnOf('model', map, columns)
  const cost = columnOf('cost', map, columns)
  const tokens = (['input_tokens', 'output_tokens'] as const).flatMap(
    (meaning) => findColumn(meaning, map, columns) ?? [],
  )
  return entries.map((entry): InvoiceLine => {
    const { amount, unit } = costOf(entry, cost)
    return {
      day: dayIn(entry, day),
      model: idOf(entry, model),
      cost: amount,
      unit,
      tokens: tokens.length === 0 ? null : tokens.reduce((all, column) => all + tokensOf(entry, column), 0),
    }
  })
}

/** `2026-11-28`, `20261128`, a time of ISO 8601, or seconds or milliseconds since 1970. */
function dayIn({ where, value }: Entry, column: string): string {
  const cell = value(column)
  const text = typeof cell === 'string' || typeof cell === 'number' ? String(cell).trim() : ''
  const compact = /^(20\d\d)(\d\d)(\d\d)$/.exec(text)
  const iso = /^\d{4}-\d{2}-\d{2}([T ].*)?$/.test(text) ? text : undefined
  const epoch = /^\d{9,13}(\.\d+)?$/.test(text) ? Number(text) * (text.length > 11 ? 1 : 1000) : undefined
  const at = compact ? Date.parse(compact.slice(1).join('-')) : iso ? utc(iso) : (epoch ?? Number.NaN)
  if (Number.isNaN(at)) {
    throw new FileFault(
      `${where}, column ${column}: a day is written as 2026-11-28, not ${JSON.stringify(cell ?? null)}`,
    )
  }
  return new Date(at).toISOString().slice(0, 10)
}

/** A time without a zone is of UTC. */
function utc(text: string): number {
  const time = text.replace(' ', 'T').replace(/ UTC$/, 'Z')
  return Date.parse(time.length > 10 && !/(Z|[+-]\d\d:?\d\d)$/.test(time) ? `${time}Z` : time)
}

function tokensOf({ where, value }: Entry, column: string): number {
  const cell = value(column) ?? 0
  const count = typeof cell === 'string' ? Number(cell.replaceAll(',', '')) : cell
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  throw new FileFault(`${where}, column ${column}: tokens are a whole number, not ${JSON.stringify(cell)}`)
}

function csvEntries(text: string): { columns: readonly string[]; entries: Entry[] } {
  const [heading, ...rows] = csvRows(text)
  const columns = heading?.cells ?? []
  const twice = columns.find((name, at) => columns.indexOf(name) !== at)
  if (twice !== undefined)
    throw new FileFault(`line 1: the column ${JSON.stringify(twice)} stands there twice`)
  const entries = rows.map(({ line, cells }): Entry => {
    if (cells.length !== columns.length) {
      throw new FileFault(`line ${line}: ${cells.length} cells where the heading has ${columns.length}`)
    }
    return { where: `line ${line}`, value: (column) => cells[columns.indexOf(column)] }
  })
  return { columns, entries }
}

/** A list, an object with a list in `data`, or one object per line. */
function jsonEntries(text: string): { columns: readonly string[]; entries: Entry[] } {
  const whole = parseJson(text)
  const list = Array.isArray(whole) ? whole : listIn(whole)
  const numbered: [where: string, value: unknown][] =
    list === undefined ? jsonLines(text) : list.map((value, at) => [`entry ${at + 1}`, value])
  const columns = new Set<string>()
  const entries = numbered.map(([where, value]): Entry => {
    if (typeof value !== 'object' || value === null) throw new FileFault(`${where}: it is not an object`)
    for (const name of namesIn(value, '')) columns.add(name)
    return { where, value: (column) => inside(value, column) }
  })
  return { columns: [...columns], entries }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // JSON Lines are not JSON as a whole; a list that cannot be read is a fault.
    if (text.trimStart().startsWith('{')) return undefined
    throw new FileFault(`the JSON cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function listIn(whole: unknown): readonly unknown[] | undefined {
  if (typeof whole !== 'object' || whole === null) return undefined
  const data: unknown = Reflect.get(whole, 'data')
  return Array.isArray(data) ? data : [whole]
}

function jsonLines(text: string): [string, unknown][] {
  return text.split('\n').flatMap((line, at): [string, unknown][] => {
    if (line.trim() === '') return []
    const where = `line ${at + 1}`
    try {
      return [[where, JSON.parse(line)]]
    } catch (error) {
      throw new FileFault(`${where}: ${error instanceof Error ? error.message : String(error)}`)
    }
  })
}

/** The columns of an object; those of nested objects are named like `usage.cost`. */
function namesIn(value: object, prefix: string): string[] {
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? namesIn(inner, `${prefix}${name}.`)
      : [`${prefix}${name}`],
  )
}

function inside(value: object, column: string): unknown {
  if (Object.hasOwn(value, column)) return Reflect.get(value, column)
  return column
    .split('.')
    .reduce<unknown>(
      (inner, name) =>
        typeof inner === 'object' && inner !== null && Object.hasOwn(inner, name)
          ? Reflect.get(inner, name)
          : undefined,
      value,
    )
}

function columnOf(meaning: keyof ColumnMap, map: ColumnMap, columns: readonly string[]): string {
  const named = map[meaning]
  const found = findColumn(meaning, map, columns)
  if (found !== undefined) return found
  const there = columns.slice(0, 30).join(', ')
  throw new FileFault(
    named === undefined
      ? `no column looks like the ${meaning}: name it with --map ${meaning}=COLUMN (there are: ${there})`
      : `there is no column ${JSON.stringify(named)} for the ${meaning} (there are: ${there})`,
  )
}

function findColumn(
  meaning: keyof ColumnMap,
  map: ColumnMap,
  columns: readonly string[],
): string | undefined {
  const named = map[meaning]
  return (named === undefined ? usualColumns[meaning] : [named])
    .map((wanted) => columns.find((column) => column.toLowerCase() === wanted.toLowerCase()))
    .find((column) => column !== undefined)
}

function idOf({ where, value }: Entry, column: string): string {
  const id = value(column) ?? ''
  if (typeof id === 'string' || typeof id === 'number') return String(id)
  throw new FileFault(`${where}, column ${column}: an id is text, not ${JSON.stringify(id)}`)
}

function costOf({ where, value }: Entry, column: string): { amount: Pico; unit: Pico; rounded: boolean } {
  const cell = value(column)
  const cost = typeof cell === 'string' || typeof cell === 'number' ? usdOf(String(cell)) : undefined
  if (cost !== undefined) return cost
  throw new FileFault(
    `${where}, column ${column}: a cost is US dollars such as 0.0125, not ${JSON.stringify(cell ?? null)}`,
  )
}

/** `0.0125`, `$0.0125`, `1.25e-2`; rounded to the nearest picodollar, half away from zero. */
function usdOf(text: string): { amount: Pico; unit: Pico; rounded: boolean } | undefined {
  const match = /^(-?)\$?(\d{1,9})(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2}))?$/.exec(text.trim())
  if (!match) return undefined
  const [, sign, whole, fraction = '', exponent = '0'] = match
  const digits = BigInt(whole! + fraction)
  const places = fraction.length - Number(exponent) - 12
  const scale = 10n ** BigInt(Math.abs(places))
  const amount = places <= 0 ? digits * scale : (digits + scale / 2n) / scale
  const unit = places <= 0 ? scale : 1n
  return { amount: sign === '-' ? -amount : amount, unit, rounded: places > 0 && digits % scale !== 0n }
}

// CSV as spreadsheets and providers write it: RFC 4180 with a heading; cells are quoted where necessary.

/** A fault in a file, with its line. */
export class FileFault extends Error {}

interface CsvRow {
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
