// What the routes are given.

import type { ManagementKeyStore } from '../accounts/management-key.ts'
import type { AccountStore } from '../accounts/account.ts'
import type { Identities } from '../accounts/identity/identities.ts'
import type { ActLog, IdentityStore } from '../accounts/identity/identity-store.ts'
import type { Oidc } from '../accounts/identity/oidc.ts'
import type { Passkeys } from '../accounts/identity/passkeys.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ChatParts } from '../chat/parts.ts'
import type { StatementReader } from '../credits/ledger/statements.ts'
import type { AuditReport, DayAudit, LedgerStore } from '../credits/ledger/ledger.ts'
import type { CallLog } from '../observe/call-log.ts'
import type { Log } from '../observe/log.ts'
import type { RequestReader } from '../observe/request-log.ts'
import type { UsageReader } from '../observe/usage.ts'
import type { ResponseLimits } from '../responses/keep.ts'
import type { ConversationStore } from '../responses/conversation-store.ts'
import type { ResponseStore } from '../responses/response-store.ts'
import type { FreeCredit } from './app/free-credit.ts'
import type { Limiter } from './intake/paid/limits.ts'
import type { IdempotencyParts } from './intake/paid/idempotency.ts'
import type { BodyLimits } from './intake/read-body.ts'
import type { Site } from './intake/site.ts'

export interface Service extends IdempotencyParts {
  readonly gateway: ChatParts
  readonly accounts: AccountStore
  readonly ledger: LedgerStore
  readonly freeCredit: Pick<FreeCredit, 'ensure'>
  readonly site: Site
  readonly identities: Identities
  readonly identityStore: IdentityStore
  readonly passkeys: Passkeys
  /** undefined where no issuer is set. */
  readonly oidc: Oidc | undefined
  readonly acts: ActLog
  readonly managementKeys: ManagementKeyStore
  /** Audits the ledger, or one UTC day of it, beside the calls. Rejects with `rate_limit_exceeded` while another runs. */
  readonly audit: (day?: number) => Promise<AuditReport | DayAudit>
  readonly catalog: Catalog
  /** The providers that can answer now, by id: configured with a key, or found running. */
  readonly answering: () => ReadonlySet<string>
  readonly responses: ResponseStore
  readonly conversations: ConversationStore
  readonly responseLimits: ResponseLimits
  readonly body: BodyLimits
  readonly limiter: Limiter
  readonly calls: CallLog
  readonly requests: RequestReader
  readonly usage: UsageReader
  readonly statements: StatementReader
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** The address of the gateway as its clients know it, without a slash at its end. */
  readonly publicUrl: () => string
  /** False while the gateway drains: it finishes what it has and takes nothing new. */
  readonly ready: () => boolean
  /** Private `host` or `host:port` entries that users' requests may name. */
  readonly reachableHosts: readonly string[]
  /** Lifts the idle timeout of a request whose answer may take its time; the call's own deadlines hold instead. */
  readonly keepOpen: (request: Request) => void
}
