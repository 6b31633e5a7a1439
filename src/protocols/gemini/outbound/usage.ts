// Converts Gemini's counters. Cached tokens are inside the prompt count; thoughts and the prompts of built-in tools
// are separate (total = prompt + tool prompts + candidates + thoughts).

import { count, counter, disjoint, serviceTierOf, type Usage } from '../../../conversation/usage.ts'
import type { TokenDetail, UsageMetadata } from './schema.ts'

/** The latest value of each counter of an answer. */
export type Counters = { -readonly [Name in CounterName]?: UsageMetadata[Name] }

const counterNames = [
  'promptTokenCount',
  'candidatesTokenCount',
  'thoughtsTokenCount',
  'toolUsePromptTokenCount',
  'cachedContentTokenCount',
  'totalTokenCount',
  'promptTokensDetails',
  'cacheTokensDetails',
  'candidatesTokensDetails',
  'toolUsePromptTokensDetails',
  'trafficType',
  'serviceTier',
] as const
type CounterName = (typeof counterNames)[number]

/**
 * Takes the counters of a chunk: one without a counter (Vertex sends only `trafficType` before its last chunk) does not
 * change it, while an explicit zero does.
 */
export function updateCounters(counters: Counters, chunk: UsageMetadata): void {
  for (const name of counterNames) update(counters, chunk, name)
}

function update<Name extends CounterName>(
  counters: Counters,
  chunk: Pick<UsageMetadata, Name>,
  name: Name,
): void {
  const value = chunk[name]
  if (value !== undefined) counters[name] = value
}

/** The counters in disjoint buckets; undefined if the provider counted nothing. */
export function usageOf(counters: Counters, toolCalls: Record<string, number>): Usage | undefined {
  if (!countsAnything(counters)) return undefined
  const toolPrompt = count(counters.toolUsePromptTokenCount)
  const thoughts = count(counters.thoughtsTokenCount)
  const { prompt, candidates } = partsOf(counters, toolPrompt + thoughts)
  const serviceTier = serviceTierOf(counters.serviceTier ?? counters.trafficType)
  const usage = disjoint({
    prompt: prompt === undefined ? undefined : prompt + toolPrompt,
    completion: candidates === undefined ? undefined : candidates + thoughts,
    cacheRead: Math.min(count(counters.cachedContentTokenCount), prompt ?? 0),
    cacheReadAudio: tokensOf(counters.cacheTokensDetails, 'AUDIO'),
    inputAudio: askedIn(counters, 'AUDIO'),
    inputImage: askedIn(counters, 'IMAGE'),
    reasoning: thoughts,
    outputAudio: tokensOf(counters.candidatesTokensDetails, 'AUDIO'),
    outputImage: tokensOf(counters.candidatesTokensDetails, 'IMAGE'),
    toolCalls,
  })
  return serviceTier === undefined ? usage : { ...usage, serviceTier }
}

/**
 * The prompt and the candidates. The total gives the one that is left out; what it has beyond all that is counted (`other`
 * are the counters beside these two) is output. A counter that is there and cannot be is none.
 */
function partsOf(
  counters: Counters,
  other: number,
): { readonly prompt: number | undefined; readonly candidates: number | undefined } {
  const prompt = counter(counters.promptTokenCount)
  const candidates = counter(counters.candidatesTokenCount)
  const total = counter(counters.totalTokenCount)
  if (total === undefined) return { prompt, candidates }
  const rest = Math.max(0, total - other)
  if (prompt === undefined) {
    const isLeftOut = counters.promptTokenCount === undefined && candidates !== undefined
    return { prompt: isLeftOut ? Math.max(0, rest - candidates) : undefined, candidates }
  }
  if (candidates === undefined && counters.candidatesTokenCount !== undefined) return { prompt, candidates }
  return { prompt, candidates: Math.max(candidates ?? 0, rest - prompt) }
}

/** The prompt tokens of one modality. Cached tokens are in the cache bucket, whatever their modality. */
function askedIn(counters: Counters, modality: string): number {
  return (
    tokensOf(counters.promptTokensDetails, modality) +
    tokensOf(counters.toolUsePromptTokensDetails, modality) -
    tokensOf(counters.cacheTokensDetails, modality)
  )
}

function countsAnything(counters: Counters): boolean {
  return (
    counters.promptTokenCount !== undefined ||
    counters.candidatesTokenCount !== undefined ||
    counters.thoughtsTokenCount !== undefined ||
    counters.totalTokenCount !== undefined
  )
}

function tokensOf(details: readonly TokenDetail[] | undefined, modality: string): number {
  if (details === undefined) return 0
  let sum = 0
  for (const detail of details) if (detail.modality === modality) sum += count(detail.tokenCount)
  return sum
}
