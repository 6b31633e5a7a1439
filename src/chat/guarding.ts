// The guards of a call: set up where the operator has any, and asked for its request before anything is held or sent.

import type { ToolResult } from '../conversation/gateway-tools.ts'
import type { AssistantMessage, ChatRequest } from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'
import { CallGuard, type GuardRim, type GuardSet } from '../guards/guards.ts'
import type { Log } from '../observe/log.ts'
import type { Traces } from '../observe/traces.ts'
import { noWarnings, type Warning } from '../protocols/lowering.ts'
import { errorFor } from '../protocols/request/fields.ts'
import { replacedPrompt } from '../protocols/request/prompt-parts.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import { failedResult } from '../tools/tool.ts'
import type { DecisionCall, EmbeddingCall, IncomingCall, PaidCall } from './call.ts'

interface GuardParts {
  /** Undefined where the operator has set up none. */
  readonly guards: GuardSet | undefined
  readonly traces: Traces | undefined
  readonly scheduler: Pick<Scheduler, 'runDivisible'>
  readonly log: Log
}

/** The call with its guards, and its request as they leave it. Rejects with `guardrail_denied` and `guardrail_failed`. */
export async function guardedCall(parts: GuardParts, call: IncomingCall): Promise<IncomingCall> {
  if (parts.guards === undefined) return call
  const guard = guardOf(parts, parts.guards, call)
  const asked = chatRequestOf(call)
  const { value, replaced } = await guard.check('request', asked)
  if (value === asked) return { ...call, guard }
  const sized = withReplaced(call, replaced)
  return {
    ...sized,
    guard,
    changed: value,
    request: { ...sized.request, translated: true, toChatRequest: () => value },
  }
}

/** The request in the words that all protocols share. Throws what is wrong with it in those of its client. */
function chatRequestOf({ request }: IncomingCall): ChatRequest {
  try {
    return request.toChatRequest()
  } catch (error) {
    throw request.fields === undefined ? error : errorFor(error, request.fields)
  }
}

/** What of a request the guards leave no answer to. Throws `unsupported_parameter` where nothing may be dropped. */
export function guardWarnings({ guard, request }: IncomingCall): readonly Warning[] {
  const isAsked = guard?.has('response') === true && request.toChatRequest().sampling.logprobs === true
  if (isAsked && request.envelope.strict) throw new GatewayError('unsupported_parameter', noLogprobs)
  return isAsked ? [noLogprobs] : noWarnings
}

/** The same of a request for vectors. */
export async function guardedEmbedding(parts: GuardParts, call: EmbeddingCall): Promise<EmbeddingCall> {
  if (parts.guards === undefined) return call
  const guard = guardOf(parts, parts.guards, call)
  const { value: embedding, replaced } = await guard.check('request', call.embedding)
  if (embedding === call.embedding) return { ...call, guard }
  return { ...withReplaced(call, replaced), guard, embedding, changed: embedding }
}

/** The same of a request for decisions. */
export async function guardedDecision(parts: GuardParts, call: DecisionCall): Promise<DecisionCall> {
  if (parts.guards === undefined) return call
  const guard = guardOf(parts, parts.guards, call)
  const { value: decision, replaced } = await guard.check('request', call.decision)
  if (decision === call.decision) return { ...call, guard }
  return { ...withReplaced(call, replaced), guard, decision, changed: decision }
}

const noLogprobs: Warning = {
  param: 'logprobs',
  message: 'Guardrails look at the answer, and log probabilities say every token of it; dropped.',
}

function guardOf(parts: GuardParts, set: GuardSet, { requestId, caller, request }: PaidCall): CallGuard {
  const call = {
    requestId,
    account: caller.account.id,
    key: caller.key?.id ?? null,
    model: request.envelope.model,
  }
  return new CallGuard(set, call, rimOf(parts))
}

function rimOf({ traces, scheduler, log }: GuardParts): GuardRim {
  return {
    run: (steps) => scheduler.runDivisible(() => steps),
    asks: ({ requestId }, hook, on) => {
      const span = traces?.spanOf(requestId, 'guardrail', hook, { 'weir.guardrail.on': on })
      return (decision) => {
        span?.note({ 'weir.guardrail.decision': decision })
        span?.end(decision === 'failed' ? decision : undefined)
        const about = { request_id: requestId, guardrail: hook, on, decision }
        if (decision === 'failed') log.warn('a guardrail did not answer as it should', about)
        else log.debug('a guardrail has decided', about)
      }
    },
  }
}

/** The call with the size of what is sent instead of it. */
function withReplaced<Call extends PaidCall>(call: Call, replaced: ReadonlyMap<string, string>): Call {
  if (replaced.size === 0) return call
  let grown = 0
  for (const [before, now] of replaced)
    grown += Math.max(0, Buffer.byteLength(now) - Buffer.byteLength(before))
  const promptParts = replacedPrompt(call.request.promptParts, replaced)
  return { ...call, bodyBytes: call.bodyBytes + grown, request: { ...call.request, promptParts } }
}

// Tools that the gateway runs: what they are sent and what they bring back leaves the house as well.

/** Runs a tool with arguments that the guards let through, and gives its result as they leave it. */
export async function guardedRun(
  guard: CallGuard,
  name: string,
  json: string,
  run: (json: string) => Promise<ToolResult>,
): Promise<ToolResult> {
  let passed = json
  try {
    const part = {
      id: 'arguments',
      role: 'assistant',
      kind: 'arguments',
      signed: false,
      name,
      text: json,
    } as const
    const [made] = await guard.texts('request', [part])
    passed = made!
  } catch (error) {
    const { code, message } = refusalIn(error)
    return failedResult(code, message)
  }
  const result = await run(passed)
  const { text, output, structured, sources, action, failure } = result
  const shown = { role: 'tool', text, output, structured, sources, action, failure }
  try {
    const { value } = await guard.check('request', shown)
    return value === shown ? result : { ...result, ...present(value) }
  } catch (error) {
    // It has run: what it costs is owed.
    const { message } = refusalIn(error)
    const { cost, searches } = result
    return { text: `The result is withheld: ${message}`, cost, searches, ...(failure && { failure }) }
  }
}

function present({
  role: _,
  ...shown
}: Partial<ToolResult> & { readonly role: string }): Partial<ToolResult> {
  return Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined))
}

function refusalIn(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  throw error
}

/** What a model has said and called, as the next round may send it on. Thoughts stay as they are. */
export async function guardedTurn(
  guard: CallGuard | undefined,
  turn: AssistantMessage,
): Promise<AssistantMessage> {
  if (guard === undefined) return turn
  const { content, toolCalls } = turn
  return { ...turn, ...(await guard.mask('request', { content, toolCalls })) }
}
