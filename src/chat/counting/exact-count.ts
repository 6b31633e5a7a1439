// Counts tokens with the o200k_base vocabulary, in the worker: of prompts and of delivered answers.

import type { DeliveredTokens, Sample } from '../../conversation/delivered.ts'
import type { Counter } from './token-counter.ts'

/** Tokenizers are quadratic on long unbroken runs; slices of this many characters keep the cost linear. */
const sliceCharacters = 512
/** At most this much of one text is counted: about 30 milliseconds of work. */
const countableCharacters = 65_536
/** The running estimate is off by at most this factor, so that is how far the uncounted part is corrected. */
const mostCorrection = 2

export type { Counter }

/** The slices of a text to be counted, and the length of the whole text in characters. */
export interface Sampled {
  readonly slices: readonly string[]
  readonly length: number
}

/** Samples of these texts, joined by line breaks. From long texts evenly spaced slices are taken. */
export function sampleOf(texts: readonly string[]): Sampled {
  const length = texts.reduce((sum, text) => sum + text.length + 1, -1)
  const stride = sliceCharacters * Math.max(1, Math.ceil(length / countableCharacters))
  const slices: string[] = []
  /** The text in which the next slice begins, and the offset of that text. */
  let index = 0
  let begin = 0
  for (let at = 0; at < length; at += stride) {
    while (at > begin + texts[index]!.length) begin += texts[index++]!.length + 1
    // Joining the texts first would copy up to ten megabytes.
    let slice = texts[index]!.slice(at - begin, at - begin + sliceCharacters)
    for (let next = index + 1; slice.length < sliceCharacters && next < texts.length; next++)
      slice += `\n${texts[next]!.slice(0, sliceCharacters)}`
    slices.push(slice.slice(0, sliceCharacters))
  }
  return { slices, length: Math.max(0, length) }
}

/** The tokens of the whole text, extrapolated from its slices. */
export async function tokensOf(counter: Counter, { slices, length }: Sampled): Promise<number> {
  const characters = slices.reduce((sum, slice) => sum + slice.length, 0)
  const tokens = await counter.count(slices)
  return characters === 0 ? 0 : Math.ceil((tokens * length) / characters)
}

function tokensIn(counter: Counter, text: string): Promise<number> {
  return tokensOf(counter, sampleOf([text]))
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
