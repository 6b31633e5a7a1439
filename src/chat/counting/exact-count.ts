// Counts tokens with the o200k_base vocabulary, in the worker: of prompts and of delivered answers.

import type { DeliveredTokens, Sample } from '../../conversation/delivered.ts'
import type { TokenCounter } from './token-counter.ts'

/** Tokenizers are quadratic on long unbroken runs; slices of this many characters keep the cost linear. */
const sliceCharacters = 512
/** At most this much of one text is counted: about 30 milliseconds of work. */
const countableCharacters = 65_536
/** The running estimate is off by at most this factor, so that is how far the uncounted part is corrected. */
const mostCorrection = 2

export type Counter = Pick<TokenCounter, 'count'>

/** The tokens of a text. In a long text evenly spaced slices are counted and extrapolated. */
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

/** The tokens that these samples represent, by kind of text. */
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
