// Everything that is kept, as the rest of the gateway sees it: interfaces of the rooms that use them, and no database.

import type { Awaitable } from '../async/async.ts'
import type { AccountDirectory, AccountStore } from '../accounts/account.ts'
import type { GroupStore } from '../accounts/group.ts'
import type { Act, ActLog, IdentityStore, ProvisioningStore } from '../accounts/identity/identity-store.ts'
import type {
  AttemptCounts,
  SharedPlaces,
  SharedRates,
  SharedSightings,
} from '../accounts/identity/sign-in-limits.ts'
import type { SettingsStore } from '../accounts/console-settings.ts'
import type { ManagementKeyStore } from '../accounts/key-leaks.ts'
import type { McpServerStore } from '../accounts/mcp-server.ts'
import type { LedgerReports, StatementReader } from '../credits/ledger/monthly.ts'
import type { IdempotencyStore, LedgerStore, LedgerUpkeep } from '../credits/ledger/ledger.ts'
import type { AllowanceRegister, WelcomeRegister } from '../credits/calendar.ts'
import type { PaymentStore } from '../payments/top-up.ts'
import type { PlanStore, SubscriptionStore } from '../payments/subscriptions.ts'
import type { UpkeepStore } from '../notify/alarms.ts'
import type { RecentCalls } from '../notify/watch.ts'
import type { WebhookStore } from '../notify/webhook.ts'
import type { VoucherStore } from '../payments/vouchers.ts'
import type {
  RequestFollower,
  RequestLogRow,
  RequestReader,
  StoreFigures,
  UsageReader,
} from '../observe/call-log.ts'
import type { AuditBeside } from './audits.ts'
import type { Finder } from '../observe/search.ts'
import type { BackgroundStore } from '../responses/background.ts'
import type {
  ConversationStore,
  ItemConversationStore,
  PromptStore,
  ResponseStore,
} from '../responses/response-store.ts'

export interface Store {
  readonly ledger: LedgerStore & LedgerUpkeep
  readonly accounts: AccountStore
  readonly directory: AccountDirectory
  readonly groups: GroupStore
  readonly identities: IdentityStore & WelcomeRegister & AllowanceRegister & Sweepable
  readonly managementKeys: ManagementKeyStore
  readonly provisioning: ProvisioningStore
  readonly mcpServers: McpServerStore
  readonly acts: ActLog
  readonly settings: SettingsStore
  readonly reports: LedgerReports
  readonly statements: StatementReader
  readonly payments: PaymentStore
  readonly vouchers: VoucherStore
  readonly webhooks: WebhookStore
  readonly subscriptions: SubscriptionStore & PlanStore
  readonly idempotency: IdempotencyStore
  readonly responses: ResponseStore
  readonly background: BackgroundStore
  readonly itemConversations: ItemConversationStore & Sweepable
  readonly conversations: ConversationStore
  readonly prompts: PromptStore
  readonly requestLog: RequestLogWriter
  readonly requests: RequestReader & RequestFollower
  readonly usage: UsageReader
  readonly finder: Finder
  readonly signatures: SignatureStore
  readonly deletedContents: ContentEraser & Sweepable
  readonly retention: Sweepable & { facts(): Awaitable<RetentionFacts> }
  readonly upkeep: UpkeepStore
  readonly spending: SpendingReader
  /** What all gateways count together; undefined where there can be only one. */
  readonly limits?: LimitsOfAll | undefined
  /** The gateways of the database; undefined where there can be only one. */
  readonly gateways?: Gateways | undefined
  /** The catalog of all gateways; undefined where it is a file in the data directory. */
  readonly catalogs?: ImportedCatalogs | undefined
  /** What has ended at all gateways; undefined where there can be only one. */
  readonly recentCalls?: RecentCalls | undefined
  /** For whoever monitors it: read in a moment. Throws `store_unavailable`. */
  figures(): Awaitable<StoreFigures>
  /**
   * Audits the ledger, or one UTC day of it, while calls are served. One audit runs at a time: the same request shares its
   * report, another is refused with `rate_limit_exceeded`.
   */
  readonly auditBeside: AuditBeside
  /** Where it is, for people: the file of the database, or its server. */
  readonly path: string
  /** Calls `act` whenever accounts, keys or sessions may have changed, by this process or, once found, by another. */
  whenAccountsChange(act: () => void): void
  /** Looks for changes of accounts, keys and sessions by other processes. Throws `store_unavailable`. */
  refreshAccounts(): void
  /** Whether this process does what is to be done by one of many alone, such as sweeps. What is done twice has to be harmless all the same. */
  leads(): boolean
  /** Leaves what one of many does alone to the others, from now on; undefined where there are none. Never rejects. */
  readonly resign?: (() => Promise<void>) | undefined
  /** Writes the head of the hash chain beside the database, if it has moved. */
  anchor(): void
  /** Writes what is waiting and closes the database. */
  close(): Promise<void>
}

