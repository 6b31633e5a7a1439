// What the routes depend on.

import type { Account, AccountDirectory, AccountStore, NewcomerAllowances } from '../accounts/account.ts'
import type { GroupStore } from '../accounts/group.ts'
import type { Identities } from '../accounts/identity/identities.ts'
import type { ActLog, IdentityStore, ProvisioningStore } from '../accounts/identity/identity-store.ts'
import { personOf } from '../accounts/identity/mail.ts'
import type { Oidc } from '../accounts/identity/oidc.ts'
import type { Passkeys } from '../accounts/identity/passkeys.ts'
import type { KeyLeaks, KeyUse, ManagementKeyStore } from '../accounts/key-leaks.ts'
import type { McpServers } from '../accounts/mcp-server.ts'
import type { Awaitable } from '../async/async.ts'
import type { FileChanges } from '../catalog/bundled/bundled.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Callers, LiveCall } from '../chat/call.ts'
import type { ChatParts } from '../chat/paid-call.ts'
import type { AnswerFigures, Health, ProviderHealth } from '../chat/routing/health.ts'
import type { AddressRules } from '../chat/upstream/lower.ts'
import type { AuditReport, CallLedger, DayAudit, LedgerStore } from '../credits/ledger/ledger.ts'
import type { StatementReader } from '../credits/ledger/monthly.ts'
import type { Allowances, MonthlyCredit, Welcomes } from '../credits/calendar.ts'
import type { DeliveryAttempt, DeliveryOutcome, WebhookRow, Webhooks } from '../notify/webhook.ts'
import type { UpkeepStore } from '../notify/alarms.ts'
import type { Thresholds } from '../notify/watch.ts'
import type { CallLog, CallMetrics, RequestReader, StoreFigures, UsageReader } from '../observe/call-log.ts'
import type { Log } from '../observe/log.ts'
import type { Finder } from '../observe/search.ts'
import type { AppleSettings } from '../payments/apple.ts'
import type { Payments } from '../payments/payments.ts'
import type { Plans, PlanStore, Subscriptions, SubscriptionStore } from '../payments/subscriptions.ts'
import type { PaymentStore } from '../payments/top-up.ts'
import type { Vouchers, VoucherStore } from '../payments/vouchers.ts'
import type { BackgroundResponses } from '../responses/background.ts'
import type {
  ConversationStore,
  ItemConversationStore,
  PromptStore,
  ResponseStore,
} from '../responses/response-store.ts'
import type { ParsedResponses, ResponseLimits } from '../responses/keep.ts'
import type {
  ChangedSettingsView,
  ConfigReload,
  ConfigurationView,
  KeptConfigurationView,
  SettingsTestView,
} from './admin/settings-answers.ts'
import type { Site } from './intake/caller.ts'
import type { KeyedCalls } from './intake/paid/idempotency.ts'
import type { FreeReading, HookLimit, Limiter } from './intake/paid/limits.ts'
import type { Intake } from './intake/read-body.ts'
import type { OpenSockets } from './intake/sockets.ts'
import type { RunningCalls } from './mcp/running-calls.ts'

/** Where the prices come from. */
export interface CatalogFileState {
  readonly sources: readonly { readonly name: string; readonly version: string; readonly date: string }[]
  /** What an imported file changed of the bundled catalog; null if the bundled one is in use. */
  readonly changes: FileChanges | null
  /** The entries under `models` in the configuration. */
  readonly overrides: readonly ({ readonly id: string } & Readonly<Record<string, unknown>>)[]
}

