// Serves a parsed request that costs money, whatever its protocol: once, and within the limits of its caller.

import { type Caller, hasMonthly, payerOf } from '../../../accounts/account.ts'
import { refusedCall } from '../../../chat/billing/charge.ts'
import { budgetRoom, keyRoom } from '../../../chat/billing/need.ts'
import type { IncomingCall, Kind, PaidCall, RunningCaller } from '../../../chat/call.ts'
import { complete } from '../../../chat/complete.ts'
import { countTokens } from '../../../chat/estimate.ts'
import { shuttingDown } from '../../../chat/routing/fault-error.ts'
import { checkAddresses } from '../../../chat/upstream/lower.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { freeIn, remainingIn } from '../../../credits/wallet.ts'
import type { LedgerStore } from '../../../credits/ledger/ledger.ts'
import { formatUsd } from '../../../credits/money.ts'
import { fundingOf, pools } from '../../../credits/pool.ts'
import { type ErrorCode, GatewayError } from '../../../errors/errors.ts'
import type { Warning } from '../../../protocols/lowering.ts'
import type { Envelope, Inbound, InboundRequest } from '../../../protocols/protocol.ts'
import type { ServingParts } from '../../parts.ts'
import { errorResponse, type Refuse, refusedLater, type RouteCall } from '../../route.ts'
import { idempotent, type KeyedRequest, type Run } from './idempotency.ts'
import { readCall, tagsHeader, tagsOfRequest } from '../read-body.ts'

/** The HTTP request and the call it makes; `bodyBytes` is the size of the body. */
interface ReadChat extends KeyedRequest {
  readonly call: Pick<IncomingCall, 'inbound' | 'request' | 'bodyBytes' | 'arrivedAt'>
  /** The conversation of the console's chat that it answers in. */
  readonly conversation?: string | undefined
}

/**
 * Serves a request whose body is a call in a protocol; `amend` adds to the body what its clients say elsewhere. Rejects
 * with GatewayError before the first byte.
 */
export async function serveBody(
  parts: ServingParts,
  asked: RouteCall,
  inbound: Inbound,
  amend: (json: JsonObject) => JsonObject = (json) => json,
  refuse?: Refuse,
): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = asked
  const { caller, json: sent, bytes } = await readCall(parts, asked)
  const json = amend(sent)
  const parsed = await parts.scheduler.run(() => parseBody(inbound, json, parts))
  const call = { inbound, request: parsed, bodyBytes: bytes, arrivedAt }
  return serveChat(parts, { request, caller, json, requestId, call }, refuse)
}

/** Rejects with GatewayError before the first byte; refusals by the limits have the shape that `refuse` gives. */
export function serveChat(parts: ServingParts, chat: ReadChat, refuse?: Refuse): Promise<Response> {
  const { caller, requestId, call, conversation } = chat
  const { inbound, bodyBytes, arrivedAt } = call
  const { request, tags } = withTags(call.request, chat)
  const run: PaidRun = (stopping, signal, keeper) => {
    if (conversation !== undefined) parts.chat.inFlight.answersIn(requestId, conversation)
    return complete(parts.chat, {
      inbound,
      request,
      bodyBytes,
      tags,
      arrivedAt,
      caller,
      requestId,
      stopping,
      signal,
      keeper,
    })
  }
  return servePaid(parts, { ...chat, call: { ...call, request, tags } }, run, refuse)
}

/**
 * The request with a warning for what of it is no tag, and the tags of its call. Throws `invalid_request` for a header
 * that is out of bounds, and `unsupported_parameter` for a warning where the request is strict.
 */
export function withTags<Asked extends PaidCall['request']>(
  asked: Asked,
  { request: { headers }, json, caller: { standing } }: Pick<KeyedRequest, 'request' | 'json' | 'caller'>,
): { readonly request: Asked; readonly tags: string | undefined } {
  const mayHave =
    json['user'] !== undefined ||
    json['metadata'] !== undefined ||
    json['safety_identifier'] !== undefined ||
    json['labels'] !== undefined ||
    standing !== null ||
    headers.has(tagsHeader)
  const tagged = mayHave ? tagsOfRequest(headers, json, standing?.levels) : undefined
  if (tagged === undefined || tagged.warnings.length === 0) return { request: asked, tags: tagged?.tags }
  refuseDropped(asked.envelope, tagged.warnings)
  return {
    request: { ...asked, warnings: [...(asked.warnings ?? []), ...tagged.warnings] },
    tags: tagged.tags,
  }
}

