// What the ledger's process and a worker ask of each other.

import type { AccountStore } from '../../accounts/account.ts'
import type { IdentityStore } from '../../accounts/identity/identity-store.ts'
import type { LiveCall } from '../../chat/in-flight.ts'
import type { ProviderHealth } from '../../chat/routing/health.ts'
import type { Config } from '../../config.ts'
import type { IdempotencyStore } from '../../credits/ledger/idempotency.ts'
import type { CallLedger, HoldCommand, HoldResult } from '../../credits/ledger/ledger.ts'
import type { FreeCredit } from '../../http/app/free-credit.ts'
import type { LimitedCaller } from '../../http/intake/paid/limits.ts'
import type { RequestLogRow } from '../../observe/request-log.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { ResponseStore } from '../../responses/response-store.ts'
import type { Mcp } from '../gateway/mcp.ts'

/** What a worker asks of the ledger's process. All of it may be answered later, and nothing out of a memory of its own. */
export interface LedgerAnswers
  extends
    Omit<CallLedger, 'recordPrice' | 'startHold'>,
    Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession'>,
    Pick<IdentityStore, 'touchSession'>,
    Pick<IdempotencyStore, 'claim' | 'finish'> {
  /** Answered when the hold is decided; `holdDurable` is said with the number when a power cut would not undo it. */
  startHold(command: HoldCommand, number: number): Promise<HoldResult>
  keepAnswer: IdempotencyStore['keep']
  keepResponse: ResponseStore['keep']
  findResponse: ResponseStore['find']
  conversation: ResponseStore['conversation']
  /** How much the account has stored, bytes. */
  storedBytes(account: string): Promise<number>
  recallSignature(toolCallId: string): Promise<string | undefined>
  freeCredit: FreeCredit['ensure']
  /** Lets a paid request in; see RequestLimiter. */
  enter(caller: LimitedCaller, requestId: string): void
  limitHeaders(caller: LimitedCaller): Readonly<Record<string, string>>
  /** Where a registered MCP server is, and what it wants to see: its headers, credentials among them. */
  mcpServer(account: string, name: string): Promise<RegisteredServer>
  /** The server has refused a request with that token, which came from `mcpServer`. */
  mcpRefused: Mcp['noteRefusal']
}

export interface RegisteredServer {
  readonly url: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** The token among them, where it was authorised. */
  readonly token: string | undefined
}

/** What a worker only says. */
export interface LedgerHears {
  recordPrice: CallLedger['recordPrice']
  /** A request that was let in has ended. */
  left(requestId: string): void
  spentTokens(key: string | null, tokens: number): void
  callEnded(row: RequestLogRow): void
  /** A call that was refused before it began; `model` is empty for one that there is not. */
  callRefused(row: RequestLogRow, model: string): void
  rememberSignature(toolCallId: string, signature: string): void
}

/** What a worker starts with. */
export interface WorkerStart {
  readonly config: Config
  /** Its name in holds. */
  readonly owner: string
  /** Where it listens, together with the others. */
  readonly port: number
  /** The socket on which the ledger's process answers what workers do not serve. */
  readonly forwardTo: string
  readonly servers: readonly LocalServer[]
}

/** What the ledger's process asks of a worker. */
export interface WorkerAnswers {
  /** Resolves when it serves; rejects with the reason why it cannot. */
  start(start: WorkerStart): Promise<void>
  /** The calls in flight of an account. */
  callsOf(account: string): Promise<readonly LiveCall[]>
  /** How a provider is doing; undefined where it is not known. */
  healthOf(provider: string, account: string): Promise<ProviderHealth | undefined>
}

/** What the ledger's process only says. */
export interface WorkerHears {
  /** The number is that of a `startHold`. */
  holdDurable(number: number): void
  /** Accounts, keys or sessions have changed: what is remembered of them may be wrong. */
  forget(): void
  /** The inference servers that are there now. */
  serversAre(servers: readonly LocalServer[]): void
  /** Take nothing new, finish what there is, and end. */
  drain(): void
}
