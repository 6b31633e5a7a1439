// The common format of the catalog's sources: exact ids, facts and a price, nothing guessed.

import type { modalities } from '../../row.ts'
import type { PriceSpec } from '../../prices/price-spec.ts'

export type Modality = (typeof modalities)[number]

export interface SourceModel {
  /** The exact names that the source gives this one model; the first is its id. */
  readonly names: readonly string[]
  readonly name: string | undefined
  readonly contextLength: number | undefined
  readonly maxOutputTokens: number | undefined
  readonly input: readonly Modality[] | undefined
  readonly output: readonly Modality[] | undefined
  readonly reasoning: boolean | undefined
  /** From a level of reasoning (`off`, `low`…) to the provider's name for it; null if the model does not have it. */
  readonly levels?: Readonly<Record<string, string | null>> | undefined
  /** False if the model refuses temperature and similar parameters. */
  readonly temperature: boolean | undefined
  /** Only what the source states: a rate that is absent is unknown, not zero. */
  readonly price: Partial<PriceSpec>
  /** Prices that the source announces for a later day. */
  readonly laterPrices?: readonly { readonly from: string; readonly price: Partial<PriceSpec> }[]
  /** Whether the provider no longer serves it, according to the source. */
  readonly withdrawn: boolean
  /** Why its price cannot be charged (it changes with the hour, it counts pages). */
  readonly refusal: string | undefined
}

export interface Source {
  readonly name: string
  readonly version: string
  /** When its facts were collected or published. */
  readonly date: string
  readonly license: string
  /** The models of one provider, by the source's name for it; empty if it has none. */
  models(provider: string): Promise<readonly SourceModel[]>
}
