// Gemini's usage counters as ours. Cached tokens lie inside the prompt count; thoughts and the prompts of built-in
// tools lie beside it (total = prompt + tool prompts + candidates + thoughts).

import { count, disjoint, type Usage } from '../../conversation/usage.ts'
import type { TokenDetail, UsageMetadata } from './schema.ts'

/**
 * The newest word on each counter: a chunk that leaves one out (Vertex sends only `trafficType` before its last
 * chunk) says nothing about it, while an explicit zero replaces what was there.
 */
export function mergeUsage(before: UsageMetadata | undefined, chunk: UsageMetadata): UsageMetadata {
  const told = Object.entries(chunk).filter(([, value]) => value !== undefined)
  return { ...before, ...Object.fromEntries(told) }
}

/** The counters in disjoint buckets; undefined when the provider counted nothing at all. */
export function usageOf(
  counters: UsageMetadata | undefined,
  toolCalls: Readonly<Record<string, number>>,
): Usage | undefined {
  if (counters === undefined || !countsAnything(counters)) return undefined
  const prompt = count(counters.promptTokenCount)
  const toolPrompt = count(counters.toolUsePromptTokenCount)
  const thoughts = count(counters.thoughtsTokenCount)
  const candidates =
    counters.candidatesTokenCount === undefined
      ? // Zero when left out, unless the total knows of more.
        Math.max(0, count(counters.totalTokenCount) - prompt - toolPrompt - thoughts)
      : count(counters.candidatesTokenCount)
  const asked = (modality: string) =>
    tokensOf(counters.promptTokensDetails, modality) +
    tokensOf(counters.toolUsePromptTokensDetails, modality) -
    // A cached token is already in the cache bucket, whatever it depicts.
    tokensOf(counters.cacheTokensDetails, modality)
  return disjoint({
    prompt: prompt + toolPrompt,
    completion: candidates + thoughts,
    cacheRead: Math.min(count(counters.cachedContentTokenCount), prompt),
    inputAudio: asked('AUDIO'),
    inputImage: asked('IMAGE'),
    reasoning: thoughts,
    outputAudio: tokensOf(counters.candidatesTokensDetails, 'AUDIO'),
    outputImage: tokensOf(counters.candidatesTokensDetails, 'IMAGE'),
    toolCalls: { ...toolCalls },
  })
}

function countsAnything(counters: UsageMetadata): boolean {
  return [
    counters.promptTokenCount,
    counters.candidatesTokenCount,
    counters.thoughtsTokenCount,
    counters.totalTokenCount,
  ].some((counter) => counter !== undefined)
}

function tokensOf(details: readonly TokenDetail[] | undefined, modality: string): number {
  return (details ?? [])
    .filter((detail) => detail.modality === modality)
    .reduce((sum, detail) => sum + count(detail.tokenCount), 0)
}
