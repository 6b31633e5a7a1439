// Who makes a call, as known after authentication.

import type { Account } from './account.ts'
import type { ApiKey } from './api-key.ts'

export interface Caller {
  readonly account: Account
  /** null for the app of a signed-in account. */
  readonly key: ApiKey | null
  readonly channel: 'api' | 'app'
  /** Test keys are answered by the simulator and cost nothing. */
  readonly mode: 'live' | 'test'
}

/** The model of a search without a model's answer. It says nothing of its own, and its searches are what is paid. */
export const searchModel = 'sim/search:free'

/**
 * Whether the caller's key may use this model: its list contains the id, or `<provider>/*`. Every key may search, with
 * any of its models and so without one.
 */
export function mayUse(caller: Caller, modelId: string): boolean {
  const allowed = caller.key?.allowedModels
  if (!allowed || modelId === searchModel) return true
  const provider = modelId.slice(0, modelId.indexOf('/'))
  return allowed.includes(modelId) || allowed.includes(`${provider}/*`) || allowed.includes('*')
}
