// What a ledger command is to decide(), and what comes of it.

import type {
  AdjustCommand,
  AdjustResult,
  CheckpointCommand,
  GrantCommand,
  GrantResult,
  HoldCommand,
  HoldResult,
  RefundCommand,
  RefundResult,
  ReleaseCommand,
  SettleCommand,
  SettleResult,
} from './ledger/ledger.ts'
import type { Pico } from './money.ts'
import type { Pool } from './pool.ts'
import type { Change } from './wallet.ts'

/** What a store hands to decide(): the caller's command and the facts that lie outside the wallet. */
export type Command =
  /** `keySpend` is what the key has spent and holds in the window of its limit. */
  | { readonly kind: 'hold'; readonly hold: HoldCommand; readonly keySpend: Pico }
  | {
      readonly kind: 'extend'
      readonly call: string
      readonly owner: string
      readonly more: Pico
      readonly keySpend: Pico
    }
  | { readonly kind: 'checkpoint'; readonly checkpoint: CheckpointCommand }
  /** `keySpend` as for a hold: what this call holds is in it. */
  | { readonly kind: 'settle'; readonly settle: Settlement; readonly keySpend: Pico }
  | { readonly kind: 'release'; readonly release: Pick<ReleaseCommand, 'call' | 'owner'> }
  /** `lot` names the new lot; `prior` is the lot of a grant with the same source. */
  | {
      readonly kind: 'grant'
      readonly grant: GrantCommand
      readonly lot: string
      readonly prior: PriorGrant | null
    }
  | { readonly kind: 'expire' }
  /** The lot is in the wallet, even when nothing is left of it; `refunded` is what earlier refunds took of it. */
  | { readonly kind: 'refund'; readonly refund: RefundCommand; readonly refunded: Pico }
  | { readonly kind: 'adjust'; readonly adjust: AdjustCommand; readonly lot: string }

export type Settlement = Pick<SettleCommand, 'call' | 'owner' | 'cost' | 'most' | 'estimated'> & {
  readonly provider: string
}

export interface PriorGrant {
  readonly lot: string
  readonly account: string
  readonly pool: Pool
  readonly amount: Pico
}

/** What each command answers. */
export interface Results {
  hold: HoldResult
  extend: boolean
  checkpoint: boolean
  settle: SettleResult
  release: SettleResult
  grant: GrantResult
  expire: Pico
  refund: RefundResult
  adjust: AdjustResult
}

/** The answer to the caller, and what the store must write for it; null when nothing changes. */
export interface Decision<Result> {
  readonly result: Result
  readonly change: Change | null
}

export type CommandOf<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>
