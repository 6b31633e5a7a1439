// Requests and notifications between the ledger's process and a worker.

import type { AccountStore } from '../../accounts/account.ts'
import type { IdentityStore } from '../../accounts/identity/identity-store.ts'
import type { CatalogFile } from '../../catalog/row.ts'
import type { Kind, LiveCall } from '../../chat/in-flight.ts'
import type { AnswersByProvider, ProviderHealth } from '../../chat/routing/health.ts'
import type { Config } from '../../config/config.ts'
import type { IdempotencyStore } from '../../credits/ledger/idempotency.ts'
import type { CallLedger, Haste, HoldCommand, HoldResult } from '../../credits/ledger/ledger.ts'
import type { MonthlyCredit } from '../../credits/monthly-credit.ts'
import type { FreeCredit } from '../../http/intake/free-credit.ts'
import type { LimitedCaller } from '../../http/intake/paid/limits.ts'
import type { RequestLogRow } from '../../observe/call-log.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { ResponseStore } from '../../responses/response-store.ts'
import type { Mcp } from '../gateway/tools.ts'

/** Requests of a worker to the ledger's process. */
export interface LedgerRequests
  extends
    Omit<CallLedger, 'recordPrice' | 'startHold'>,
    Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession' | 'findStanding'>,
    Pick<IdentityStore, 'touchSession'>,
    Pick<IdempotencyStore, 'claim' | 'finish'> {
  /** Answered when the hold is decided; `holdDurable` follows with this number once a power cut would not undo it. */
  startHold(command: HoldCommand, haste: Haste, number: number): Promise<HoldResult>
  keepAnswer: IdempotencyStore['keep']
  keepResponse: ResponseStore['keep']
  findResponse: ResponseStore['find']
  sizeOfResponse: ResponseStore['sizeOf']
  conversation: ResponseStore['conversation']
  /** What the account has stored, bytes. */
  storedBytes(account: string): Promise<number>
  recallSignature(key: string): Promise<string | undefined>
  freeCredit: FreeCredit['ensure']
  monthlyCredit: MonthlyCredit['ensure']
  /** Admits a paid request; see RequestLimiter. */
  enter(caller: LimitedCaller, requestId: string, kind: Kind): void
  limitHeaders(caller: LimitedCaller): Readonly<Record<string, string>>
  /** Whether this worker may send the probe of an offer now; see SharedProbes. */
  claimProbe(offer: string): number
  /** What providers have answered all workers in the last hour. */
  lastHour(): Promise<AnswersByProvider>
  /** The URL of a registered MCP server and its headers, credentials included. */
  mcpServer(account: string, name: string): Promise<RegisteredServer>
  /** The server has refused a request with this token, which `mcpServer` gave. */
  mcpRefused: Mcp['noteRefusal']
}

export interface RegisteredServer {
  readonly url: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The OAuth token in the headers, if the server was authorised with OAuth. */
  readonly token: string | undefined
}

/** Notifications of a worker. */
export interface LedgerNotifications {
  recordPrice: CallLedger['recordPrice']
  /** An admitted request has ended. */
  requestEnded(requestId: string): void
  keyUsed(key: string, network: string): void
  spentTokens(key: string | null, tokens: number): void
  /** An offer with an open breaker has answered. */
  offerRecovered(offer: string): void
  callEnded(row: RequestLogRow): void
  /** A call that was refused before it began; `model` is empty if it does not exist. */
  callRefused(row: RequestLogRow, model: string): void
  /** A request that never became a call. */
  turnedAway(row: RequestLogRow): void
  /** What has happened since the last of these: refusals by code, and how late timers of the worker were, milliseconds. */
  addCounts(refusals: Readonly<Record<string, number>>, loopDelays: readonly number[]): void
  rememberSignature(key: string, signature: string): void
}

/** What a worker starts with. */
export interface WorkerStart {
  readonly config: Config
  /** Its owner name in holds. */
  readonly owner: string
  /** The port that all workers share. */
  readonly port: number
  /** The socket on which the ledger's process takes forwarded requests. */
  readonly forwardTo: string
  readonly servers: readonly LocalServer[]
  /** The catalog of the ledger's process: a worker that replaces another has the same prices as the rest. */
  readonly catalog: CatalogFile
}

/** Requests of the ledger's process to a worker. */
export interface WorkerRequests {
  /** Resolves when the worker serves; rejects with the reason if it cannot. */
  start(start: WorkerStart): Promise<void>
  /** Cached accounts, keys and sessions may be out of date: answered when none of them is used any more. */
  accountsChanged(): void
  /** Puts a configuration in force: answered when calls that begin from now on have it. */
  reconfigure(config: Config): void
  /** The account's calls in flight. */
  callsOf(account: string): Promise<readonly LiveCall[]>
  /** The health of a provider; undefined if the provider is unknown. */
  healthOf(provider: string, account: string): Promise<ProviderHealth | undefined>
  /** What this worker's providers have answered in the last hour. */
  lastHour(): AnswersByProvider
}

/** Notifications of the ledger's process. */
export interface WorkerNotifications {
  /** The hold with this number in `startHold` is durable. */
  holdDurable(number: number): void
  /** An offer with an open breaker has answered another process. */
  offerRecovered(offer: string): void
  /** The local inference servers that answer now. */
  setLocalServers(servers: readonly LocalServer[]): void
  /** Take no new requests, finish the others, and exit. */
  drain(): void
}
