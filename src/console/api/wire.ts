// What the console API sends: times are ISO 8601, amounts are decimal strings of US dollars.

import type { Receipt } from '../../credits/ledger/receipt.ts'

export type { Receipt }
export type {
  KeyView as Key,
  NewKeyView as MadeKey,
  OpenSessionView as SessionRow,
  PasskeyView as Passkey,
  SessionView,
} from '../../http/console/views.ts'

/** The error of an answer, in the one shape that every refusal has. */
export interface Fault {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly param: string | null
  readonly metadata: Readonly<Record<string, unknown>>
}

export type Pool = 'purchased' | 'welcome' | 'daily' | 'subscription'

export interface Lot {
  readonly id: string
  readonly pool: Pool
  /** What was granted. */
  readonly amount: string
  readonly remaining: string
  readonly held: string
  readonly source: string
  readonly granted_at: string
  readonly expires_at: string | null
}

export interface Credits {
  readonly currency: 'USD'
  readonly held: string
  readonly debt: string
  /** How much the account may owe; null for nothing. */
  readonly credit_line: string | null
  /** What one call could hold now. */
  readonly spendable: { readonly api: string; readonly app: string }
  readonly pools: readonly {
    readonly type: Pool
    readonly remaining: string
    readonly held: string
    readonly api_spendable: boolean
    readonly resets_at: string | null
  }[]
  readonly lots: readonly Lot[]
  readonly notices: readonly (
    | { readonly kind: 'balance_low'; readonly available: string; readonly threshold: string }
    | {
        readonly kind: 'lot_expiring'
        readonly lot: string
        readonly remaining: string
        readonly expires_at: string
      }
  )[]
  readonly total_purchased: string
  readonly total_used: string
}

export interface Page<Row> {
  readonly data: readonly Row[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

export interface HistoryRow {
  readonly at: string
  readonly kind: string
  readonly pool: Pool | null
  /** Signed. */
  readonly amount: string
  readonly lot: string | null
  readonly call: string | null
  readonly note: string | null
}

export type UsageGroup = 'day' | 'model' | 'key' | 'channel'

export interface UsageFigures {
  readonly calls: number
  readonly errors: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost: string
}

export interface Usage {
  readonly from: string
  readonly to: string
  readonly by: UsageGroup
  readonly data: readonly (UsageFigures & {
    readonly day: string
    readonly group: string
    readonly label: string | null
  })[]
  readonly totals: UsageFigures
}

export interface RequestRow {
  readonly id: string
  readonly ended_at: string
  readonly key: string | null
  readonly model: string | null
  readonly provider: string | null
  readonly stream: boolean
  readonly status: number
  readonly code: string | null
  readonly ending: string | null
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly cost: string
  readonly attempts: number
  readonly first_byte_ms: number | null
  readonly total_ms: number
  readonly detail: Readonly<Record<string, unknown>> | null
}

/** Why a call was refused, by the rule table that the gateway went through. */
export interface Refusal {
  readonly rule: string
  readonly rules: readonly {
    readonly id: string
    readonly code: string
    readonly asks: string
    readonly outcome: 'passed' | 'fired' | 'not_reached'
  }[]
  /** As they were at that moment. */
  readonly figures: {
    readonly needed?: string | null
    readonly available?: string | null
    readonly held?: string | null
    readonly key_limit_left?: string | null
    readonly resets_at?: string | null
    readonly pools?: readonly { readonly type: Pool; readonly remaining: string; readonly counted: boolean }[]
  }
  readonly act: {
    readonly kind: 'top_up' | 'other_model' | 'wait' | 'raise_key_limit' | 'allow_model' | 'none'
    readonly amount?: string | null
    readonly text: string
  }
}

export type RequestWhole = RequestRow & {
  readonly receipt: Receipt | null
  readonly refusal?: Refusal | null
  readonly contents: Readonly<Record<string, unknown>> | null
}

export type NotCallable = 'no_provider' | 'plan_required' | 'purchased_credits_required' | 'not_chat'

export interface ModelRow {
  readonly id: string
  readonly name: string
  readonly provider: string
  readonly context_length: number | null
  readonly max_output_tokens: number | null
  /** US dollars per million tokens. */
  readonly input: string
  readonly output: string
  readonly cache_read: string
  readonly access: 'open' | 'premium'
  readonly flash_class: boolean
  readonly pools: readonly Pool[]
  readonly reasoning: boolean
  readonly images: boolean
  readonly files: boolean
  readonly kind: string
  /** Why it cannot be called now; null where it can. */
  readonly callable: { readonly api: NotCallable | null; readonly app: NotCallable | null }
}

/** An MCP server that the account has registered. */
export interface McpServer {
  readonly name: string
  readonly url: string
  /** The names of the headers that it is sent. */
  readonly headers: readonly string[]
  readonly authorized: boolean
  readonly needs_authorization: boolean
  readonly created_at: string
  readonly changed_at: string
}

export interface Conversation {
  readonly id: string
  readonly title: string
  readonly model: string | null
  readonly last_response: string | null
  readonly created_at: string
  readonly updated_at: string
}

export interface ConnectClients {
  readonly base_url: string
  readonly clients: readonly {
    readonly id: string
    readonly name: string
    readonly about: string
    readonly files: readonly {
      readonly path: string | null
      readonly language: string
      readonly text: string
    }[]
  }[]
}
