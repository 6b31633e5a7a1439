// Tokens by the vocabulary o200k_base, in the worker: what a prompt has, and what an answer has delivered.

import type { DeliveredTokens, Sample } from '../../conversation/delivered.ts'
import type { TokenCounter } from './token-counter.ts'

/** Every tokenizer is quadratic on long unbroken runs; slices of this many characters keep it linear. */
const sliceCharacters = 512
/** More than this is not counted of one text: about 30 milliseconds of work. */
const countableCharacters = 65_536
/** How far off the running estimate can be: what stands behind the counted part is corrected by no more. */
const mostCorrection = 2

export type Counter = Pick<TokenCounter, 'count'>

/** The tokens of a text. Of a long one every so many slices are counted and stand for the rest. */
export async function tokensIn(counter: Counter, text: string): Promise<number> {
  const stride = sliceCharacters * Math.max(1, Math.ceil(text.length / countableCharacters))
  const slices: string[] = []
  let characters = 0
  for (let at = 0; at < text.length; at += stride) {
    const slice = text.slice(at, at + sliceCharacters)
    slices.push(slice)
    characters += slice.length
  }
  const tokens = await counter.count(slices)
  return characters === 0 ? 0 : Math.ceil((tokens * text.length) / characters)
}

/** The tokens that these samples stand for, by the kind of their text. */
export async function deliveredTokensIn(
  counter: Counter,
  samples: readonly Sample[],
): Promise<DeliveredTokens> {
  const tokens = { output: 0, reasoning: 0 }
  const counts = await Promise.all(samples.map((sample) => tokensIn(counter, sample.text)))
  for (const [at, { kind, textTokens, allTokens }] of samples.entries()) {
    const counted = counts[at]!
    const correction = textTokens > 0 ? counted / textTokens : 1
    const rest = Math.max(0, allTokens - textTokens)
    tokens[kind] += counted + Math.round(rest * Math.min(mostCorrection, correction))
  }
  return tokens
}