/** Reject with `store_unavailable`. */
export interface Gateways {
  /** Those that show signs of life, or whose end nobody has found out yet. */
  list(): Promise<readonly GatewayAlive[]>
  /** What this one sells, for the others. */
  tell(sells: string): Promise<void>
  /** The calls of an account that run at others, in the order they came, as far as their credit is held. */
  callsElsewhere(account: string): Promise<readonly CallElsewhere[]>
}

export interface GatewayAlive {
  /** As in holds. */
  readonly name: string
  /** Of its program. */
  readonly version: string
  /** Its last sign of life, milliseconds since 1970. */
  readonly seenAt: number
  /** Whether that is so long ago that it will be taken for dead. */
  readonly isSilent: boolean
  readonly leads: boolean
  /** What it sells and at which prices, in short; empty until it has told. */
  readonly sells: string
}

export interface CallElsewhere {
  readonly id: string
  readonly model: string
  readonly key: string | null
  /** Picodollars held for it. */
  readonly hold: bigint
  /** When its credit was held, milliseconds since 1970. */
  readonly startedAt: number
  /** At its last checkpoint; null before it. */
  readonly outputTokens: number | null
}

/** Catalogs that operators have imported, of which the newest is in use. Reject with `store_unavailable`. */
export interface ImportedCatalogs {
  /** Of the newest; 0 before the first. */
  revision(): Promise<number>
  latest(): Promise<ImportedCatalog>
  /** Adds one, with its entry in the log of acts; null for the bundled one again. Resolves with its revision. */
  append(file: string | null, act: Act): Promise<number>
}

export interface ImportedCatalog {
  readonly revision: number
  /** The text of a catalog file; null for the bundled one. */
  readonly file: string | null
}

type LimitsOfAll = AttemptCounts & SharedRates & SharedPlaces & SharedSightings & Sweepable

interface Sweepable {
  /** Forgets what has expired, in small steps. Resolves with how much. */
  sweep(now: number): Promise<number>
}

/** What deleted accounts have asked and were answered: stored responses, kept answers, contents in the request log. */
interface ContentEraser {
  /** Erases all of an account that was deleted at `deletedAt`; what its last calls leave is erased by the sweep. */
  erase(account: string, deletedAt: number): Promise<void>
}

/** Rows are buffered and written soon; they are dropped rather than waited for. */
interface RequestLogWriter {
  append(row: RequestLogRow): void
  /** As `append`, for a call that was refused before the ledger knew of it; `model` is empty if it does not exist. */
  appendRefused(row: RequestLogRow, model: string): void
  /** Rows that found the buffer full or that the database refused. */
  readonly dropped: number
}

/** Thought signatures by a key of their tool call. */
interface SignatureStore {
  remember(key: string, signature: string): void
  recall(key: string): Awaitable<string | undefined>
}

/** What was spent, US dollars, as near as a float is: for alarms, not for bills. Throws `store_unavailable`. */
export interface SpendingReader {
  /** What all calls have cost since `from`, a UTC midnight, milliseconds since 1970. */
  ofInstallation(from: number, until: number): Awaitable<number>
  /** What an account was charged. */
  ofAccount(account: string, from: number, until: number): Awaitable<number>
  /** What all calls of each of these UTC days have cost; days without a call are left out. */
  ofDays(days: readonly number[]): Awaitable<ReadonlyMap<number, number>>
}

export interface RetentionFacts {
  /** When the oldest call in the request log ended, and about how many it holds; null where it holds none. */
  readonly requests: { readonly since: number; readonly about: number } | null
}

export interface RetentionTimes {
  /** How long rows of the request log are kept, milliseconds. */
  readonly requestsMs: number
  /** How long thought signatures are kept, milliseconds. */
  readonly signaturesMs: number
  /** How long messages of payment processors are kept, milliseconds. */
  readonly paymentEventsMs: number
}

/** A server of PostgreSQL as the client needs it. */
export interface DatabaseServer {
  /** With the user, the password and the `sslmode`. */
  readonly url: string
  /** Certificates of authorities, PEM. */
  readonly ca?: string | undefined
  /** False for poolers that share connections by transaction: nothing is kept on a connection then. */
  readonly prepare?: boolean
}

/** The store cannot be used; the message says why and what to do. */
export class StoreOpenError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'StoreOpenError'
  }
}
