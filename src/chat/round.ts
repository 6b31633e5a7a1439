// One round of a chat: its request goes to the candidates, and one answers. A call has several rounds within one hold
// if the gateway runs the model's tool calls.

import type { Hold } from './billing/hold.ts'
import type { Round } from './call.ts'
import { answerPaid } from './paid-call.ts'
import type { ChatParts } from './parts.ts'
import type { Dispatched } from './routing/dispatch.ts'
import { fetchWhole, type WholeAnswer } from './upstream/fetch-whole.ts'
import { type OpenedStream, openStream } from './upstream/open-stream.ts'

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
  return answerPaid<OpenedStream | WholeAnswer>(parts, call, hold, candidates, (candidate) =>
    ask(parts, hold, candidate, round),
  )
}
