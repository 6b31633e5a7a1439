// The stores that need nothing but tables, the same on every database: a new one is added here, and is on all of them.

import { SqlConversations, SqlPrompts } from './conversations.ts'
import { SqlActs, SqlManagementKeys, SqlMcpServers, SqlSettings, SqlSpending, SqlUpkeep } from './records.ts'
import { SqlPayments, SqlSubscriptions, SqlVouchers } from './top-ups.ts'
import { SqlWebhooks } from './webhooks.ts'
import type { Tables } from './work.ts'

/** Members of Store. */
export function sqlStores(tables: Tables) {
  return {
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
