// A whole answer of one candidate.

import { Delivered } from '../../conversation/delivered.ts'
import { type ChatEvent, type ChatResult, collect } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Warning } from '../../protocols/protocol.ts'
import type { Hold } from '../billing/hold.ts'
import type { IncomingCall, Round } from '../call.ts'
import { type FinalFigures, outcomeOf, type Outcome, stopNote } from '../outcome.ts'
import type { Candidate } from '../routing/candidates.ts'
import { AttemptFailed } from '../routing/fault-error.ts'
import { disconnectPolicy } from '../streaming/disconnect.ts'
import { inStep, littleCharacters } from '../streaming/turns.ts'
import { boundedText, parsedAnswer, readWhole } from './answer-body.ts'
import { deadlinesOf } from './deadlines.ts'
import { contextOf, type Prepared, prepare, type UpstreamParts } from './prepare.ts'
import { remembering } from './signatures.ts'
import { refuseFailure, UpstreamRequest } from './upstream-request.ts'
import { losesThoughts, ownerOf } from './thoughts.ts'

export interface WholeAnswer {
  readonly kind: 'whole'
  readonly warnings: readonly Warning[]
  /** What the provider answered. */
  readonly result: ChatResult
  readonly outcome: Outcome
  /** Builds the client's body once the charge is known. */
  readonly body: (figures: FinalFigures) => JsonObject
}

/** Requests a whole answer and reads it. Rejects like `openStream`. */
export async function fetchWhole(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  candidate: Candidate,
  round: Round,
): Promise<WholeAnswer> {
  const { call } = round
  const made = prepare(parts, hold, candidate, round)
  const prepared = made instanceof Promise ? await made : made
  const limits = deadlinesOf(parts.limits, candidate.provider)
  // A whole answer's first byte arrives after its last token, so it gets the deadline of a reasoning model.
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const patience = { firstMs: limits.firstByteReasoningMs, totalMs: limits.totalMs }
  const request = new UpstreamRequest(parts, call, candidate, patience, policy)
  try {
    await inStep
    const response = await request.send(candidate, prepared.lowered, limits.connectMs)
    request.onResponse(response)
    if (!response.ok) await refuseFailure(response, prepared, request)
    const { turns } = parts
    const text = await boundedText(response, limits.answerBytes, request, limits.gapMs, turns)
    await request.withOthers()
    request.read()
    pass('answer-read', call.requestId)
    const parsing = parsedAnswer(response, text, turns)
    const parsed = parsing instanceof Promise ? await parsing : parsing
    const read = () => wholeAnswer(parts, call, candidate, prepared, parsed)
    return text.length <= littleCharacters ? read() : await turns.run(read)
  } catch (error) {
    throw request.verdict(error)
  } finally {
    request.end()
  }
}

function inOrder(events: readonly ChatEvent[]): ChatResult {
  return { ...collect(events), events }
}

function wholeAnswer(
  parts: UpstreamParts,
  call: IncomingCall,
  candidate: Candidate,
  { outbound, target, lowered, warnings }: Prepared,
  parsed: unknown,
): WholeAnswer {
  const result = readWhole(
    () => outbound.plainWhole?.(parsed, target) ?? inOrder(outbound.whole(parsed, target)),
  )
  if (result.fault) throw new AttemptFailed(result.fault)
  const delivered = new Delivered()
  const owner = ownerOf(call, candidate)
  for (const choice of result.choices) {
    delivered.addChoice(choice)
    for (const made of choice.toolCalls)
      if (made.thoughtSignature !== undefined)
        remembering(parts.signatures, owner)(made, made.thoughtSignature)
    const [first] = choice.toolCalls
    if (first && choice.reasoning.length > 0 && losesThoughts(call))
      parts.thoughts.keep(owner, first, choice.reasoning)
  }
  const context = contextOf(parts, call, candidate, warnings)
  return {
    kind: 'whole',
    warnings,
    result,
    outcome: outcomeOf({
      usage: result.usage,
      delivered,
      finishReason: result.choices[0]?.finish,
      upstreamId: result.id,
    }),
    body: ({ usage, bill, stoppedBy }) => {
      Object.assign(context.extra, stopNote(stoppedBy))
      return lowered.passthrough && outbound.passthrough
        ? outbound.passthrough.whole(parsed as JsonObject, usage, bill, context, target)
        : call.inbound.whole(result, usage, bill, context)
    },
  }
}
