// What the catalog's sources have in common once they are read: exact ids, facts, a price, nothing guessed.

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
  /** From a level of reasoning (`off`, `low`…) to the provider's word for it; null where the model has no such level. */
  readonly levels?: Readonly<Record<string, string | null>> | undefined
  /** False where the model refuses temperature and its kin. */
  readonly temperature: boolean | undefined
  /** Only what the source states: a rate that is absent is unknown, not zero. */
  readonly price: Partial<PriceSpec>
  /** The source says that the provider serves it no more. */
  readonly withdrawn: boolean
  /** Why its price cannot be charged as it stands (it changes with the hour, it counts pages). */
  readonly refusal: string | undefined
}

export interface Source {
  readonly name: string
  readonly version: string
  /** When its facts were collected or published. */
  readonly date: string
  readonly license: string
  /** The models of one provider, under the source's own name for it; empty where it knows none. */
  models(provider: string): Promise<readonly SourceModel[]>
}