/** A change of the settings that are kept in the database. */
export interface WantedSettings {
  /** Of the settings that the change was made for; undefined for whatever they are. */
  readonly revision?: number | undefined
  /** As in weir.yaml, models by their id; null takes one back. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** What is called to see whether it answers: a provider with each of its keys, or a model, of a route each member. */
export interface WantedTest {
  readonly provider?: string | undefined
  readonly model?: string | undefined
  /** A change that is tested before it is made; undefined for what is in force. */
  readonly proposed?: WantedSettings | undefined
}

/** Reads the configuration again, and changes it. Everything rejects with GatewayError, and then nothing has changed. */
export interface ConfigurationService {
  /** What can be changed while the gateway runs, as it is in force. Secrets are masked. */
  show(): Promise<KeptConfigurationView>
  reload(dryRun: boolean): Promise<ConfigReload>
  /** What a change would do. */
  preview(wanted: WantedSettings): Promise<ChangedSettingsView>
  /**
   * Makes small real calls now. Rejects with `rate_limit_exceeded` for too many, `not_found` for an unknown provider and
   * `model_not_found` for an unknown model; what a provider answers is no error. No text
   * of the answer holds a secret of the configuration.
   */
  test(wanted: WantedTest): Promise<SettingsTestView>
  /** Changes the settings, and logs the act of `operator`. */
  change(wanted: WantedSettings, operator: string): Promise<ChangedSettingsView>
  /** Takes up what another gateway of the same database, or a command, has changed. False where nobody has. */
  follow(): Promise<boolean>
  /** Takes the latest change back. */
  undo(revision: number | undefined, operator: string): Promise<ChangedSettingsView>
}

/** By provider. */
export type RecentFigures = Readonly<Record<string, Pick<AnswerFigures, 'successRate' | 'p50Ms'>>>

/** What the routes need that serve models. */
export interface ServingParts extends Intake, KeyedCalls, FreeReading {
  readonly accounts: Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession' | 'findStanding'>
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The gateway's address as clients know it, without a trailing slash. */
  readonly publicUrl: () => string
  readonly site: Site
  /** False while the gateway drains: it finishes running requests and accepts no new ones. */
  readonly ready: () => boolean
  /** Whether the gateway has just started: it takes calls, and whoever asks whether it is ready is told to wait. */
  readonly warming: () => boolean
  /** Whether the gateway was told to stop: it may still take requests, so that nobody is refused who comes by a balancer. */
  readonly leaving: () => boolean

  /** What models can be called, and the providers that can answer now, by id: with a key, or found running. */
  readonly catalog: Catalog
  readonly answering: () => ReadonlySet<string>
  /** How each provider that was asked has answered in the last hour; half a minute old at most. */
  readonly lastHour: () => RecentFigures
  /** What users' requests may name. */
  readonly addressRules: AddressRules

  readonly chat: ChatParts
  readonly sockets: OpenSockets
  readonly background: BackgroundResponses
  readonly itemConversations: ItemConversationStore
  readonly ledger: CallLedger
  readonly limiter: Pick<Limiter, 'enter' | 'leave' | 'headers'>
  /** Where keys are used from; undefined while nobody watches that. */
  readonly keyUse: Pick<KeyUse, 'note'> | undefined
  /** Whose calls run in this process. */
  readonly callers: Pick<Callers, 'enter'>
  readonly calls: CallLog

  /** Of the app of a signed-in account, beside its session. */
  readonly identityStore: Pick<IdentityStore, 'touchSession'>
  readonly freeCredit: Pick<FreeCredit, 'ensure'>
  /** What an account has each month, before its first call of one. */
  readonly monthlyCredit: Pick<MonthlyCredit, 'ensure'>

