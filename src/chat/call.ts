// One call as it came in.

import type { Caller } from '../accounts/caller.ts'
import type { ContentEvent } from '../conversation/progress.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import type { EmbeddingRequest } from '../protocols/embeddings/embeddings.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest, Warning } from '../protocols/protocol.ts'
import type { AnswerKeeper } from './answer-keeper.ts'
import type { Candidate } from './routing/candidates.ts'
import type { Transcript } from './transcript.ts'

/** What is known of any call that is paid for, whatever it asks of a model. */
export interface PaidCall {
  readonly caller: Caller
  readonly request: Pick<InboundRequest, 'envelope' | 'body' | 'promptParts' | 'warnings'>
  readonly bodyBytes: number
  /** Also the id of the call in the ledger and of its receipt. */
  readonly requestId: string
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /** Keeps the answer for a client that asks again; undefined where none can. */
  readonly keeper: AnswerKeeper | undefined
  /** Copies the answer for the request log, where the operator wants that. */
  readonly transcript?: Transcript
  /** performance.now() at arrival. */
  readonly arrivedAt: number
}

/** A call for an answer of a chat. */
export interface IncomingCall extends PaidCall {
  readonly inbound: Inbound
  readonly request: InboundRequest
}

/** One question of a call to its candidates: a call has one, or several where the gateway runs tools for the model. */
export interface Round {
  /** The call, with the request of this round. */
  readonly call: IncomingCall
  readonly candidates: readonly Candidate[]
  /** What the client is warned of, whoever serves it. */
  readonly warnings: readonly Warning[]
  /**
   * Takes the events of the answer. Where it is absent, the answer is written for the client, or passes in the client's
   * own protocol; where it is there, whoever takes the events writes the answer.
   */
  readonly emit?: (event: ContentEvent) => void
}

/** A call for vectors. */
export interface EmbeddingCall extends PaidCall {
  readonly embedding: EmbeddingRequest
  /** The client's body, once the charge is known. */
  readonly body: (
    vectors: readonly (readonly number[])[],
    usage: Usage,
    bill: Bill,
    context: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
  ) => JsonObject
}
