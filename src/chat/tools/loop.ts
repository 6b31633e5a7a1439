// The tool loop: asks the model, runs the gateway's tools it calls and asks again, until the answer is complete or the
// client's own functions are called. One hold and one settle for all rounds.

import type { ChatEvent } from '../../conversation/event.ts'
import {
  type ApprovedCall,
  type DeclaredTools,
  type GatewayCall,
  type Source,
  type ToolImage,
  type ToolOrigin,
  type ToolResult,
  webTools,
} from '../../conversation/gateway-tools.ts'
import type { ContentEvent } from '../../conversation/delivered.ts'
import type { ContentPart, JsonObject, ToolMessage } from '../../conversation/request.ts'
import { completionTokens } from '../../conversation/usage.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Pico } from '../../credits/money.ts'
import type { Warning } from '../../protocols/lowering.ts'
import { type CallTools, failedResult, type OfferedTool, runTool } from '../../tools/tool.ts'
import { citationsIn } from '../../tools/search/search-tool.ts'
import type { Hold } from '../billing/hold.ts'
import type { IncomingCall, Outcome, StoppedBy } from '../call.ts'
import { guardedRun, guardedTurn } from '../guarding.ts'
import { type ChatParts, playRound } from '../paid-call.ts'
import type { Candidate } from '../routing/candidates.ts'
import type { Dispatched } from '../routing/dispatch.ts'
import type { OpenedStream, WholeAnswer } from '../upstream/fetch.ts'
import { type AnswerSoFar, type CalledTool, RoundEvents, type ToolConversation } from './conversation.ts'

/** What happens after a round. */
type Next =
  | { readonly kind: 'again' }
  /** The answer is complete, or calls the client's own functions. */
  | { readonly kind: 'final' }
  | { readonly kind: 'stopped'; readonly by: StoppedBy }

export interface LoopParts {
  readonly parts: ChatParts
  /** The call as the client sent it. */
  readonly call: IncomingCall
  readonly hold: Hold
  readonly tools: CallTools
  readonly conversation: ToolConversation
  readonly candidates: readonly Candidate[]
  readonly warnings: readonly Warning[]
  /** The limit of gateway tool calls. */
  readonly maxCalls: number
  /** Receives the events of the answer, of all rounds. */
  readonly emit: (event: ContentEvent) => void
  /** Aborts when the call is over. */
  readonly signal: AbortSignal
}

export class ToolLoop {
  readonly #loop: LoopParts
  readonly #answer: AnswerSoFar = { text: 0, reasoning: 0, calls: 0, runs: 0 }
  readonly #sources: Source[] = []
  #events: RoundEvents
  #call: IncomingCall
  #candidates: readonly Candidate[]
  #round = 0
  #toolCalls = 0
  /** Output tokens of the completed rounds. */
  #spentTokens = 0
  #wasLimited = false
  /** How often the provider has paused. */
  #pauses = 0
  /** The provider's own searches in the completed rounds. */
  #searches = 0

  /** `first`: the call with the request of the first round, for which the hold was opened. */
  constructor(loop: LoopParts, first: IncomingCall) {
    this.#loop = loop
    this.#candidates = loop.candidates
    this.#call = { ...first, signal: loop.signal }
    this.#events = this.#newRound()
  }

