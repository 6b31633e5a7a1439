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

/** What every paid call has, whatever it asks of a model. */
export interface PaidCall {
  readonly caller: Caller
  readonly request: Pick<InboundRequest, 'envelope' | 'body' | 'promptParts' | 'warnings'>
  readonly bodyBytes: number
  /** Also the id of the call in the ledger and on its receipt. */
  readonly requestId: string
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /** Keeps the answer in case the client asks again; undefined if it cannot. */
  readonly keeper: AnswerKeeper | undefined
  /** Copies the answer for the request log, if the operator enabled that. */
  readonly transcript?: Transcript
  /** performance.now() on arrival. */
  readonly arrivedAt: number
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
