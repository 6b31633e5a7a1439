// How long a provider asks us to wait: its retry and rate-limit headers, in all their notations.

/** Go's durations, as OpenAI, Groq and xAI write them: `17.399999999s`, `2ms`, `6m0s`. */
const goUnits: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

/** A number of this size is a time since 1970 in milliseconds (OpenRouter), not a duration. */
const earliestEpochMs = 1e12
/** The same in seconds (SambaNova). */
const earliestEpochSeconds = 1e9

/**
 * The shortest wait that the headers of an error name, in milliseconds; undefined where they name none.
 * A zero names none (Azure sends `retry-after-ms: 0` beside `retry-after: 1`). The reset of a limit counts only
 * when nothing remains of that limit: the others reset sooner and help nobody.
 */
export function retryAfterMs(headers: Headers): number | undefined {
  const waits = [
    number(headers.get('retry-after-ms')),
    secondsOrDate(headers.get('retry-after')),
    ...exhaustedResets(headers),
  ].filter((wait) => wait !== undefined && wait > 0) as number[]
  return waits.length === 0 ? undefined : Math.ceil(Math.min(...waits))
}

/** The wait that a message names: "Please try again in 7m12s", "retry after 30 seconds", "wait 5s"; undefined where it names none. */
export function waitInWordsMs(message: string): number | undefined {
  const stated =
    /\b(?:(?:try again|retry(?:ing)?) (?:in|after)|wait(?: for)?) (?:about |approximately )?(\d[\d.]*) ?([a-zµ]+[\d.a-zµ]*)/i.exec(
      message,
    )
  if (!stated) return undefined
  const [, amount = '', unit = ''] = stated
  const written = `${amount}${unit.replace(/\.$/, '')}`
  const inUnits = goDurationMs(written)
  const perUnit = wordUnits[unit.toLowerCase().replace(/s?\.?$/, '')]
  const wait = inUnits ?? (perUnit === undefined ? undefined : Number(amount) * perUnit)
  return wait === undefined || !(wait > 0) ? undefined : Math.ceil(wait)
}

/** Units as words, in the singular. */
const wordUnits: Readonly<Record<string, number>> = {
  millisecond: 1,
  sec: 1000,
  second: 1000,
  min: 60_000,
  minute: 60_000,
  hour: 3_600_000,
}

/** What a provider limits; Cerebras limits each in several windows. */
const limits = ['', '-requests', '-tokens'].flatMap((limit) =>
  limit === '' ? [limit] : [limit, ...['-minute', '-hour', '-day'].map((window) => limit + window)],
)

function exhaustedResets(headers: Headers): (number | undefined)[] {
  return limits
    .filter((limit) => headers.get(`x-ratelimit-remaining${limit}`)?.trim() === '0')
    .map((limit) => resetMs(headers.get(`x-ratelimit-reset${limit}`)))
}

function resetMs(value: string | null): number | undefined {
  const plain = number(value)
  if (plain === undefined) return goDurationMs(value)
  if (plain >= earliestEpochMs) return Math.max(0, plain - Date.now())
  return plain >= earliestEpochSeconds ? Math.max(0, plain * 1000 - Date.now()) : plain * 1000
}

/** A Go duration in milliseconds; undefined for anything else. */
function goDurationMs(value: string | null): number | undefined {
  if (value === null || !/^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$/.test(value)) return undefined
  let total = 0
  for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)) {
    total += Number(amount) * goUnits[unit!]!
  }
  return total
}

function secondsOrDate(value: string | null): number | undefined {
  const seconds = number(value)
  if (seconds !== undefined) return seconds * 1000
  const duration = goDurationMs(value)
  if (duration !== undefined) return duration
  const date = value === null ? Number.NaN : Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now())
}

function number(value: string | null): number | undefined {
  if (value === null || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined
  return Number(value)
}