/**
 * Parses a client's body and normalises its addresses, which changes `json`. Throws what the inbound throws,
 * `url_not_allowed`, and `unsupported_parameter` for a field that names a destination in a strict request.
 */
function parseBody(
  inbound: Inbound,
  json: JsonObject,
  { addressRules, prefixes }: Pick<ServingParts, 'addressRules' | 'prefixes'>,
): InboundRequest {
  const { addresses, warnings } = checkAddresses(json, inbound.addresses, addressRules)
  prefixes.keep(json)
  const request = inbound.parse(json)
  refuseDropped(request.envelope, warnings)
  if (addresses.length === 0 && warnings.length === 0) return request
  return { ...request, addresses, warnings: [...(request.warnings ?? []), ...warnings] }
}

/** Throws `unsupported_parameter` for the first dropped parameter of a strict request. */
export function refuseDropped({ strict }: Pick<Envelope, 'strict'>, [first]: readonly Warning[]): void {
  if (first === undefined || !strict) return
  throw new GatewayError('unsupported_parameter', { message: first.message, param: first.param })
}

interface PaidRequest extends KeyedRequest {
  readonly call: Pick<PaidCall, 'request' | 'arrivedAt' | 'tags'>
}

/** Runs a paid request until `stopping` aborts: at a shutdown, or when its caller may call no longer. */
export type PaidRun = (stopping: AbortSignal, ...given: Parameters<Run>) => ReturnType<Run>

/**
 * Runs a paid request once per Idempotency-Key, unless draining, and only for as long as its caller may call. Logs
 * refusals with caller and model.
 */
export async function servePaid(
  parts: ServingParts,
  paid: PaidRequest,
  run: PaidRun,
  refuse: Refuse = errorResponse,
): Promise<Response> {
  const { request, caller, requestId, call } = paid
  parts.chat.traces?.onRequest(requestId, request, call.request.envelope.model, call.arrivedAt)
  const noteRefusal: RefuseLater = async (thrown, ...failed) => {
    note(parts, paid, thrown, await figuresOf(parts, paid, thrown))
    return refuse(thrown, ...failed)
  }
  let running: RunningCaller | undefined
  try {
    if (!parts.ready()) throw shuttingDown()
    parts.keepOpen(request)
    running = await parts.callers.enter(caller)
    const { signal: stopping } = running
    const kind = kindOf(parts, paid)
    if (hasMonthly(caller)) await parts.monthlyCredit.ensure(caller.account)
    return await idempotent(parts, paid, (signal, keeper) =>
      withinLimits(parts, { caller, requestId, kind }, () => run(stopping, signal, keeper), noteRefusal),
    )
  } catch (thrown) {
    note(parts, paid, thrown)
    throw thrown
  } finally {
    parts.chat.inFlight.whenLeft(requestId, () => {
      running?.leave()
      parts.closeWhenIdle(request)
    })
  }
}

/** Simulated are the calls of test keys, and those of models that the simulator alone serves. */
function kindOf({ catalog, chat: { providers } }: ServingParts, { caller, call }: PaidRequest): Kind {
  if (caller.mode === 'test') return 'simulated'
  const { model, fallbacks } = call.request.envelope
  const isSimulated = (id: string) =>
    catalog.find(id)?.offers.every((offer) => providers.get(offer.provider)?.transport === 'builtin') ?? false
  return isSimulated(model) && fallbacks.every(isSimulated) ? 'simulated' : 'real'
}

/** For a call that is refused for lack of credit: the figures for the log. */
async function figuresOf(
  { ledger, now }: ServingParts,
  { caller }: PaidRequest,
  thrown: unknown,
): Promise<Readonly<Record<string, unknown>>> {
  if (!(thrown instanceof GatewayError) || !isWantOfCredit(thrown.code)) return {}
  return creditFigures(ledger, caller, now()).catch(() => ({}))
}

