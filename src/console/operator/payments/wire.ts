// Answers of the API for operators about payments.

import type { ProcessorId, TopUp } from '../../api/payments.ts'

export type AnyTopUp = TopUp & { readonly account: string }

export interface PaymentEvent {
  readonly processor: ProcessorId
  readonly id: string
  readonly type: string
  readonly at: string
  readonly outcome: 'received' | 'waiting' | 'unmatched' | 'applied' | 'ignored' | 'refused'
  readonly top_up: string | null
  readonly payment_id: string | null
}

export type TopUpWhole = AnyTopUp & {
  readonly reference: string | null
  readonly checked_at: string | null
  readonly events: readonly PaymentEvent[]
  readonly reversals: readonly {
    readonly id: string
    readonly kind: string
    readonly amount: string
    readonly credit_usd: string
    readonly held_usd: string
    readonly booked: boolean
    readonly at: string
  }[]
}

export interface Voucher {
  readonly id: string
  readonly credit_usd: string
  readonly state: 'valid' | 'redeemed' | 'revoked' | 'expired'
  readonly note: string
  readonly created_at: string
  readonly expires_at: string | null
  readonly account: string | null
}

export type MadeVoucher = Voucher & { readonly code: string }

export interface Product {
  readonly id: string
  readonly credit_usd: string
  readonly months: number
}

export interface Period {
  readonly subscription: string
  readonly source: string
  readonly account: string
  readonly product: string
  readonly state: 'active' | 'grace' | 'ended' | 'refunded' | 'refund_reversed'
  readonly from: string
  readonly to: string
  readonly credit_usd: string
  readonly lot: string | null
}
