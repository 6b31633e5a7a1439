// Decides whether the provider or Weir searches the web for a call that declares a search.

import type { DeclaredTools, WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type { ChatRequest } from '../../conversation/request.ts'
import type { Attempt } from '../../credits/ledger/ledger.ts'
import { larger, parseUsd, type Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Log, LogFields } from '../../observe/log.ts'
import { type OwnSearch, unable } from '../../protocols/lowering.ts'
import type { Outbound, ProtocolId } from '../../protocols/protocol.ts'
import { UnreachableError } from '../../providers/upstream.ts'
import type { ChatLimits, IncomingCall, PaidCall } from '../call.ts'
import { quirksFor } from '../upstream/lower.ts'
import { type Candidate, keyNumber } from './candidates.ts'
import { pause, type RetryBudget, type Search } from './dispatch.ts'
import { type AfterFilter, AttemptFailed } from './fault-error.ts'
import type { RouteSessions } from './route.ts'
import type { Health } from './health.ts'

/** Searches allowed if the request sets no limit. */
const usualSearches = 5
/** The highest limit that a request may set. */
const mostSearches = 30

type Searching = Pick<IncomingCall, 'caller' | 'request'>

/** A call and its candidates. */
interface Routed<Call> {
  readonly call: Call
  readonly candidates: readonly Candidate[]
  /** The answer may pause, and continues when it is sent back: see OwnSearch. */
  readonly pauses: boolean
}

/**
 * Hands the search to the provider: returns the changed call and the candidates that support it. The call is unchanged
 * if Weir does the search: for a test key, an explicit backend, or a provider whose search cannot honour the request.
 * Throws `unsupported_parameter` if the request requires the provider's search and no candidate has it.
 */
export function withOwnSearch<Call extends Searching>(
  outbounds: Readonly<Record<ProtocolId, Outbound>>,
  call: Call,
  candidates: readonly Candidate[],
): Routed<Call> {
  const declared = call.request.gatewayTools
  return declared === undefined
    ? { call, candidates, pauses: false }
    : withDeclaredSearch(outbounds, call, declared, candidates)
}

function withDeclaredSearch<Call extends Searching>(
  outbounds: Readonly<Record<ProtocolId, Outbound>>,
  call: Call,
  declared: DeclaredTools,
  candidates: readonly Candidate[],
): Routed<Call> {
  const search = declared.declarations.find((each) => each.kind === 'web-search')
  const mayBeOwn = search?.engine === 'auto' || search?.engine === 'native'
  if (!search || !mayBeOwn || call.caller.mode === 'test') return { call, candidates, pauses: false }
  const asked = call.request.toChatRequest()
  const hasFunctions = asked.tools.length > 0 || declared.declarations.length > 1
  const answers = candidates.map((candidate) => ({
    candidate,
    own: ownSearch(outbounds, search, asked, candidate, hasFunctions),
  }))
  const able = answers.filter(({ own }) => own?.kind === 'able')
  if (search.engine === 'native' && able.length === 0)
    throw nobody(
      search,
      answers.map(({ own }) => own),
    )
  // That a fallback can search is no reason to skip the requested model.
  if (search.engine === 'auto' && answers[0]?.own?.kind !== 'able') return { call, candidates, pauses: false }
  // Not every provider can be kept from searching, and none takes zero for the most of its searches.
  if (declared.maxCalls === 0)
    return { call: withoutSearch(call, declared, search), candidates, pauses: false }
  const served = able.map(({ candidate }) => candidate)
  const perSearch = able.some(({ own }) => own?.kind === 'able' && own.billed === 'search')
  const searches = perSearch ? boundOf(search, declared, call, served) : 1
  const pauses = able.some(({ own }) => own?.kind === 'able' && own.pauses === true)
  return { call: searching(call, declared, search, asked, searches), candidates: served, pauses }
}

/** Only searches with a known price are used. */
function ownSearch(
  outbounds: Readonly<Record<ProtocolId, Outbound>>,
  search: WebSearchDeclaration,
  asked: ChatRequest,
  { provider, offer }: Candidate,
  hasFunctions: boolean,
): OwnSearch | undefined {
  const outbound = outbounds[provider.protocol]
  const target = { model: offer.upstream, quirks: quirksFor(outbound, provider) }
  const own = outbound.ownSearch?.(search, asked, target)
  if (own?.kind !== 'able') return own
  if (own.alone && hasFunctions) return unable('cannot stand beside functions')
  const { perCall, perRequest } = offer.price
  const isPriced = perCall['web_search'] !== undefined || (own.billed === 'request' && perRequest > 0n)
  return isPriced ? own : { kind: 'unable', why: 'has no price here' }
}

/** How many searches the call may make: what it asks for, limited by what its `max_cost` pays for beside an answer. */
function boundOf(
  { maxUses }: WebSearchDeclaration,
  { maxCalls }: DeclaredTools,
  { request: { envelope } }: Searching,
  candidates: readonly Candidate[],
): number {
  const wanted = Math.min(maxUses ?? usualSearches, maxCalls ?? mostSearches, mostSearches)
  const maxCost = envelope.maxCost === undefined ? undefined : parseUsd(envelope.maxCost)
  const fee = candidates.reduce<Pico>(
    (most, { offer }) => larger(most, offer.price.perCall['web_search'] ?? 0n),
    0n,
  )
  if (maxCost === undefined || maxCost <= 0n || fee === 0n) return wanted
  const affordable = Number(maxCost / (2n * fee))
  return Math.max(1, Math.min(wanted, affordable))
}

/** The call without the tool declaration, with the search in its request instead. */
function searching<Call extends Searching>(
  call: Call,
  declared: DeclaredTools,
  search: WebSearchDeclaration,
  asked: ChatRequest,
  searches: number,
): Call {
  const bare = withoutSearch(call, declared, search)
  const { maxUses } = search
  const bounded: WebSearchDeclaration = {
    ...search,
    maxUses: maxUses === undefined ? searches : Math.min(maxUses, searches),
  }
  const envelope = { ...bare.request.envelope, searches }
  return {
    ...bare,
    request: { ...bare.request, envelope, toChatRequest: () => ({ ...asked, webSearch: bounded }) },
  }
}

/** The call without the declaration of the search, and so without any. */
function withoutSearch<Call extends Searching>(
  call: Call,
  declared: DeclaredTools,
  search: WebSearchDeclaration,
): Call {
  const declarations = declared.declarations.filter((each) => each !== search)
  const gatewayTools = declarations.length === 0 ? undefined : { ...declared, declarations }
  return { ...call, request: { ...call.request, gatewayTools } }
}

function nobody({ param }: WebSearchDeclaration, answers: readonly (OwnSearch | undefined)[]): GatewayError {
  const why = answers.find((own) => own?.kind === 'unable')
  const reason = why?.kind === 'unable' ? `its own search ${why.why}` : 'it has none of its own'
  return new GatewayError('unsupported_parameter', {
    message: `The provider of this model cannot search for this request: ${reason}. Leave engine out, or change the search.`,
    param,
  })
}

// Looks for a provider for a call, and logs the attempts that failed.

export interface RoutingParts {
  readonly health: Health
  readonly retryBudget: RetryBudget
  readonly limits: ChatLimits
  readonly log: Log
  readonly routeSessions: RouteSessions
}

/** The search of one call for a provider; its hold records the one that answered. */
export class CallSearch implements Search {
  readonly candidates: readonly Candidate[]
  readonly limit: number
  readonly health: Health
  readonly account: string
  readonly afterFilter: AfterFilter
  readonly budget: RetryBudget
  readonly disconnect: AbortSignal
  readonly pause = pause
  readonly #requestId: string
  readonly #log: Log
  readonly #hold: Served
  readonly #session: string | undefined
  readonly #sessions: RouteSessions
  #failures = 0

  constructor(parts: RoutingParts, call: PaidCall, hold: Served, candidates: readonly Candidate[]) {
    this.candidates = candidates
    this.limit = parts.limits.attempts
    this.health = parts.health
    this.account = call.caller.account.id
    this.afterFilter = call.route?.afterFilter ?? call.request.envelope.routing.afterFilter
    this.budget = parts.retryBudget
    this.disconnect = call.signal
    this.#requestId = call.requestId
    this.#log = parts.log
    this.#hold = hold
    this.#session = call.route?.session
    this.#sessions = parts.routeSessions
  }

  onFailed(candidate: Candidate, attempt: Attempt, error: unknown): void {
    this.#failures += 1
    this.#log.warn('an attempt failed', {
      request_id: this.#requestId,
      attempt: this.#failures,
      ...triedFields(candidate),
      code: attempt.code,
      status: attempt.status,
      reason: reasonOf(attempt, error),
      ...causeOf(error),
      ms: attempt.ms,
    })
  }

  onServed(candidate: Candidate, attempts: readonly Attempt[]): void {
    if (this.#session !== undefined) this.#sessions.set(this.#session, candidate.model.id)
    this.#hold.servedBy(candidate, attempts)
  }
}

