// A model as the gateway sells it: one id, its facts, and the offers that can serve it.

import type { Pico } from '../credits/money.ts'
import type { Price } from '../credits/price.ts'
import type { Efforts } from './efforts.ts'

export interface Model {
  /** `<provider>/<model_name>`, split at the first slash. */
  readonly id: string
  readonly name: string
  readonly description: string
  /** Seconds since 1970 of its release; 0 where unknown. */
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
  /** A chat model whose short prompts in plain text are flash class; of longer ones `isFlash` says whether they are. */
  readonly flashClass: boolean
  readonly deprecation: Deprecation | undefined
  readonly priceSource: string
  readonly priceDate: string
  /** In order of preference; never empty. */
  readonly offers: readonly Offer[]
}

/** `embeddings` is the only output of the models that POST /v1/embeddings serves. */
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
