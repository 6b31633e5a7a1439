// Embeddings: the words everyone shares, and how a provider's protocol asks for them.

import type { Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { LoweredRequest } from '../lowered-request.ts'

/** One thing to embed: a text, or the tokens that the client has made of one. */
export type EmbeddingInput = string | readonly number[]

export interface EmbeddingRequest {
  /** Never empty. */
  readonly inputs: readonly EmbeddingInput[]
  /** How long the vectors are to be; undefined leaves it to the model. */
  readonly dimensions: number | undefined
  readonly user: string | undefined
  /** Fields of the client's body that we have no word for. */
  readonly rest: JsonObject
}

/** Where one request goes. Quirks are the provider row's data. */
export interface EmbeddingTarget {
  /** The model's name at the provider. */
  readonly model: string
  readonly quirks: EmbeddingQuirks
}

/** What a provider's row may say of its embeddings. */
export interface EmbeddingQuirks {
  /** The path of a chat-completions server, after its base URL. */
  readonly path: string
  /** Where Gemini's models are found under the base URL. */
  readonly modelsPath: string
  /** What the provider calls `dimensions`. */
  readonly dimensionsField: string
  /** Whether it takes the tokens of a text in its place. */
  readonly tokens: boolean
  /** Whether it takes `user`. */
  readonly user: boolean
  /** How the vectors are asked for: base64 is a third of the length, and not every server knows it. */
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
      /** What the provider counted; undefined where it counted nothing. */
      readonly usage: Usage | undefined
      /** The provider's id of the answer, where it gives one. */
      readonly id: string | undefined
    }
  | { readonly kind: 'fault'; readonly fault: Fault }

/** The embeddings of one wire protocol, spoken to a provider. */
export interface EmbeddingOutbound {
  /** Throws GatewayError `unsupported_parameter` for inputs that the provider cannot read. */
  lower(request: EmbeddingRequest, target: EmbeddingTarget): LoweredRequest
  /** A whole JSON answer, already parsed. What is not the protocol is a fault of kind `broken`. Never throws. */
  read(body: unknown): EmbeddingAnswer
}
