// One call as it came in.

import type { Caller } from '../accounts/account.ts'
import type { ModelRoute, RouteDefaults } from '../catalog/route.ts'
import type { Model } from '../catalog/row.ts'
import { Delivered } from '../conversation/delivered.ts'
import type { Fault } from '../conversation/event.ts'
import type { ContentEvent, Progress } from '../conversation/progress.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Ending } from '../credits/ledger/ledger.ts'
import type { GatewayError } from '../errors/errors.ts'
import type { CallGuard } from '../guards/guards.ts'
import type { EmbeddingRequest } from '../protocols/embeddings/embeddings.ts'
import type { Warning } from '../protocols/lowering.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest } from '../protocols/protocol.ts'
import { shownBody } from '../protocols/request/gateway-tools.ts'
import type { Candidate } from './routing/candidates.ts'
import type { CallCache } from './upstream/answer-cache.ts'

/** What every paid call has, whatever it asks of a model. */
export interface PaidCall {
  readonly caller: Caller
  readonly request: Pick<InboundRequest, 'envelope' | 'body' | 'promptParts' | 'warnings'>
  readonly bodyBytes: number
  /** Also the id of the call in the ledger and on its receipt. */
  readonly requestId: string
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /**
   * Aborts when a shutdown waits no longer, or the caller's access has ended: the call ends with the error of `stopError`,
   * and is settled for what was delivered.
   */
  readonly stopping: AbortSignal
  /** Keeps the answer in case the client asks again; undefined if it cannot. */
  readonly keeper: AnswerKeeper | undefined
  /** Of a call of a virtual model: the members that may serve it. */
  readonly route?: RouteChoice | undefined
  /** Copies the answer for the request log, if the operator enabled that. */
  readonly transcript?: Transcript
  /** Where its answer may be found, and is kept; undefined for a call that does not ask for that. */
  readonly cache?: CallCache | undefined
  /** The guards of its texts; undefined where the operator has set none up. */
  readonly guard?: CallGuard | undefined
  /** Its request as the guards have left it, where they changed it. */
  readonly changed?: object | undefined
  /** What it is for, as `tagsText` writes it; undefined without tags. */
  readonly tags?: string | undefined
  /** performance.now() on arrival. */
  readonly arrivedAt: number
}

/** The members of a route in the order in which a call tries them. */
export interface RouteChoice {
  /** The virtual model that was asked for. */
  readonly id: string
  readonly defaults: RouteDefaults
  /** What decided who is first: the route's rule, or the member that has served the session before. */
  readonly reason: ModelRoute['pick'] | 'session'
  /** At least one; models, not routes. */
  readonly members: readonly Model[]
  /** Members that are asked in no case, and why: `not_sold`, or the code of the refusal. */
  readonly refused: readonly { readonly model: string; readonly reason: string }[]
  /** What follows when a content filter has refused the prompt; undefined where the route does not say. */
  readonly afterFilter: ModelRoute['afterFilter']
  /** Whether a stream that breaks off is gone on with; undefined where the route does not say. */
  readonly continues: ModelRoute['continues']
  /** Where the member that serves is remembered; undefined for a request without a session. */
  readonly session: string | undefined
}

export interface IncomingCall extends PaidCall {
  readonly inbound: Inbound
  readonly request: InboundRequest
}

/** One request of a call to its candidates. A call has several if the gateway runs tools for the model. */
export interface Round {
  /** The call with the request of this round. */
  readonly call: IncomingCall
  readonly candidates: readonly Candidate[]
  /** Warnings for the client, independent of the provider. */
  readonly warnings: readonly Warning[]
  /**
   * Receives the events of the answer. If absent, the answer is encoded for the client, or passed through in the
   * client's own protocol; otherwise the receiver encodes it.
   */
  readonly emit?: (event: ContentEvent) => void
}

export interface EmbeddingCall extends PaidCall {
  readonly embedding: EmbeddingRequest
  /** Builds the client's body once the charge is known. */
  readonly body: (
    vectors: readonly (readonly number[])[],
    usage: Usage,
    bill: Bill,
    context: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
  ) => JsonObject
}

export interface DecisionCall extends PaidCall {
  /** What a provider is sent beside its name of the model. */
  readonly decision: JsonObject
}

/** The limits of a call, from configuration. */
export interface ChatLimits {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly firstByteReasoningMs: number
  /** To the first content of a stream whose model does not think, where another candidate waits. */
  readonly firstTokenMs: number
  readonly gapMs: number
  /** The same of a model that may think. */
  readonly gapReasoningMs: number
  readonly toolMs: number
  readonly totalMs: number
  readonly clientStallMs: number
  readonly drainMs: number
  readonly keepaliveMs: number
  readonly bufferBytes: number
  readonly checkpointMs: number
  readonly checkpointTokens: number
  readonly holdOutputTokens: number
  readonly leaseMs: number
  readonly answerBytes: number
  readonly eventBytes: number
  /** Of all events of one streamed answer. */
  readonly streamBytes: number
  readonly attempts: number
  /** Gateway tool calls per request, unless the request sets its own limit. */
  readonly toolCalls: number
}

