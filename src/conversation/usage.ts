// What a call consumed, in disjoint buckets: no token is counted in two of them, so a price is a plain sum.

/** Tokens of one call, each in exactly one bucket, and the tool calls a provider charges for apart. */
export interface Usage {
  /** Fresh prompt tokens: neither read from nor written to a cache. */
  readonly input: number
  /** Prompt tokens served from the provider's cache. */
  readonly cacheRead: number
  /** Prompt tokens of audio served from the cache, where the provider counts them apart. */
  readonly cacheReadAudio: number
  /** Prompt tokens written to a cache that lives 5 minutes (or whose lifetime the provider does not name). */
  readonly cacheWrite5m: number
  /** Prompt tokens written to a cache that lives one hour. */
  readonly cacheWrite1h: number
  /** Visible completion tokens. */
  readonly output: number
  /** Completion tokens spent on reasoning, whether shown or not. */
  readonly reasoning: number
  /** Prompt tokens of audio, where the provider counts them apart. */
  readonly inputAudio: number
  /** Completion tokens of audio. */
  readonly outputAudio: number
  /** Prompt tokens of images, where the provider counts them apart. */
  readonly inputImage: number
  /** Completion tokens of images. */
  readonly outputImage: number
  /** Calls of tools that the provider itself ran and bills by the call, by name (`web_search`). */
  readonly toolCalls: Readonly<Record<string, number>>
  /** What the provider says the call cost, US dollars as a decimal string; undefined where it says nothing. */
  readonly reportedCost: string | undefined
  /**
   * What the provider charges for, where that is not what it counts (Cohere leaves its own prompt out of the bill).
   * Priced instead of the buckets; a bucket that is missing here costs nothing.
   */
  readonly billed?: Readonly<Partial<Record<TokenBucket, number>>>
  /** The service tier that the answer says it was served at (`priority`, `flex`); missing for the standard one. */
  readonly serviceTier?: string
  /**
   * Sides that the provider left out, or counted with what is no count (a negative number, one beyond all reason): zero
   * here, and not because nothing was consumed. Missing where both were counted.
   */
  readonly uncounted?: readonly Side[]
  /** Rounds that the provider says it has made of the call by itself, each with a prompt of its own. */
  readonly rounds?: number
  /** How much a search engine read for the answer (`low`, `high`), where the fee of a request depends on it. */
  readonly searchContext?: string
}

/** A call is counted on two sides. */
export type Side = 'prompt' | 'completion'

/** The names of the token buckets, in the order a receipt lists them. */
export const tokenBuckets = [
  'input',
  'cacheRead',
  'cacheReadAudio',
  'cacheWrite5m',
  'cacheWrite1h',
  'output',
  'reasoning',
  'inputAudio',
  'outputAudio',
  'inputImage',
  'outputImage',
] as const

export type TokenBucket = (typeof tokenBuckets)[number]

export const noUsage: Usage = {
  input: 0,
  cacheRead: 0,
  cacheReadAudio: 0,
  cacheWrite5m: 0,
  cacheWrite1h: 0,
  output: 0,
  reasoning: 0,
  inputAudio: 0,
  outputAudio: 0,
  inputImage: 0,
  outputImage: 0,
  toolCalls: {},
  reportedCost: undefined,
}

/** Including cached ones. */
export function promptTokens(usage: Usage): number {
  return (
    usage.input +
    usage.cacheRead +
    usage.cacheReadAudio +
    usage.cacheWrite5m +
    usage.cacheWrite1h +
    usage.inputAudio +
    usage.inputImage
  )
}

/** Including reasoning. */
export function completionTokens(usage: Usage): number {
  return usage.output + usage.reasoning + usage.outputAudio + usage.outputImage
}

/** The buckets that a side is counted in. */
export const bucketsOf: Readonly<Record<Side, readonly TokenBucket[]>> = {
  prompt: [
    'input',
    'cacheRead',
    'cacheReadAudio',
    'cacheWrite5m',
    'cacheWrite1h',
    'inputAudio',
    'inputImage',
  ],
  completion: ['output', 'reasoning', 'outputAudio', 'outputImage'],
}

/**
 * What holds of two counts of one answer, the later one second. Counters are cumulative, so the later one holds; but
 * one that counts nothing any more, or leaves a side out, does not take back what was counted before.
 */
export function laterUsage(before: Usage | undefined, later: Usage): Usage {
  if (before === undefined || !counts(before)) return later
  const { uncounted, ...counted } = later
  if (uncounted === undefined) return counts(later) ? later : { ...before, toolCalls: later.toolCalls }
  const kept = uncounted.filter((side) => before.uncounted?.includes(side) !== true)
  const buckets = kept.flatMap((side) => bucketsOf[side]).map((bucket) => [bucket, before[bucket]])
  const left = uncounted.filter((side) => !kept.includes(side))
  return { ...counted, ...Object.fromEntries(buckets), ...(left.length === 0 ? {} : { uncounted: left }) }
}

function counts(usage: Usage): boolean {
  return promptTokens(usage) + completionTokens(usage) > 0
}

