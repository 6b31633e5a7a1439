// Embeddings: the common types, and the interface of a provider's protocol.

import type { Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import { GatewayError } from '../../errors/errors.ts'
import { fault } from '../faults.ts'
import type { LoweredRequest } from '../lowering.ts'

/** One input: a text, or its tokens. */
export type EmbeddingInput = string | readonly number[]

export interface EmbeddingRequest {
  /** Never empty. */
  readonly inputs: readonly EmbeddingInput[]
  /** The length of the vectors; undefined for the model's default. */
  readonly dimensions: number | undefined
  readonly user: string | undefined
  /** Other fields of the client's body. */
  readonly rest: JsonObject
}

/** The target of a request. Quirks are the provider row's data. */
interface EmbeddingTarget {
  /** The model's name at the provider. */
  readonly model: string
  readonly quirks: EmbeddingQuirks
}

/** Embedding quirks of a provider's row. */
export interface EmbeddingQuirks {
  /** The path of a chat-completions server, after its base URL. */
  readonly path: string
  /** Where Gemini's models are found under the base URL. */
  readonly modelsPath: string
  /** What the provider calls `dimensions`. */
  readonly dimensionsField: string
  /** Whether it accepts tokens instead of text. */
  readonly tokens: boolean
  /** Whether it takes `user`. */
  readonly user: boolean
  /** The encoding of the vectors: base64 is a third as long, but not every server supports it. */
  readonly format: 'base64' | 'float'
}

export const defaultEmbeddingQuirks: EmbeddingQuirks = {
  path: '/embeddings',
  modelsPath: '/models',
  dimensionsField: 'dimensions',
  tokens: true,
  user: true,
  format: 'float',
}

export type EmbeddingAnswer =
  | {
      readonly kind: 'vectors'
      /** In the order of the inputs. */
      readonly vectors: readonly (readonly number[])[]
      /** The provider's count, if any. */
      readonly usage: Usage | undefined
      /** The provider's id of the answer, where it gives one. */
      readonly id: string | undefined
    }
  | { readonly kind: 'fault'; readonly fault: Fault }

/** The embeddings side of a wire protocol. */
export interface EmbeddingOutbound {
  /** Throws GatewayError `unsupported_parameter` for inputs that the provider cannot read. */
  lower(request: EmbeddingRequest, target: EmbeddingTarget): LoweredRequest
  /** Reads a whole parsed answer. Anything unexpected is a fault of kind `broken`. Never throws. */
  read(body: unknown): EmbeddingAnswer
}

// Shared by the embeddings of all protocols: reads inputs as texts, and vectors from untrusted JSON.

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