/** Until when a call belongs to its process. Longer than every deadline: recovery must not end a running call. */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}

// How an answer ended, and its final figures.

/** How an answer ended, and what it delivered. */
export interface Outcome extends Omit<Progress, 'started' | 'finished'> {
  readonly ending: Ending
  readonly stoppedBy: StoppedBy | undefined
  /** Why a started answer could not be continued by any provider, or was ended by the gateway. */
  readonly error?: GatewayError
}

/** A provider that was asked, and whose answer nobody gets: it had not begun when nobody waited for it, or is unusable. */
export interface Abandoned {
  readonly candidate: Candidate
  /** How long it had been asked for, milliseconds. */
  readonly askedMs: number
  /** What it had counted so far. */
  readonly usage: Usage | undefined
  /** The answer that its model spoiled; absent where it had not begun. */
  readonly made?: (Pick<Progress, 'usage' | 'delivered'> & { readonly fault: Fault }) | undefined
}

/** The outcome of an answer that is complete. */
export function outcomeOf(
  facts: Pick<Progress, 'usage' | 'delivered' | 'finishReason' | 'upstreamId'>,
): Outcome {
  const { usage, delivered, finishReason, upstreamId } = facts
  return {
    usage,
    delivered,
    finishReason,
    upstreamId,
    ending: 'finished',
    fault: undefined,
    stoppedBy: undefined,
  }
}

/** What stopped an answer early: max_cost, the credit, max_tokens if the provider ignored it, too many tools. */
export type StoppedBy = 'max_cost' | 'credits' | 'max_tokens' | 'max_tool_calls'

/** The fields of an answer that say what stopped it; none if it ended by itself. */
export function stopNote(stoppedBy: StoppedBy | undefined): JsonObject {
  return stoppedBy === undefined ? noNote : { metadata: { stopped_by: stoppedBy } }
}

const noNote: JsonObject = {}

/** What the last frames of an answer contain. */
export interface FinalFigures {
  readonly usage: Usage
  readonly bill: Bill
  /** What limited the answer, if it did not end by itself. */
  readonly stoppedBy: StoppedBy | undefined
}

/** The outcome of a call that ends without an answer to its last round, or after that was booked. */
export function unservedOutcome(
  ending: 'client-gone' | 'stopped' | 'provider-cut',
  stoppedBy: StoppedBy | undefined,
  error?: GatewayError,
): Outcome {
  return {
    ending,
    stoppedBy,
    usage: undefined,
    delivered: new Delivered(),
    finishReason: stoppedBy === undefined ? undefined : 'length',
    upstreamId: undefined,
    fault: undefined,
    ...(error === undefined ? {} : { error }),
  }
}

// Copies prompts and answers for the request log, if the operator enabled that (`log.prompts`).

/** How much of a request and of its answer is stored: characters of JSON, bytes of an answer. */
const longestPart = 32_768

/** Copies the beginning of an answer while it goes to whatever else stores it. */
class Transcript implements AnswerKeeper {
  readonly #next: AnswerKeeper | undefined
  readonly #chunks: Uint8Array[] = []
  #size = 0

  constructor(next: AnswerKeeper | undefined) {
    this.#next = next
  }

  begin(headers: Readonly<Record<string, string>>): void {
    this.#next?.begin(headers)
  }

  add(bytes: Uint8Array): void {
    this.#next?.add(bytes)
    if (this.#size < longestPart) this.#chunks.push(bytes.slice(0, longestPart - this.#size))
    this.#size += bytes.length
  }

  keep(): void {
    this.#next?.keep()
  }

  get answer(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}

/** The call with a transcript, if enabled. */
export function transcribe<Call extends { readonly keeper: AnswerKeeper | undefined }>(
  { keepsContents }: { readonly keepsContents: boolean },
  call: Call,
): Call {
  if (!keepsContents) return call
  const transcript = new Transcript(call.keeper)
  return { ...call, keeper: transcript, transcript }
}

/** The stored text of a call as JSON; null if none. */
export function contentsOf(call: {
  readonly transcript?: Transcript
  readonly request: { readonly body: JsonObject }
  readonly changed?: object | undefined
}): string | null {
  const { transcript, request, changed } = call
  if (!transcript) return null
  return JSON.stringify({
    request: JSON.stringify(changed ?? shownBody(request.body)).slice(0, longestPart),
    answer: transcript.answer,
  })
}

/** Stores an answer while it is produced, so that it is on disk no later than the settle that charges it. */
export interface AnswerKeeper {
  begin(headers: Readonly<Record<string, string>>): void
  add(bytes: Uint8Array): void
  /** The answer is complete. Called right before its settle is queued. */
  keep(): void
}