/** The counters as one provider reports them: inclusive totals and the parts that may lie inside or beside them. */
export interface ReportedUsage {
  /** undefined where the provider has not counted it. */
  prompt: number | undefined
  completion: number | undefined
  /** What `prompt` already contains. */
  cacheRead?: number
  /** What `cacheRead` already contains. */
  cacheReadAudio?: number
  cacheWrite5m?: number
  cacheWrite1h?: number
  inputAudio?: number
  inputImage?: number
  /** What `completion` already contains. */
  reasoning?: number
  outputAudio?: number
  outputImage?: number
  toolCalls?: Readonly<Record<string, number>>
  reportedCost?: string
}

/**
 * Splits inclusive counters (the OpenAI convention) into disjoint buckets.
 * Parts larger than their whole are clamped to it: some providers report more cached tokens than prompt tokens
 * (Grok on Azure Foundry, 32 of 42 recordings), and a negative count must not be possible.
 */
export function disjoint(reported: ReportedUsage): Usage {
  const prompt = count(reported.prompt)
  const cached = within(prompt, reported.cacheRead)
  const cacheReadAudio = within(cached, reported.cacheReadAudio)
  const cacheWrite1h = within(prompt - cached, reported.cacheWrite1h)
  const written = cached + cacheWrite1h
  const cacheWrite5m = within(prompt - written, reported.cacheWrite5m)
  const fresh = prompt - written - cacheWrite5m
  const inputAudio = within(fresh, reported.inputAudio)
  const inputImage = within(fresh - inputAudio, reported.inputImage)
  const completion = count(reported.completion)
  const reasoning = within(completion, reported.reasoning)
  const outputAudio = within(completion - reasoning, reported.outputAudio)
  const outputImage = within(completion - reasoning - outputAudio, reported.outputImage)
  const usage: Usage = {
    input: fresh - inputAudio - inputImage,
    cacheRead: cached - cacheReadAudio,
    cacheReadAudio,
    cacheWrite1h,
    cacheWrite5m,
    inputAudio,
    inputImage,
    output: completion - reasoning - outputAudio - outputImage,
    reasoning,
    outputAudio,
    outputImage,
    toolCalls: reported.toolCalls ?? noUsage.toolCalls,
    reportedCost: reported.reportedCost,
  }
  return withUncounted(usage, reported)
}

/** As much of a part as its whole has left. Written out for each bucket: providers that count on every chunk ask often. */
function within(rest: number, part: number | undefined): number {
  return part === undefined ? 0 : Math.min(count(part), rest)
}

const standardTiers = new Set(['default', 'standard', 'standard_only', 'auto', 'on_demand', 'unspecified'])

/**
 * The service tier that an answer names, in the words of its provider in lower case; undefined for the standard one,
 * whatever it is called there (Google prefixes its names: `ON_DEMAND_FLEX` is `flex`).
 */
export function serviceTierOf(named: unknown): string | undefined {
  if (typeof named !== 'string' || named === '') return undefined
  const tier = named.toLowerCase().replace(/^(traffic_type|on_demand)_/, '')
  return standardTiers.has(tier) ? undefined : tier.slice(0, 64)
}

/** A counter as a whole number; undefined for what is missing and for what no counter can say. */
export function counter(value: unknown): number | undefined {
  const isCount = typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER
  return isCount ? Math.floor(value) : undefined
}

/** The usage with the sides named whose totals are missing. */
export function withUncounted(
  usage: Usage,
  totals: { readonly prompt: number | undefined; readonly completion: number | undefined },
): Usage {
  if (totals.prompt !== undefined && totals.completion !== undefined) return usage
  const uncounted = (['prompt', 'completion'] as const).filter((side) => totals[side] === undefined)
  return { ...usage, uncounted }
}

/** A counter as a whole, non-negative, safe number; anything else a provider may send counts as zero. */
export function count(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) return 0
  return Math.min(Math.floor(value), Number.MAX_SAFE_INTEGER)
}

// What several rounds of one call consumed together.

/**
 * The sum of two counts: for showing, since each was priced on its own (a tier goes by the prompt of one request). The
 * cost that a provider reported, and what it bills instead of its count, are in the prices already.
 */
export function addedUsage(a: Usage, b: Usage): Usage {
  const buckets = Object.fromEntries(tokenBuckets.map((bucket) => [bucket, a[bucket] + b[bucket]]))
  const toolCalls: Record<string, number> = { ...a.toolCalls }
  for (const [name, times] of Object.entries(b.toolCalls)) toolCalls[name] = (toolCalls[name] ?? 0) + times
  const serviceTier = b.serviceTier ?? a.serviceTier
  const uncounted = [...new Set([...(a.uncounted ?? []), ...(b.uncounted ?? [])])]
  return {
    ...noUsage,
    ...(buckets as Record<TokenBucket, number>),
    toolCalls,
    ...(serviceTier === undefined ? {} : { serviceTier }),
    ...(uncounted.length === 0 ? {} : { uncounted }),
  }
}