/** Calls are in the log already. */
function note(
  { calls, chat, now }: ServingParts,
  { caller, requestId, call }: PaidRequest,
  thrown: unknown,
  figures: Readonly<Record<string, unknown>> = {},
): void {
  if (!(thrown instanceof GatewayError)) return
  const { request, arrivedAt, tags } = call
  const asked = { caller, requestId, arrivedAt, request, tags, keeper: undefined }
  const refused = refusedCall(asked, thrown, now(), figures)
  chat.traces?.onCallEnded(refused)
  calls.onRefused(refused, thrown)
}

// Runs a paid call within the limits of its caller.

/** Makes the response for a refusal, once it is in the log. */
type RefuseLater = (...refused: Parameters<Refuse>) => Response | Promise<Response>

interface Entering {
  readonly caller: Caller
  readonly requestId: string
  readonly kind: Kind
}

/** The kind of a request that reaches no provider, such as one that counts tokens. */
export function kindOfCaller({ mode }: Pick<Caller, 'mode'>): Kind {
  return mode === 'test' ? 'simulated' : 'real'
}

/**
 * Counts the tokens of a prompt, without sending it anywhere, and answers them as `shape` has them. It counts as a request
 * of its caller, and costs nothing.
 */
export function answerCount(
  parts: ServingParts,
  asked: RouteCall,
  caller: Caller,
  prompt: { readonly model: string; readonly parts: Parameters<typeof countTokens>[3] },
  shape: (tokens: number) => object,
  refuse?: Refuse,
): Promise<Response> {
  const { requestId } = asked
  const count = async () => {
    const tokens = await countTokens(parts.chat, caller, prompt.model, prompt.parts)
    // No call holds the request's place among those in flight: it ends here.
    parts.limiter.leave(requestId)
    return Response.json(shape(tokens), { headers: { 'x-request-id': requestId } })
  }
  const entering = { caller, requestId, kind: kindOfCaller(caller) }
  return withinLimits(parts, entering, count, refusedLater(parts, asked, caller, refuse))
}

/** Runs the call and adds the limits to the headers of every answer, including refusals, which count too. */
async function withinLimits(
  { limiter, publicUrl }: Pick<ServingParts, 'limiter' | 'publicUrl'>,
  { caller, requestId, kind }: Entering,
  run: () => Promise<Response>,
  refuse: RefuseLater = errorResponse,
): Promise<Response> {
  let response: Response
  try {
    await limiter.enter(caller, requestId, kind)
    response = await run()
  } catch (error) {
    limiter.leave(requestId)
    // Internal errors are passed on to be logged.
    if (!(error instanceof GatewayError) || error.code === 'internal_error') throw error
    response = await refuse(error, requestId, publicUrl())
  }
  const limits = limiter.headers(caller)
  for (const name in limits) response.headers.set(name, limits[name]!)
  return response
}

// Records the credit at the moment of a refusal for lack of it, which cannot be reconstructed later.

const wantOfCredit: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'plan_required',
  'purchased_credits_required',
  'insufficient_credits',
  'credits_reserved',
  'key_limit_exceeded',
  'budget_exceeded',
])

/** Whether a refusal depends on the available credit. */
function isWantOfCredit(code: ErrorCode): boolean {
  return wantOfCredit.has(code)
}

/**
 * The pools that pay, each with what was left, what was free and whether calls of this kind spend it, and what the key's
 * own limit and the budgets of its group left. `now` in milliseconds since 1970.
 */
async function creditFigures(
  ledger: Pick<LedgerStore, 'balance' | 'keySpend' | 'budgetSpend'>,
  caller: Caller,
  now: number,
): Promise<Readonly<Record<string, unknown>>> {
  const balance = await ledger.balance(payerOf(caller))
  const counted = fundingOf(caller.channel, true)
  const room = await keyRoom(ledger, caller.key, now)
  const ofGroup = await budgetRoom(ledger, caller.standing, now)
  return {
    pools: pools.map((type) => ({
      type,
      remaining: formatUsd(remainingIn(balance, type, now)),
      free: formatUsd(freeIn(balance, [type], now)),
      counted: counted.includes(type),
    })),
    ...(room === undefined ? {} : { key_limit_left: formatUsd(room.free) }),
    ...(ofGroup === undefined ? {} : { budget_left: formatUsd(ofGroup.free) }),
  }
}
