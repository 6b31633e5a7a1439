// The stores that are the same on every database: a new one is added here, and is on all of them.

import { SqlAccounts } from './account-store.ts'
import { SqlConversations, SqlItemConversations, SqlPrompts } from './conversations.ts'
import { SqlFinder, type FinderParts } from './directory.ts'
import { SqlIdempotency, type ThisProcess } from './idempotency.ts'
import { SqlIdentities } from './identity-store.ts'
import {
  SqlActs,
  SqlManagementKeys,
  SqlMcpServers,
  SqlProvisioning,
  SqlSettings,
  SqlSpending,
  SqlUpkeep,
} from './records.ts'
import { SqlBackground, SqlResponses } from './response-store.ts'
import { DeletedContents } from './retention.ts'
import { SqlPayments, SqlSubscriptions, SqlVouchers } from './top-ups.ts'
import { SqlWebhooks } from './webhooks.ts'
import type { OrderedTables } from './work.ts'

export interface SqlStoresParts extends ThisProcess {
  readonly tables: OrderedTables
  /** Finds the last calls with an id that a provider gave. */
  readonly byUpstreamId: FinderParts['byUpstreamId']
  /** Called when a key has got a successor. */
  readonly onRotated: () => void
  /** How long it is believed how much an account has stored, milliseconds; not where only this process writes. */
  readonly sumsTrustedMs?: number
}

/** Members of Store. */
export function sqlStores(parts: SqlStoresParts) {
  const { tables, clock, byUpstreamId, onRotated, sumsTrustedMs } = parts
  const whenAccountsChange: (() => void)[] = []
  const accounts = new SqlAccounts(tables, clock, {
    onRotated,
    onChanged: () => {
      for (const act of whenAccountsChange) act()
    },
  })
  const responses = new SqlResponses(tables, clock, sumsTrustedMs)
  const background = new SqlBackground(tables, parts)
  const itemConversations = new SqlItemConversations(tables, clock)
  return {
    accounts,
    groups: accounts.groups,
    identities: new SqlIdentities(tables, (session) => accounts.forget(session)),
    provisioning: new SqlProvisioning(tables, parts, (id) => accounts.forgetAccount(id)),
    whenAccountsChange: (act: () => void) => void whenAccountsChange.push(act),
    refreshAccounts: () => accounts.refresh(),
    idempotency: new SqlIdempotency(tables, parts),
    responses,
    background,
    itemConversations,
    deletedContents: new DeletedContents(tables, [background, itemConversations, responses]),
    finder: new SqlFinder({ tables, clock, byUpstreamId }),
    managementKeys: new SqlManagementKeys(tables),
    mcpServers: new SqlMcpServers(tables),
    acts: new SqlActs(tables),
    settings: new SqlSettings(tables),
    payments: new SqlPayments(tables),
    vouchers: new SqlVouchers(tables),
    webhooks: new SqlWebhooks(tables),
    subscriptions: new SqlSubscriptions(tables),
    conversations: new SqlConversations(tables),
    prompts: new SqlPrompts(tables),
    upkeep: new SqlUpkeep(tables),
    spending: new SqlSpending(tables),
  }
}
