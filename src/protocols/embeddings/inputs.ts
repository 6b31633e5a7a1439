// Shared by the embeddings of all protocols: reads inputs as texts, and vectors from untrusted JSON.

import { GatewayError } from '../../errors.ts'
import type { EmbeddingAnswer, EmbeddingInput } from './embeddings.ts'
import { fault } from '../faults.ts'

/** The inputs for a provider that only takes texts. Throws `unsupported_parameter` for tokens. */
export function textsOf(inputs: readonly EmbeddingInput[]): readonly string[] {
  return inputs.map((input) => {
    if (typeof input === 'string') return input
    throw new GatewayError('unsupported_parameter', {
      message: "This model's provider embeds texts, not arrays of tokens: each model has tokens of its own.",
      param: 'input',
    })
  })
}

/** A vector as JSON numbers or as base64 of little-endian 32-bit floats; undefined when it is neither. */
export function vectorOf(value: unknown): readonly number[] | undefined {
  if (typeof value === 'string') return fromBase64(value)
  if (!Array.isArray(value) || value.length === 0) return undefined
  return value.every((number): number is number => typeof number === 'number') ? value : undefined
}

/** A vector as base64 of little-endian 32-bit floats, which is how every machine that this runs on holds them. */
export function toBase64(vector: readonly number[]): string {
  return Buffer.from(new Float32Array(vector).buffer).toString('base64')
}

function fromBase64(text: string): readonly number[] | undefined {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  if (bytes.length === 0 || bytes.length % 4 !== 0) return undefined
  const numbers = Array.from(new Float32Array(bytes.buffer))
  return numbers.every(Number.isFinite) ? numbers : undefined
}

/** The fault of an answer that is not what the protocol says. */
export function notVectors(): EmbeddingAnswer {
  return { kind: 'fault', fault: fault('broken', 'the answer holds no vectors') }
}
