// Embeddings of the simulated provider: vectors are derived from the input's hash, so equal inputs have equal vectors.

import { z } from 'zod'
import { Refusal } from './request.ts'
import { textTokens } from './tokens.ts'

const usualDimensions = 256

const body = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string().min(1), z.array(z.unknown()).min(1)]),
  dimensions: z.int().min(1).max(4096).optional(),
})

/**
 * The answer to a request for embeddings, given as JSON text: in pieces, because all vectors of a large one take a second.
 * Throws Refusal for a bad one.
 */
export function embed(text: string): Iterator<string, undefined> {
  return answerTo(parseBody(text))
}

function* answerTo({ model, input, dimensions }: z.infer<typeof body>): Generator<string, undefined> {
  const inputs = typeof input === 'string' || typeof input[0] === 'number' ? [input] : input
  yield '{"object":"list","data":['
  for (const [index, one] of inputs.entries()) {
    const embedding = unitVector(JSON.stringify(one), dimensions ?? usualDimensions)
    yield (index === 0 ? '' : ',') + JSON.stringify({ object: 'embedding', index, embedding })
  }
  const tokens = inputs.map(tokensOf).reduce((sum, count) => sum + count, 0)
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  yield `],"model":${JSON.stringify(model)},"usage":${JSON.stringify(usage)}}`
}

function parseBody(text: string): z.infer<typeof body> {
  try {
    return body.parse(JSON.parse(text))
  } catch {
    throw new Refusal('The body is no request for embeddings.', null, 'invalid_request')
  }
}

function tokensOf(input: unknown): number {
  if (Array.isArray(input)) return input.length
  return typeof input === 'string' ? textTokens(input) : 0
}

/** A pseudo-random vector of length one, always the same for the same text. */
function unitVector(text: string, dimensions: number): number[] {
  let state = Number(Bun.hash.xxHash32(text)) || 1
  const raw = Array.from({ length: dimensions }, () => {
    // xorshift: plain, and its period is far longer than any vector.
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 31 - 1
  })
  const length = Math.hypot(...raw)
  return raw.map((number) => Math.fround(number / length))
}
