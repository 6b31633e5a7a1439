// Embeddings: the common types, and the interface of a provider's protocol.

import type { Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { LoweredRequest } from '../lowered-request.ts'

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
export interface EmbeddingTarget {
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
