// An API key for display: everything but the secret.

import { type ApiKey, keyState } from '../../../accounts/api-key.ts'
import { formatUsd } from '../../../credits/money.ts'
import { isoTime, table } from '../../context.ts'

export type KeyView = ReturnType<typeof keyView>

export function keyView(key: ApiKey, now: number) {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    mode: key.mode,
    state: keyState(key, now),
    last_four: key.lastFour,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    revoked_at: isoTime(key.revokedAt),
    limit_usd: key.spendLimit === null ? null : formatUsd(key.spendLimit),
    limit_window: key.limitWindow,
    models: key.allowedModels,
    requests_per_minute: key.requestsPerMinute,
    tokens_per_minute: key.tokensPerMinute,
    networks: key.networks,
    sees: key.sees,
    replaced_by: key.replacedBy,
  }
}

export function renderKeys(keys: readonly KeyView[]): string {
  if (keys.length === 0) return 'no keys'
  const rows = keys.map((key) => [
    key.id,
    key.name,
    key.mode,
    key.sees,
    key.state,
    `…${key.last_four}`,
    key.expires_at ?? 'never',
  ])
  return table(['KEY', 'NAME', 'MODE', 'SEES', 'STATE', 'ENDS IN', 'EXPIRES'], rows)
}
