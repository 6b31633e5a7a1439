// How many tokens a prompt can have at the most, before any provider has counted it.

import type { PromptContent, PromptParts } from '../../protocols/request/prompt-parts.ts'
import { type Counter, tokensIn } from './exact-count.ts'

/** Upper figures for media, whose bytes say little about their tokens. */
const imageTokens = 6_000
const bytesPerToken = { audio: 100, file: 4 } as const

/** Tokenizers differ: the densest in use makes about this many tokens of one of o200k_base. */
const tokenizerMargin = 1.6
/** Roles, separators and what a provider adds around messages and tools. */
const overheadTokens = 200

/**
 * An upper bound of the prompt's tokens for a request body: a token is at least one byte of text, so the length of
 * the JSON bounds the text; inline media, whose base64 would count a thousandfold, is bounded apart.
 */
export function promptBound(prompt: PromptParts, bodyBytes: number): number {
  return boundOf(prompt.content(), bodyBytes)
}

function boundOf(content: PromptContent, bodyBytes: number): number {
  return Math.max(0, bodyBytes - content.inlineLength) + mediaTokens(content)
}

/** A guess of the prompt's tokens: four bytes of text to a token, as English averages. */
export function promptGuess(prompt: PromptParts, bodyBytes: number): number {
  const content = prompt.content()
  const textBytes = Math.max(0, bodyBytes - content.inlineLength)
  return Math.ceil(textBytes / 4) + Math.ceil(mediaTokens(content) / 4)
}

/** A tighter upper bound, by counting tokens: for callers whose credit the quick bound would exceed. */
export async function tokenBound(counter: Counter, prompt: PromptParts, bodyBytes: number): Promise<number> {
  const content = prompt.content()
  const counted = Math.ceil((await tokensIn(counter, content.texts.join('\n'))) * tokenizerMargin)
  const apart = mediaTokens(content) + content.tokenIds
  return Math.min(counted + overheadTokens + apart, boundOf(content, bodyBytes))
}

/**
 * The prompt's tokens as exactly as they can be counted without the provider, for an answer it has not counted. What
 * the model reads is counted, and the few tokens that chat formats put around each message.
 */
export async function promptCount(counter: Counter, prompt: PromptParts): Promise<number> {
  const { texts, messages, content } = prompt.reading()
  const framing = messages === 0 ? 0 : messages * tokensPerMessage + tokensPerPrompt
  return (
    (await tokensIn(counter, texts.join('\n'))) +
    framing +
    Math.ceil(mediaTokens(content) / 4) +
    content.tokenIds
  )
}

/** ChatML's own tokens, as OpenAI counts them: around each message, and before the answer. */
const tokensPerMessage = 3
const tokensPerPrompt = 3

function mediaTokens({ images, files }: PromptContent): number {
  const ofFiles = files.reduce((sum, { kind, bytes }) => sum + Math.ceil(bytes / bytesPerToken[kind]), 0)
  return images * imageTokens + ofFiles
}
