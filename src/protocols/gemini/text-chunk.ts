// Chunks that bring one text and nothing else, which is nearly all of a long answer: where one differs from the chunk
// before in its text and its counts alone, it is read without being parsed.

import { FrameTemplate } from '../frame-template.ts'
import { isObject } from '../json.ts'
import type { UsageMetadata } from './schema.ts'

const counts = ['candidatesTokenCount', 'totalTokenCount'] as const

const changing = { text: 'text', numbers: counts, ignored: [] }

/** The template for the chunk after this one: like no other where this is more than a text of one candidate, counted. */
export function templateAfter(before: FrameTemplate, data: string, chunk: unknown): FrameTemplate {
  const text = textAlone(chunk)
  if (text === undefined) return before.forget()
  const template = before.learn(data, changing, text)
  const { usageMetadata } = chunk as { usageMetadata: UsageMetadata }
  const told = template.read(data)?.numbers
  // A count that is read elsewhere, or as something else, is not one that may be exchanged.
  return counts.every((name, at) => usageMetadata[name] === told?.[at]) ? template : before.forget()
}

/** The counters after a chunk like the last one, with these counts. */
export function withCounts(before: UsageMetadata, told: readonly (number | undefined)[]): UsageMetadata {
  const [candidatesTokenCount = before.candidatesTokenCount, totalTokenCount = before.totalTokenCount] = told
  return { ...before, candidatesTokenCount, totalTokenCount }
}

function textAlone(chunk: unknown): string | undefined {
  if (!isObject(chunk) || !isObject(chunk.usageMetadata)) return undefined
  const { candidates } = chunk
  if (!Array.isArray(candidates) || candidates.length !== 1 || !isObject(candidates[0])) return undefined
  const { content, logprobsResult } = candidates[0]
  if (logprobsResult !== undefined) return undefined
  if (!isObject(content) || !Array.isArray(content.parts) || content.parts.length !== 1) return undefined
  const [part] = content.parts
  if (!isObject(part) || typeof part.text !== 'string' || Object.keys(part).length !== 1) return undefined
  return part.text
}
