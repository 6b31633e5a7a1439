// The largest number of tokens a prompt can have, before any provider has counted it.

import type { PromptMedia, PromptParts } from '../../protocols/request/prompt-parts.ts'
import type { Turns } from '../streaming/turns.ts'
import { type Counter, sampleOf, tokensOf } from './exact-count.ts'
import type { TokenCounter } from './token-counter.ts'

/** Upper figures for media, whose size in bytes says little about their tokens. */
const imageTokens = 6_000
const bytesPerToken = { audio: 100, file: 4 } as const

/** The densest tokenizers in use make about this many tokens per o200k_base token. */
const tokenizerMargin = 1.6
/** Roles, separators and whatever a provider adds around messages and tools. */
const overheadTokens = 200

/**
 * An upper bound of the prompt's tokens: a token is at least one byte, so the length of the JSON bounds the text.
 * Inline media are bounded separately, because their base64 would count a thousand times too much.
 */
export function promptBound(prompt: PromptParts, bodyBytes: number): number {
  return measurePrompt(prompt, bodyBytes).bound
}

/** The same, and whether it holds: of some parts only the provider knows the size. */
export function measurePrompt(
  prompt: PromptParts,
  bodyBytes: number,
): { readonly bound: number; readonly isUnsized: boolean } {
  const media = prompt.media()
  return { bound: boundOf(media, bodyBytes), isUnsized: media.unsized > 0 }
}

function boundOf(media: PromptMedia, bodyBytes: number): number {
  return Math.max(0, bodyBytes - media.inlineLength) + mediaTokens(media)
}

/** A guess of the prompt's tokens: four bytes of text per token, the average for English. */
export function promptGuess(prompt: PromptParts, bodyBytes: number): number {
  const media = prompt.media()
  const textBytes = Math.max(0, bodyBytes - media.inlineLength)
  return Math.ceil(textBytes / 4) + Math.ceil(mediaTokens(media) / 4)
}

export interface CountingParts {
  readonly counter: Counter
  readonly turns: Pick<Turns, 'run'>
}

/** What counts for all accounts, which take turns. */
export interface SharedCounting {
  readonly counter: Pick<TokenCounter, 'of'>
  readonly turns: CountingParts['turns']
}

export function countingFor({ counter, turns }: SharedCounting, account: string): CountingParts {
  return { counter: counter.of(account), turns }
}

/** A tighter upper bound, by counting tokens: used if the quick bound exceeds the caller's credit. */
export async function tokenBound(
  { counter, turns }: CountingParts,
  prompt: PromptParts,
  bodyBytes: number,
): Promise<number> {
  const { content, sampled } = await turns.run(() => {
    const all = prompt.content()
    return { content: all, sampled: sampleOf(all.texts) }
  })
  const counted = Math.ceil((await tokensOf(counter, sampled)) * tokenizerMargin)
  const apart = mediaTokens(content) + content.tokenIds
  return Math.min(counted + overheadTokens + apart, boundOf(content, bodyBytes))
}

/**
 * The prompt's tokens as exactly as possible without the provider, for an answer that it did not count: everything the
 * model reads, plus the few tokens that chat formats add around each message.
 */
export async function promptCount({ counter, turns }: CountingParts, prompt: PromptParts): Promise<number> {
  const { sampled, messages, content } = await turns.run(() => {
    const reading = prompt.reading()
    return { ...reading, sampled: sampleOf(reading.texts) }
  })
  const framing = messages === 0 ? 0 : messages * tokensPerMessage + tokensPerPrompt
  return (await tokensOf(counter, sampled)) + framing + Math.ceil(mediaTokens(content) / 4) + content.tokenIds
}

/** ChatML's own tokens as OpenAI counts them: around each message, and before the answer. */
const tokensPerMessage = 3
const tokensPerPrompt = 3

function mediaTokens({ images, files }: PromptMedia): number {
  const ofFiles = files.reduce((sum, { kind, bytes }) => sum + Math.ceil(bytes / bytesPerToken[kind]), 0)
  return images * imageTokens + ofFiles
}
