// The frame of every paid call: hold credit, ask a provider, end the hold.

import type { Catalog } from '../catalog/catalog.ts'
import type { GuardSet } from '../guards/guards.ts'
import type { Balance } from '../credits/ledger/ledger.ts'
import type { Pool } from '../credits/pool.ts'
import { asGatewayError } from '../errors/errors.ts'
import type { ConfiguredProvider } from '../providers/provider.ts'
import type { ToolSources } from '../tools/tool.ts'
import { type BillingParts, type Hold, openHold } from './billing/hold.ts'
import type { IncomingCall, PaidCall, Round, OpenedByPlans } from './call.ts'
import type { Candidate } from './routing/candidates.ts'
import { dispatch, type Dispatched, DispatchFailed, type Waiting } from './routing/dispatch.ts'
import { CallSearch, type RoutingParts } from './routing/search.ts'
import { responseInTime, type StreamingParts } from './streaming/respond.ts'
import type { AnswerCache } from './upstream/answer-cache.ts'
import { fetchWhole, type OpenedStream, openStream, type WholeAnswer } from './upstream/fetch.ts'
import type { UpstreamParts } from './upstream/upstream-request.ts'

/** What serving calls takes. */
export interface ChatParts extends BillingParts, RoutingParts, UpstreamParts, StreamingParts {
  readonly catalog: Pick<Catalog, 'resolve' | 'member'>
  /** What plans open to the chats of an account. */
  readonly openedByPlans: (account: string) => Promise<OpenedByPlans>
  readonly providers: ReadonlyMap<string, ConfiguredProvider>
  /** The tools that requests may declare, by who runs them. */
  readonly toolSources: ToolSources
  /** Answers that are given again to calls that ask for it. */
  readonly answerCache: AnswerCache
  /** What looks at the texts of calls; undefined where the operator has set up nothing. */
  readonly guards: GuardSet | undefined
  /** Whether the request log may store prompts and answers. */
  readonly keepsContents: boolean
}

/** Who may serve a call, and the pools that may pay for it in spending order. */
export interface Payable {
  readonly candidates: readonly Candidate[]
  /** The account's credit now. */
  readonly balance: Balance
  readonly funding: readonly Pool[]
}

/**
 * Holds credit for a call and serves it. `serve` returns the client's response and settles the hold; if it rejects,
 * the hold is released, unless it has already ended or a provider was being asked when the caller's side ended the call.
 * Nothing goes to the client before the hold is durable. Rejects with GatewayError; once a stream has had to wait so long
 * that its client got headers and signs of life, it resolves, and an error is in the stream.
 */
export async function paidCall(
  parts: ChatParts,
  call: PaidCall | IncomingCall,
  payable: Payable,
  serve: (hold: Hold) => Promise<Response>,
): Promise<Response> {
  const { candidates, balance, funding } = payable
  const hold = await openHold(parts, call, candidates, balance, funding)
  if ('inbound' in call) call.inbound.whenHeld?.()
  const served = serveHeld(hold, serve)
  return 'inbound' in call && call.request.envelope.stream
    ? responseInTime(parts, call, candidates[0]!, hold.durable, served)
    : served
}

async function serveHeld(hold: Hold, serve: (hold: Hold) => Promise<Response>): Promise<Response> {
  try {
    const response = await serve(hold)
    // The provider may be asked before; the hold is usually durable long before it answers.
    await hold.durable
    return response
  } catch (error) {
    const failed = error instanceof DispatchFailed ? error : new DispatchFailed(asGatewayError(error), [])
    await hold.fail(failed)
    throw failed.error
  }
}

/** Asks the candidates until one answers, and records which on the hold. Rejects with DispatchFailed. */
export function answerPaid<Answer>(
  parts: ChatParts,
  call: PaidCall,
  hold: Hold,
  candidates: readonly Candidate[],
  ask: (candidate: Candidate, waiting: Waiting) => Promise<Answer>,
): Promise<Dispatched<Answer>> {
  return dispatch(new CallSearch(parts, call, hold, candidates), ask)
}

// One round of a chat: its request goes to the candidates, and one answers. A call has several rounds within one hold
// if the gateway runs the model's tool calls.

/**
 * Resolves with a whole answer, or with a stream whose first events have been emitted. Rejects with DispatchFailed,
 * which sums up all attempts.
 */
export function playRound(
  parts: ChatParts,
  hold: Hold,
  round: Round,
): Promise<Dispatched<OpenedStream | WholeAnswer>> {
  const { call, candidates } = round
  const ask = call.request.envelope.stream ? openStream : fetchWhole
  return answerPaid<OpenedStream | WholeAnswer>(parts, call, hold, candidates, (candidate, waiting) =>
    ask(parts, hold, candidate, round, waiting),
  )
}
