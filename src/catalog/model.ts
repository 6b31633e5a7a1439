// A model that the gateway sells: an id, facts, and the offers that can serve it.

import type { Pico } from '../credits/money.ts'
import type { Price } from '../credits/price.ts'
import type { Efforts } from './efforts.ts'

export interface Model {
  /** `<provider>/<model_name>`, split at the first slash. */
  readonly id: string
  readonly name: string
  readonly description: string
  /** Seconds since 1970 of its release; 0 if unknown. */
  readonly created: number
  readonly ownedBy: string
  readonly contextLength: number | undefined
  readonly maxOutputTokens: number | undefined
  readonly inputModalities: readonly Modality[]
  readonly outputModalities: readonly Modality[]
  readonly supportedParameters: readonly string[]
  readonly reasoning: boolean
  /** Open only to accounts with purchased credit. */
  readonly premium: boolean
  /** A chat model whose short plain-text prompts are flash class; for longer ones see `isFlash`. */
  readonly flashClass: boolean
  readonly deprecation: Deprecation | undefined
  readonly priceSource: string
  readonly priceDate: string
  /** In order of preference; never empty. */
  readonly offers: readonly Offer[]
}

/** Models of POST /v1/embeddings have `embeddings` as their only output. */
export type Modality = 'text' | 'image' | 'audio' | 'video' | 'file' | 'embeddings'

/** One provider that serves the model, under its own name and price. */
export interface Offer {
  readonly provider: string
  readonly upstream: string
  readonly price: Price
  /** The reasoning efforts that can be set; empty if none can, absent if no source says. */
  readonly efforts?: Efforts | undefined
}

export interface Deprecation {
  /** ISO date after which the provider no longer serves it. */
  readonly retiresOn: string
  readonly successor: string | undefined
}

/** Output at this rate or above makes a model premium unless configuration says otherwise: 25 USD per million. */
export const premiumOutputRate: Pico = 25_000_000n