  /** Where answers are stored, and continued from. */
  readonly responses: Pick<ResponseStore, 'keep' | 'storedBytes' | 'find' | 'sizeOf' | 'conversation'>
  /** The same, to be read. */
  readonly parsedResponses: ParsedResponses
  readonly responseLimits: ResponseLimits
}

/** Who people are, and how they prove it. */
export interface IdentityServices extends Pick<ServingParts, 'site' | 'freeCredit' | 'monthlyCredit'> {
  /** What accounts get that operators open. */
  readonly newcomers: NewcomerAllowances
  readonly identities: Identities
  readonly identityStore: IdentityStore
  readonly provisioning: ProvisioningStore
  readonly passkeys: Passkeys
  /** undefined without a configured issuer. */
  readonly oidc: Oidc | undefined
  readonly acts: ActLog
}

/** Messages to addresses that accounts have registered. */
export interface WebhookServices {
  readonly webhooks: Webhooks
  /** Sends a test message now. */
  readonly testWebhook: (webhook: WebhookRow) => Promise<DeliveryAttempt>
  /** When to report credit as low or expiring. */
  readonly thresholds: Thresholds
  /** How attempts to deliver messages have ended since the start. */
  readonly deliveries: () => Readonly<Record<DeliveryOutcome, number>>
}

/** As configured by the operator; null for missing fields. */
export interface Seller {
  readonly name: string | null
  readonly address: string | null
  readonly gstin: string | null
}

/** How credit is paid for. */
/** Whose gateway it is, as its customers see it. */
export interface Brand {
  readonly name: string
  /** As an address with the image itself; null for that of the program. */
  readonly logo: string | null
  readonly accent: string | null
  readonly accentDark: string | null
  readonly termsUrl: string | null
  readonly privacyUrl: string | null
  /** An e-mail address, or the address of a page. */
  readonly support: string | null
}

export interface PaymentServices {
  readonly payments: Payments
  readonly plans: Plans
  /** Tells people that their plan ends soon, each once; `now` in milliseconds since 1970. */
  readonly remind: (now: number) => Promise<void>
  readonly paymentStore: PaymentStore
  readonly vouchers: Vouchers
  readonly voucherStore: VoucherStore
  readonly subscriptionStore: SubscriptionStore & PlanStore
  readonly subscriptions: Subscriptions
  /** Current secrets for messages of subscriptions; empty if none is set. */
  readonly subscriptionSecrets: readonly string[]
  readonly hookLimit: HookLimit
  /** Who takes the money, for receipts. */
  readonly seller: Seller
  readonly brand: Brand
  /** undefined without a configured app. */
  readonly apple: AppleSettings | undefined
}

/** OAuth of registered servers. `begin` and `end` reject with GatewayError. */
export interface McpAuthorization {
  /** How the gateway describes itself to authorisation servers. */
  clientMetadata(redirectUrl: string): object
  /** Where to send the user's browser. `session` must bring the answer back to `redirectUrl`. */
  begin(asked: {
    readonly account: string
    readonly name: string
    readonly session: string
    readonly redirectUrl: string
    /** Where the gateway describes itself as a client; undefined if authorisation servers could not read it. */
    readonly clientMetadataUrl: string | undefined
  }): Promise<string>
  /** Completes an authorisation with the browser's answer, and returns the server's name. */
  end(brought: {
    readonly account: string
    readonly session: string
    readonly state: string
    readonly code: string
    readonly iss?: string
  }): Promise<string>
}

/** The processes that serve beside this one on its machine. Nothing rejects: one that does not answer is left out. */
export interface Siblings {
  /** Which of them this one is, from 1. */
  readonly process: number
  /** What each of the others counts of itself, in the text format of Prometheus. */
  figures(): Promise<readonly { readonly process: number; readonly text: string }[]>
  /** Has the others read their configuration again; resolves when they have, or soon. */
  reload(): Promise<void>
}

/** Everything routes depend on; each handler names the part it needs. */
export interface HttpParts extends ServingParts, IdentityServices, PaymentServices, WebhookServices {
  readonly accounts: AccountStore
  readonly ledger: LedgerStore
  readonly identityStore: IdentityStore
  readonly responses: ResponseStore
  /** Erases what a deleted account has asked and was answered. Rejects with `store_unavailable`. */
  readonly eraseContents: (account: string) => Promise<void>
  readonly conversations: ConversationStore
  readonly prompts: PromptStore
  /** Whether conversations may be shared by a link. */
  readonly shareLinks: () => boolean
  /** Records of calls and charges. */
  readonly requests: RequestReader
  readonly usage: UsageReader
  readonly finder: Finder
  readonly directory: AccountDirectory
  readonly statements: StatementReader
  /** What has happened since the start. */
  readonly metrics: Pick<CallMetrics, 'text'>
  /** The other processes of `server.processes`; undefined where this is the only one. */
  readonly siblings: Siblings | undefined
  /** How the store is doing. Throws `store_unavailable`. */
  readonly figures: () => Awaitable<StoreFigures>
  readonly upkeep: Pick<UpkeepStore, 'findNote'>
  /** How the request log is sent elsewhere; undefined while it is not. */
  readonly logExport: () => Promise<
    | {
        readonly waiting: number
        readonly sentAt: number | null
        readonly error: string | null
        readonly rows: number
        readonly failures: number
      }
    | undefined
  >
  readonly managementKeys: ManagementKeyStore
  readonly groups: GroupStore
  readonly leaks: Pick<KeyLeaks, 'onReport'>
  /** The calls in flight of an account, in the order they came. */
  readonly callsOf: (account: string) => Awaitable<readonly Readonly<LiveCall>[]>
  /** How many calls run at all gateways. Throws `store_unavailable`. */
  readonly callsRunning: () => Awaitable<number>
  /** The gateways of the database by name, and the name of this one; undefined where there is only this one. */
  readonly gateways:
    | {
        readonly name: string
        readonly list: () => Promise<
          readonly {
            readonly leads: boolean
            readonly isSilent: boolean
            readonly name: string
            readonly sells: string
          }[]
        >
      }
    | undefined
  /** How a provider is doing for the calls of an account. */
  readonly healthOf: (...asked: Parameters<Health['report']>) => Awaitable<ProviderHealth>
  /** How the catalog differs from the bundled one. Rejects if the imported file is damaged. */
  readonly catalogFile: () => Promise<CatalogFileState>
  /** The configuration that was read last; secrets are masked. */
  readonly settings: () => ConfigurationView
  readonly configuration: ConfigurationService
  readonly mcpServers: McpServers
  /** Calls of tools at /mcp that can be cancelled. */
  readonly mcpCalls: RunningCalls
  /** Connects to a registered server and lists its tools. Rejects with GatewayError. */
  readonly probeMcp: (
    account: string,
    name: string,
  ) => Promise<{
    readonly tools: readonly string[]
    readonly error: string | undefined
    readonly needsAuthorization: boolean
  }>
  readonly mcpAuthorization: McpAuthorization
  /** Audits the ledger, or one UTC day of it, beside the calls. Rejects with `rate_limit_exceeded` while another runs. */
  readonly audit: (day?: number) => Promise<AuditReport | DayAudit>
}

// Grants free credit to each person: the welcome credit once, the allowance each day, and what its account has a month.

export class FreeCredit {
  readonly #allowances: Pick<Allowances, 'ensure'>
  readonly #welcomes: Pick<Welcomes, 'ensure'>
  readonly #monthly: Pick<MonthlyCredit, 'ensure'>
  readonly #unverified: boolean

  /** `unverified`: whether accounts without a verified address get it too. */
  constructor(
    allowances: Pick<Allowances, 'ensure'>,
    welcomes: Pick<Welcomes, 'ensure'>,
    monthly: Pick<MonthlyCredit, 'ensure'>,
    unverified: boolean,
  ) {
    this.#allowances = allowances
    this.#welcomes = welcomes
    this.#monthly = monthly
    this.#unverified = unverified
  }

  /**
   * Grants the account's free credit if it is due; resolves when that is durable. Nothing for a suspended account.
   * Rejects with `store_unavailable` or `overloaded`.
   */
  async ensure(account: Account): Promise<void> {
    if (account.suspended) return
    await this.#monthly.ensure(account)
    if (account.verifiedAt === null && !this.#unverified) return
    const person = personOf(account.email)
    await this.#welcomes.ensure(account.id, person)
    await this.#allowances.ensure(account.id, person)
  }
}
