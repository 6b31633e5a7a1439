// Answers of the console API. Times are ISO 8601, amounts are decimal strings of US dollars.

import type { Receipt } from '../../credits/ledger/receipt.ts'
import type { KeyView as Key, Pool } from '../../http/console/views.ts'

export type { Receipt }
export type {
  EventType,
  Pool,
  CreditsView as Credits,
  HistoryEntryView as HistoryRow,
  IdentityView as Identity,
  KeyView as Key,
  LotView as Lot,
  McpServerView as McpServer,
  NewKeyView as MadeKey,
  OpenSessionView as SessionRow,
  PasskeyView as Passkey,
  SessionView,
} from '../../http/console/views.ts'

/** The error format of all refusals. */
export interface Fault {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly param: string | null
  readonly metadata: Readonly<Record<string, unknown>>
}

export interface Page<Row> {
  readonly data: readonly Row[]
  readonly has_more: boolean
  readonly next_cursor: string | null
}

export interface KeyList extends Page<Key> {
  /** Keys between them that were left out because they have ended. */
  readonly hidden: number
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
  /** The groups without rows of their own. */
  readonly rest: {
    readonly groups: number
    readonly data: readonly (UsageFigures & { readonly day: string })[]
  } | null
}

export interface RequestRow {
  readonly id: string
  readonly ended_at: string
  readonly key: string | null
  readonly key_name: string | null
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

/** Why a call was refused, by the gateway's table of rules. */
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
  /** Why it cannot be called now; null if it can. */
  readonly callable: { readonly api: NotCallable | null; readonly app: NotCallable | null }
}

/** With whether an answer is being written in it. */
export type ListedConversation = Conversation & { readonly answering: boolean }

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
