// The input and output of decide().

import type {
  AdjustCommand,
  AdjustResult,
  CheckpointCommand,
  ExtendCommand,
  GrantCommand,
  GrantResult,
  HoldCommand,
  HoldResult,
  KeySpend,
  RefundCommand,
  RefundResult,
  ReleaseCommand,
  SettleCommand,
  SettleResult,
} from './ledger/ledger.ts'
import type { Pico } from './money.ts'
import type { Pool } from './pool.ts'
import type { Change } from './wallet.ts'

/** A caller's command with the facts from outside the wallet that decide() needs. */
export type Command =
  /** `keySpend`: of the key, in the current window of its limit. */
  | { readonly kind: 'hold'; readonly hold: HoldCommand; readonly keySpend: KeySpend }
  /** `keySpend` as for a hold; it includes what this call holds. */
  | { readonly kind: 'extend'; readonly extend: ExtendCommand; readonly keySpend: KeySpend }
  | { readonly kind: 'checkpoint'; readonly checkpoint: CheckpointCommand }
  /** `keySpend` as for an extension. */
  | { readonly kind: 'settle'; readonly settle: Settlement; readonly keySpend: KeySpend }
  | { readonly kind: 'release'; readonly release: Pick<ReleaseCommand, 'call' | 'owner'> }
  /** `lot`: id of the new lot. `prior`: the lot of an earlier grant with the same source. */
  | {
      readonly kind: 'grant'
      readonly grant: GrantCommand
      readonly lot: string
      readonly prior: PriorGrant | null
    }
  | { readonly kind: 'expire' }
  /** The lot is in the wallet even if nothing is left of it. `refunded`: the sum of its earlier refunds. */
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
  readonly grantedAt: number
  readonly expiresAt: number | null
}

/** The result type of each command. */
export interface Results {
  hold: HoldResult
  extend: Pico
  checkpoint: boolean
  settle: SettleResult
  release: SettleResult
  grant: GrantResult
  expire: Pico
  refund: RefundResult
  adjust: AdjustResult
}

/** The result for the caller, and the change that the store must write; null if nothing changes. */
export interface Decision<Result> {
  readonly result: Result
  readonly change: Change | null
}

export type CommandOf<Kind extends Command['kind']> = Extract<Command, { kind: Kind }>