/** Records the provider that answered. */
interface Served {
  servedBy(candidate: Candidate, attempts: readonly Attempt[]): void
}

/** Log fields: the offer, the index of the provider's key (from 1), the address. */
export function triedFields(candidate: Candidate): LogFields {
  const { provider, offer } = candidate
  const region = provider.deployment?.region
  return {
    provider: provider.id,
    upstream_model: offer.upstream,
    key_number: keyNumber(candidate) + 1,
    base_url: provider.transport === 'builtin' ? null : provider.baseUrl,
    ...(region === undefined ? {} : { region }),
  }
}

/** The provider's or transport's own message, for the operator only. */
function reasonOf({ reason }: Attempt, error: unknown): string | null {
  if (error instanceof AttemptFailed || error instanceof UnreachableError)
    return boundQuery(error.fault.message) || reason
  return reason
}

/** The system error of a connection; for faults of our own the whole error, so that it can be found. */
function causeOf(error: unknown): LogFields {
  if (error instanceof AttemptFailed) return providerCode(error.fault.providerCode)
  if (!(error instanceof UnreachableError)) return { error }
  const { cause } = error
  return {
    ...providerCode(error.fault.providerCode),
    ...(cause instanceof Error ? { cause: boundQuery(cause.message) } : {}),
  }
}

function providerCode(code: string | undefined): LogFields {
  return code === undefined ? {} : { provider_code: code.slice(0, 100) }
}

const longestReason = 500

/** Cuts between words: half a secret would not be recognised and redacted. */
export function boundQuery(text: string): string {
  if (text.length <= longestReason) return text
  const end = text.lastIndexOf(' ', longestReason)
  return `${text.slice(0, Math.max(end, 0))} …`
}