  /** Plays the current round. Rejects with DispatchFailed. */
  async play(): Promise<Dispatched<OpenedStream | WholeAnswer>> {
    const { parts, hold, warnings } = this.#loop
    const events = (this.#events = this.#newRound())
    this.#round += 1
    const played = await playRound(parts, hold, {
      call: this.#call,
      candidates: this.#candidates,
      warnings,
      emit: (event) => events.take(event),
    })
    const { candidate } = played
    // The model's reasoning so far is only useful to the same candidate.
    this.#candidates = [candidate, ...this.#candidates.filter((other) => other !== candidate)]
    return played
  }

  /** Takes the events of a round that arrived whole. */
  take(events: readonly ChatEvent[]): void {
    for (const event of events) if ('choice' in event) this.#events.take(event)
  }

  /** A round has been read: its sources are cited, and if another follows it is booked with `outcome`. */
  async endRound(outcome: () => Outcome): Promise<'final' | 'calls-last' | 'calls'> {
    const { hold, call } = this.#loop
    this.#cite()
    const { gatewayCalls: calls, reason, callsClient, paused } = this.#events
    const wasCalled = calls.length > 0 && (reason === 'tool_calls' || reason === 'stop')
    if (!wasCalled && !(paused && this.#mayGoOn(outcome()))) {
      this.#finish()
      return 'final'
    }
    // The client has to act before the model can go on.
    if (callsClient || calls.some(needsApproval)) {
      await hold.endLastRound(outcome())
      return 'calls-last'
    }
    const ended = outcome()
    this.#searches += searchesOf(ended)
    this.#spentTokens += completionTokens(await hold.endRound(ended))
    pass('round-ended', call.requestId)
    return 'calls'
  }

  /** Runs the calls of the round and prepares the next. Rejects when the signal aborts. */
  async follow(calls: 'calls-last' | 'calls'): Promise<Next> {
    const { conversation, signal } = this.#loop
    const isLast = calls === 'calls-last'
    if (this.#events.paused) {
      this.#pauses += 1
      conversation.add(this.#events.message(), [])
      return this.#begin()
    }
    const results = await this.#run(this.#events.gatewayCalls, isLast)
    if (isLast) {
      this.#finish()
      return { kind: 'final' }
    }
    if (results.every(({ result }) => result.failure?.code === limitReached)) {
      // The model was told that there are no more calls, and calls again: stop.
      if (this.#wasLimited) return { kind: 'stopped', by: 'max_tool_calls' }
      this.#wasLimited = true
      if (!conversation.hasFunctions) conversation.freedom = 'none'
    } else conversation.freedom = 'free'
    conversation.add(
      await guardedTurn(this.#loop.call.guard, this.#events.message()),
      results.map(({ call, result }) => toolMessage(call.id, result, this.#sees)),
    )
    signal.throwIfAborted()
    return this.#begin()
  }

  /**
   * Runs the calls of an earlier answer that the caller has approved, before the model is asked: they are in the
   * messages without results. Returns why the first round cannot follow, or undefined.
   */
  async runApproved(approved: readonly ApprovedCall[]): Promise<StoppedBy | undefined> {
    if (approved.length === 0) return undefined
    const ran = await Promise.all(approved.map((approval) => this.#runApproval(approval)))
    this.#loop.signal.throwIfAborted()
    this.#loop.conversation.addResults(ran)
    const next = await this.#begin()
    return next.kind === 'stopped' ? next.by : undefined
  }

  async #runApproval(approval: ApprovedCall): Promise<ToolMessage> {
    const { tools, emit } = this.#loop
    const { requestId, serverLabel, tool, arguments: json } = approval
    const origin = { kind: 'mcp', serverLabel, tool } as const
    const offered = tools.ofOrigin(origin)
    const name = offered?.name ?? tool
    const call = { id: this.#nextId(), origin, name, arguments: json, approvalRequestId: requestId }
    emit({ kind: 'gateway-call', choice: 0, call })
    const refusal = await this.#refusalOf(offered, approval)
    const called = { id: requestId, name, arguments: json, thoughtSignature: undefined }
    const result = refusal ?? (await this.#runOne({ ...called, offered: offered! }))
    this.#ran(call, result, false)
    return toolMessage(requestId, result, this.#sees)
  }

  async #refusalOf(
    offered: OfferedTool | undefined,
    approval: ApprovedCall,
  ): Promise<ToolResult | undefined> {
    if (offered === undefined)
      return failedResult('tool_not_found', 'the server offers no such tool any more.')
    if (offered.tool.needsApproval?.(approval.arguments, approval) === true) {
      const item = approvalRequest({ offered, arguments: approval.arguments })
      this.#loop.emit({ kind: 'gateway-item', choice: 0, item })
      const message =
        'the tool has changed since the user allowed the call, who is asked again. Go on without it for now.'
      return failedResult('approval_outdated', message)
    }
    return this.#refusal(offered.tool.mostCost)
  }

  /** What of a result every candidate can be sent: any of them may have to go on. */
  get #sees(): 'images' | 'text' {
    const { candidates, parts } = this.#loop
    const seeing = candidates.every(
      ({ model, provider }) =>
        model.inputModalities.includes('image') && parts.outbounds[provider.protocol].textResults !== true,
    )
    return seeing ? 'images' : 'text'
  }

  /** Ends the answer the way its last round ended. */
  #finish(): void {
    const { reason, native, stopSequence, blockedPrompt, callsClient } = this.#events
    if (reason === undefined) return
    const said = reason === 'tool_calls' && !callsClient ? 'stop' : reason
    const stopped = stopSequence === undefined ? {} : { stopSequence }
    const blocked = blockedPrompt === undefined ? {} : { blockedPrompt }
    this.#loop.emit({ kind: 'choice-finish', choice: 0, reason: said, native, ...stopped, ...blocked })
  }

  /** The provider's own searches that the request still allows after `used`; undefined without a limit. */
  #searchesLeft(used: number): number | undefined {
    const { searches } = this.#loop.call.request.envelope
    return searches === undefined ? undefined : Math.max(0, searches - used)
  }

  /** Whether a paused provider is asked to continue. */
  #mayGoOn(round: Outcome): boolean {
    const left = this.#searchesLeft(this.#searches + searchesOf(round))
    return this.#pauses < this.#loop.maxCalls && left !== 0
  }

  /** Prepares the next round: its credit is held before anything is sent. */
  async #begin(): Promise<Next> {
    const { hold, call, conversation, signal } = this.#loop
    const { maxOutputTokens: asked } = call.request.envelope
    const left = asked === undefined ? undefined : asked - this.#spentTokens
    if (left !== undefined && left < 1) return { kind: 'stopped', by: 'max_tokens' }
    this.#call = {
      ...conversation.round(call, left, this.#searchesLeft(this.#searches)),
      signal,
    }
    const by = await hold.beginRound(this.#call, this.#candidates)
    if (by !== undefined) return { kind: 'stopped', by }
    pass('round-begun', call.requestId)
    return { kind: 'again' }
  }

  async #run(
    calls: readonly CalledTool[],
    isLast: boolean,
  ): Promise<{ readonly call: CalledTool; readonly result: ToolResult }[]> {
    const planned: { readonly call: CalledTool; readonly refusal: ToolResult | undefined }[] = []
    let reserved = 0n
    for (const call of calls) {
      if (needsApproval(call))
        this.#loop.emit({ kind: 'gateway-item', choice: 0, item: approvalRequest(call) })
      else
        planned.push({ call, refusal: await this.#refusalOfCall((reserved += call.offered.tool.mostCost)) })
    }
    const running = planned.map(async ({ call, refusal }) => {
      const named = this.#gatewayCallOf(call)
      this.#loop.emit({ kind: 'gateway-call', choice: 0, call: named })
      const result = refusal ?? (await this.#runOne(call))
      this.#ran(named, result, isLast)
      return { call, result }
    })
    // Wait for all of them: their costs are known only then.
    const ended = await Promise.allSettled(running)
    this.#loop.signal.throwIfAborted()
    return ended.map((each) => {
      if (each.status === 'rejected') throw each.reason
      return each.value
    })
  }

  /** The same of a call of this answer, which the client may have forbidden. */
  #refusalOfCall(mostCost: Pico): Promise<ToolResult | undefined> | ToolResult {
    if (this.#loop.conversation.allowsCalls) return this.#refusal(mostCost)
    return failedResult(limitReached, `${noCalls}. Answer with what you have.`)
  }

  /** Why a call is not run, or undefined. `mostCost`: including the calls that run beside it, picodollars. */
  async #refusal(mostCost: Pico): Promise<ToolResult | undefined> {
    const { maxCalls, hold } = this.#loop
    if (this.#toolCalls >= maxCalls) {
      const used = maxCalls === 0 ? noCalls : `all ${maxCalls} tool calls of this request are used up`
      return failedResult(limitReached, `${used}. Answer with what you have.`)
    }
    this.#toolCalls += 1
    if (mostCost === 0n) return undefined
    const obstacle = await hold.coverTool(mostCost)
    if (obstacle === undefined) return undefined
    const what = obstacle === 'max_cost' ? 'the max_cost of this request' : 'the credit of this account'
    return failedResult('no_budget', `it would cost more than ${what} leaves. Answer with what you have.`)
  }

  /** Never rejects: a tool that runs when the call ends has a result as well. */
  #runOne({ id, offered, arguments: json }: CalledTool): Promise<ToolResult> {
    const { parts, call, signal } = this.#loop
    const { toolMs, totalMs } = parts.limits
    const timeoutMs = Math.max(1, Math.min(toolMs, call.arrivedAt + totalMs - performance.now()))
    pass('tool-called', call.requestId)
    const span = parts.traces?.spanOf(call.requestId, 'tool', offered.name, {
      'gen_ai.tool.name': offered.name,
      'gen_ai.tool.call.id': id,
      'gen_ai.tool.type': 'extension',
    })
    const run = (passed: string) =>
      runTool(offered.tool, passed, { signal, timeoutMs }, (error) =>
        parts.log.error('a tool of the gateway failed', {
          request_id: call.requestId,
          tool: offered.name,
          error,
        }),
      )
    const { guard } = call
    const running = guard?.has('request') ? guardedRun(guard, offered.name, json, run) : run(json)
    return running
      .catch(() => interrupted)
      .then((result) => {
        span?.end(result.failure?.code)
        return result
      })
  }

  #ran(call: GatewayCall, result: ToolResult, isLast: boolean): void {
    const {
      hold,
      emit,
      call: { requestId },
    } = this.#loop
    if (result.failure === undefined) {
      const fee = { name: feeName(call.origin), cost: result.cost, searches: result.searches }
      hold.ranTool(fee, Math.max(1, this.#round), isLast ? 'charged-later' : 'durable')
    }
    this.#sources.push(...(result.sources ?? []))
    const after = { text: this.#answer.text, reasoning: this.#answer.reasoning }
    emit({ kind: 'gateway-run', choice: 0, run: { call, result, after, round: this.#round } })
    pass('tool-ran', requestId)
  }

  /** Annotates the round's text with the sources whose address it contains. */
  #cite(): void {
    const { text, textBefore } = this.#events
    if (text === '' || this.#sources.length === 0) return
    for (const { kind, url, title, start, end } of citationsIn(text, this.#sources)) {
      const annotation = { kind, url, title, start: start + textBefore, end: end + textBefore }
      this.#loop.emit({ kind: 'annotation', choice: 0, annotation })
    }
  }

  /** Gives the call an id that is unique in the conversation: providers may reuse theirs. */
  #gatewayCallOf({ offered, arguments: json }: CalledTool): GatewayCall {
    return { id: this.#nextId(), origin: offered.tool.origin, name: offered.name, arguments: json }
  }

  #nextId(): string {
    return `${this.#loop.call.requestId.replace(/^req_/, '')}_${this.#answer.runs++}`
  }

  #newRound(): RoundEvents {
    return new RoundEvents(this.#loop.tools, this.#answer, this.#loop.emit)
  }
}

/** The failure of a call beyond the request's limit. */
const limitReached = 'max_tool_calls'
const noCalls = 'this request allows no tool calls'

/** Of a tool that ran when the call ended: whoever goes on with a stored answer has to know of it. */
const interrupted = failedResult(
  'interrupted',
  'the call was over before the tool had answered: what it was to do may have been done.',
)

/** Searches that the provider ran itself in a round. */
function searchesOf({ usage }: Outcome): number {
  return usage?.toolCalls['web_search'] ?? 0
}

// How often gateway tools may be called per request.

/** The highest limit of gateway tool calls that a request may set. */
const mostCalls = 30

/** The limit of calls of a request, and what its client is told about it; `usual` if it sets none. */
export function mostCallsOf(
  { maxCalls }: Pick<DeclaredTools, 'maxCalls'>,
  usual: number,
): { readonly maxCalls: number; readonly note: readonly Warning[] } {
  if (maxCalls === undefined) return { maxCalls: usual, note: [] }
  if (maxCalls <= mostCalls) return { maxCalls, note: [] }
  const message = `At most ${mostCalls} calls of tools are run for one request.`
  return { maxCalls: mostCalls, note: [{ param: 'max_tool_calls', message }] }
}

// Calls of gateway tools, as items, messages and lines of a receipt.

function needsApproval({ offered, arguments: json }: CalledTool): boolean {
  return offered.tool.needsApproval?.(json) === true
}

function approvalRequest({
  offered,
  arguments: json,
}: Pick<CalledTool, 'offered' | 'arguments'>): JsonObject {
  const { origin } = offered.tool
  const id = offered.tool.approvalId?.(json)
  const label: Record<string, string> = origin.kind === 'mcp' ? { server_label: origin.serverLabel } : {}
  const name = origin.kind === 'mcp' ? origin.tool : offered.name
  return {
    type: 'mcp_approval_request',
    ...(id === undefined ? {} : { id }),
    ...label,
    name,
    arguments: json,
  }
}

/** The result of a call, for the model: its images as well where `sees` says that it takes them. */
function toolMessage(
  toolCallId: string,
  { text, images = [], failure }: ToolResult,
  sees: 'images' | 'text',
): ToolMessage {
  const shown = sees === 'images' ? images.map(imagePart) : []
  const unseen = images.length - shown.length
  const note = `\n[${unseen === 1 ? 'An image' : `${unseen} images`} of the result cannot be shown to this model.]`
  const words: ContentPart = { kind: 'text', text: unseen === 0 ? text : text + note, cache: undefined }
  return { role: 'tool', toolCallId, content: [words, ...shown], isError: failure !== undefined }
}

function imagePart({ mediaType, data }: ToolImage): ContentPart {
  return { kind: 'image', source: { kind: 'base64', mediaType, data }, detail: undefined, cache: undefined }
}

function feeName(origin: ToolOrigin): string {
  return origin.kind === 'mcp' ? `mcp:${origin.serverLabel}.${origin.tool}` : webTools[origin.kind].name
}
