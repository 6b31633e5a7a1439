// Converts Gemini's counters. Cached tokens are inside the prompt count; thoughts and the prompts of built-in tools
// are separate (total = prompt + tool prompts + candidates + thoughts).

import { count, counter, disjoint, serviceTierOf, type Usage } from '../../../conversation/usage.ts'
import type { TokenDetail, UsageMetadata } from './schema.ts'

/**
 * The latest value of each counter: a chunk without one (Vertex sends only `trafficType` before its last chunk) does
 * not change it, while an explicit zero does.
 */
export function mergeUsage(before: UsageMetadata | undefined, chunk: UsageMetadata): UsageMetadata {
  return {
    promptTokenCount: chunk.promptTokenCount ?? before?.promptTokenCount,
    candidatesTokenCount: chunk.candidatesTokenCount ?? before?.candidatesTokenCount,
    thoughtsTokenCount: chunk.thoughtsTokenCount ?? before?.thoughtsTokenCount,
    toolUsePromptTokenCount: chunk.toolUsePromptTokenCount ?? before?.toolUsePromptTokenCount,
    cachedContentTokenCount: chunk.cachedContentTokenCount ?? before?.cachedContentTokenCount,
    totalTokenCount: chunk.totalTokenCount ?? before?.totalTokenCount,
    promptTokensDetails: chunk.promptTokensDetails ?? before?.promptTokensDetails,
    cacheTokensDetails: chunk.cacheTokensDetails ?? before?.cacheTokensDetails,
    candidatesTokensDetails: chunk.candidatesTokensDetails ?? before?.candidatesTokensDetails,
    toolUsePromptTokensDetails: chunk.toolUsePromptTokensDetails ?? before?.toolUsePromptTokensDetails,
    trafficType: chunk.trafficType ?? before?.trafficType,
    serviceTier: chunk.serviceTier ?? before?.serviceTier,
  }
}

/** The counters in disjoint buckets; undefined if the provider counted nothing. */
export function usageOf(
  counters: UsageMetadata | undefined,
  toolCalls: Record<string, number>,
): Usage | undefined {
  if (counters === undefined || !countsAnything(counters)) return undefined
  const counted = counter(counters.promptTokenCount)
  const prompt = counted ?? 0
  const toolPrompt = count(counters.toolUsePromptTokenCount)
  const thoughts = count(counters.thoughtsTokenCount)
  const total = counter(counters.totalTokenCount)
  const candidates =
    counters.candidatesTokenCount === undefined && total !== undefined
      ? // Zero when left out, unless the total knows of more.
        Math.max(0, total - prompt - toolPrompt - thoughts)
      : counter(counters.candidatesTokenCount)
  const serviceTier = serviceTierOf(counters.serviceTier ?? counters.trafficType)
  const usage = disjoint({
    prompt: counted === undefined ? undefined : counted + toolPrompt,
    completion: candidates === undefined ? undefined : candidates + thoughts,
    cacheRead: Math.min(count(counters.cachedContentTokenCount), prompt),
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

/** The prompt tokens of one modality. Cached tokens are in the cache bucket, whatever their modality. */
function askedIn(counters: UsageMetadata, modality: string): number {
  return (
    tokensOf(counters.promptTokensDetails, modality) +
    tokensOf(counters.toolUsePromptTokensDetails, modality) -
    tokensOf(counters.cacheTokensDetails, modality)
  )
}

function countsAnything(counters: UsageMetadata): boolean {
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
