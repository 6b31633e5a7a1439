// Whether a caller may use a model now. The order of the refusals is part of the contract.

import type { Account } from '../accounts/account.ts'
import { mayUse, type Caller } from '../accounts/caller.ts'
import { andThen, type Awaitable } from '../awaitable.ts'
import type { Model } from '../catalog/model.ts'
import { remainingIn } from '../credits/balance.ts'
import type { Balance } from '../credits/ledger/ledger.ts'
import { isFree } from '../credits/price.ts'
import { type ErrorCode, GatewayError } from '../errors.ts'
import type { Warning } from '../protocols/protocol.ts'
import type { PaidCall } from './call.ts'
import { ownerHint } from './owner-hint.ts'
import type { ChatParts } from './parts.ts'
import { testModel } from './routing/test-mode.ts'

export type Costs = 'nothing' | 'something'

/**
 * Whether calls of a model can cost anything. A provider that reports its own cost (`reports`) may charge for more
 * than tokens, such as a search, so a free price does not prove that its calls are free.
 */
export function costsOf(model: Model, reports: (provider: string) => boolean): Costs {
  return model.offers.every(({ provider, price }) => isFree(price) && !reports(provider))
    ? 'nothing'
    : 'something'
}

/** The first reason to refuse, or undefined. Order: design.md, "Refusals, in this order", and admission.test.ts. */
export function refusal(
  caller: Caller,
  model: Model,
  balance: Balance,
  now: number,
  costs: Costs = 'something',
): ErrorCode | undefined {
  if (caller.mode === 'live') {
    const opens =
      caller.channel === 'app' ? (['purchased', 'subscription'] as const) : (['purchased'] as const)
    if (model.premium && !opens.some((pool) => remainingIn(balance, pool, now) > 0n)) return 'plan_required'
    const needsCredit = caller.channel === 'api' && costs === 'something'
    if (needsCredit && remainingIn(balance, 'purchased', now) <= 0n) return 'purchased_credits_required'
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

/** Models either embed or chat: the `wrong_endpoint` error if `model` does not do this, otherwise undefined. */
export function wrongEndpoint(model: Model, purpose: Purpose): 'wrong_endpoint' | undefined {
  return servedAt(model) === purpose ? undefined : 'wrong_endpoint'
}

function servedAt(model: Model): Purpose {
  return model.outputModalities.includes('embeddings') ? 'embeddings' : 'chat'
}

export function refusalError(
  code: ErrorCode,
  model: Model,
  purpose: Purpose,
  account?: Account,
): GatewayError {
  const metadata = { model: model.id }
  if (code === 'purchased_credits_required' && account)
    return new GatewayError(code, { ...ownerHint(code, account), metadata })
  if (code !== 'wrong_endpoint') return new GatewayError(code, { metadata })
  const message = `${model.id} is no ${purpose} model: it serves ${endpoints[servedAt(model)]}.`
  return new GatewayError(code, { message, param: 'model', metadata })
}

interface Admitted {
  readonly models: readonly Model[]
  readonly warnings: Warning[]
  /** The account's credit at this moment. */
  readonly balance: Balance
}

/** The models that may serve the call. The first must be admitted (throws otherwise); other fallbacks are left out. */
export function admitted(
  parts: Pick<ChatParts, 'catalog' | 'ledger' | 'now' | 'providers'>,
  call: Pick<PaidCall, 'caller' | 'request'>,
  purpose: Purpose,
): Awaitable<Admitted> {
  return andThen(parts.ledger.balance(call.caller.account.id), (balance) =>
    admittedBy(parts, call, purpose, balance),
  )
}

function admittedBy(
  parts: Pick<ChatParts, 'catalog' | 'now' | 'providers'>,
  call: Pick<PaidCall, 'caller' | 'request'>,
  purpose: Purpose,
  balance: Balance,
): Admitted {
  const { caller } = call
  const { model: first, fallbacks } = call.request.envelope
  const warnings: Warning[] = [...(call.request.warnings ?? [])]
  const models: Model[] = []
  for (const [position, id] of [first, ...fallbacks].entries()) {
    const listed = parts.catalog.resolve(id)
    const model = caller.mode === 'test' ? testModel(listed) : listed
    const costs = costsOf(model, (id) => parts.providers.get(id)?.costFrom === 'reported')
    const refused = wrongEndpoint(model, purpose) ?? refusal(caller, model, balance, parts.now(), costs)
    if (refused === undefined) models.push(model)
    else if (position === 0) throw refusalError(refused, model, purpose, caller.account)
    else warnings.push({ param: `models[${position - 1}]`, message: `${model.id} is left out: ${refused}` })
  }
  return { models, warnings, balance }
}
