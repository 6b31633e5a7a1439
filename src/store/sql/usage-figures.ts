// Figures of usage: added up, taken from one another, and written as cells.

import { dayMs } from '../../credits/calendar.ts'
import { formatUsd } from '../../credits/money.ts'
import {
  averageMs,
  type UsageFigures,
  type UsageOfDay,
  type UsageQuery,
  type UsageReport,
  type UsageSum,
} from '../../observe/call-log.ts'

/** The columns of a month with what each of its days has cost. */
export const costColumns = Array.from({ length: 31 }, (_, day) => `cost_${day + 1}`)

export interface FiguresRow {
  readonly calls: bigint
  readonly errors: bigint
  readonly input_tokens: bigint
  readonly output_tokens: bigint
  readonly cost: bigint
  readonly charged: bigint
  readonly timed: bigint
  readonly ms: bigint
}

export function figuresOf(row: FiguresRow): UsageFigures {
  return {
    calls: Number(row.calls),
    errors: Number(row.errors),
    inputTokens: Number(row.input_tokens),
    outputTokens: Number(row.output_tokens),
    cost: row.cost,
    charged: row.charged,
    timed: Number(row.timed),
    ms: Number(row.ms),
  }
}

const nothing: UsageFigures = {
  calls: 0,
  errors: 0,
  inputTokens: 0,
  outputTokens: 0,
  cost: 0n,
  charged: 0n,
  timed: 0,
  ms: 0,
}

export function totalOf(rows: readonly UsageFigures[]): UsageFigures {
  return rows.reduce(plus, nothing)
}

function plus(a: UsageFigures, b: UsageFigures): UsageFigures {
  return combine(a, b, 1)
}

function combine(a: UsageFigures, b: UsageFigures, sign: 1 | -1): UsageFigures {
  return {
    calls: a.calls + sign * b.calls,
    errors: a.errors + sign * b.errors,
    inputTokens: a.inputTokens + sign * b.inputTokens,
    outputTokens: a.outputTokens + sign * b.outputTokens,
    cost: a.cost + BigInt(sign) * b.cost,
    charged: a.charged + BigInt(sign) * b.charged,
    timed: a.timed + sign * b.timed,
    ms: a.ms + sign * b.ms,
  }
}

export function daysOf(rows: readonly UsageOfDay[]): UsageOfDay[] {
  const days = new Map<number, UsageFigures>()
  for (const row of rows) days.set(row.day, plus(days.get(row.day) ?? nothing, row))
  return [...days].map(([day, figures]) => ({ day, ...figures }))
}

/** `days` are of all groups, and `hidden` is how many of them have no rows. */
export function reportOf(
  rows: readonly UsageSum[],
  days: readonly UsageOfDay[],
  hidden: number,
): UsageReport {
  const shown = new Map(daysOf(rows).map((day) => [day.day, day]))
  const rest = days
    .map(({ day, ...figures }) => ({ day, ...combine(figures, shown.get(day) ?? nothing, -1) }))
    .filter(({ calls }) => calls > 0)
  return { rows, totals: totalOf(days), rest: hidden > 0 ? { groups: hidden, days: rest } : null }
}

export function byCost(a: bigint, b: bigint): number {
  return a === b ? 0 : a < b ? 1 : -1
}

/** What calls without the tag have come to, from what all have. */
export function withoutTag(whole: readonly UsageOfDay[], tagged: readonly UsageOfDay[]): UsageSum[] {
  const of = new Map(tagged.map((row) => [row.day, row]))
  return whole
    .map(({ day, ...figures }) => ({
      day,
      group: '',
      label: null,
      ...combine(figures, of.get(day) ?? nothing, -1),
    }))
    .filter(({ calls }) => calls > 0)
}

/** Cells of the CSV; a month is written without a day. */
export function cellsOf(per: UsageQuery['per']) {
  const length = per === 'month' ? 'yyyy-mm'.length : 'yyyy-mm-dd'.length
  return ({
    day,
    group,
    label,
    calls,
    errors,
    cost,
    charged,
    inputTokens,
    outputTokens,
    ...times
  }: UsageSum) => ({
    day: new Date(day).toISOString().slice(0, length),
    group,
    label,
    calls,
    errors,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cost: formatUsd(cost),
    charged: formatUsd(charged),
    average_ms: averageMs(times),
  })
}

/** What a row of a month has cost on these days of it, as an expression; `row` names the row. */
export function costIn(row: string, mask: number): string {
  const columns = (isAsked: boolean) =>
    costColumns.filter((_, day) => (Math.floor(mask / 2 ** day) % 2 === 1) === isAsked)
  const sum = (names: readonly string[]) => names.map((name) => `coalesce(${row}.${name}, 0)`)
  const others = columns(false)
  // Of most days it is what the whole month has cost without the few others.
  if (others.length < costColumns.length / 2) return `(${[`${row}.cost`, ...sum(others)].join(' - ')})`
  return `(${['0', ...sum(columns(true))].join(' + ')})`
}

/** The midnights from the first to before the other. */
export function daysWithin(from: number, until: number): number[] {
  const days: number[] = []
  for (let day = from; day < until; day += dayMs) days.push(day)
  return days
}
