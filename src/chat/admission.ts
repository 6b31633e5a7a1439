// May this caller use this model now? Pure. The order of the refusals is part of the contract.

import { mayUse, type Caller } from '../accounts/caller.ts'
import type { Model } from '../catalog/model.ts'
import { remainingIn } from '../credits/balance.ts'
import type { Balance } from '../credits/ledger.ts'
import { type ErrorCode, GatewayError } from '../errors.ts'

/** The first reason to refuse, or nothing. Order: design, "Refusals, in this order"; see admission.test.ts. */
export function refusal(caller: Caller, model: Model, balance: Balance, now: number): ErrorCode | undefined {
  if (caller.mode === 'live') {
    const opens =
      caller.channel === 'app' ? (['purchased', 'subscription'] as const) : (['purchased'] as const)
    if (model.premium && !opens.some((pool) => remainingIn(balance, pool, now) > 0n)) return 'plan_required'
    if (caller.channel === 'api' && remainingIn(balance, 'purchased', now) <= 0n)
      return 'purchased_credits_required'
  }
  if (caller.account.suspended) return 'account_suspended'
  if (!mayUse(caller, model.id)) return 'model_not_allowed'
  return undefined
}

/** What a model is asked for. */
export type Purpose = 'chat' | 'embeddings'

const endpoints: Readonly<Record<Purpose, string>> = {
  chat: 'POST /v1/chat/completions',
  embeddings: 'POST /v1/embeddings',
}

/** Models either embed or chat: `wrong_endpoint` for one that is asked for the other. */
export function wrongEndpoint(model: Model, purpose: Purpose): 'wrong_endpoint' | undefined {
  return servedAt(model) === purpose ? undefined : 'wrong_endpoint'
}

function servedAt(model: Model): Purpose {
  return model.outputModalities.includes('embeddings') ? 'embeddings' : 'chat'
}

/** The refusal as the error a client sees. */
export function refusalError(code: ErrorCode, model: Model, purpose: Purpose): GatewayError {
  const metadata = { model: model.id }
  if (code !== 'wrong_endpoint') return new GatewayError(code, { metadata })
  const message = `${model.id} is no ${purpose} model: it serves ${endpoints[servedAt(model)]}.`
  return new GatewayError(code, { message, param: 'model', metadata })
}
