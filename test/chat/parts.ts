// The parts of a chat with a real store and real rooms, for tests that serve calls without a server of ours.

import { type ChatLimits, type IncomingCall, InFlight } from '../../src/chat/call.ts'
import type { ChatParts } from '../../src/chat/paid-call.ts'
import { DeploymentUse, Health } from '../../src/chat/routing/health.ts'
import { RetryBudget } from '../../src/chat/routing/dispatch.ts'
import { Buffered, Watchdog } from '../../src/chat/streaming/relay.ts'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { TokenCounter } from '../../src/chat/counting/token-counter.ts'
import { Upstream } from '../../src/providers/upstream.ts'
import { Arrivals } from '../../src/chat/upstream/arrivals.ts'
import { Thoughts } from '../../src/chat/upstream/thoughts.ts'
import { ConnectionLimit } from '../../src/chat/upstream/upstream-request.ts'
import { LearnedRefusals, media } from '../../src/chat/upstream/lower.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { Memory } from '../../src/observe/memory.ts'
import type { EndedCall } from '../../src/observe/call-log.ts'
import { inbound } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import type { ConfiguredProvider } from '../../src/providers/provider.ts'
import type { Store } from '../../src/store/store.ts'
import { LargeBodies } from '../../src/http/intake/read-body.ts'
import { AnswerCache } from '../../src/chat/upstream/answer-cache.ts'
import { modelOf } from './support.ts'

const limits: ChatLimits = {
  connectMs: 1_000,
  firstByteMs: 2_000,
  firstByteReasoningMs: 2_000,
  firstTokenMs: 2_000,
  gapMs: 2_000,
  gapReasoningMs: 2_000,
  totalMs: 10_000,
  clientStallMs: 2_000,
  drainMs: 1_000,
  keepaliveMs: 10_000,
  bufferBytes: 1_000_000,
  checkpointMs: 1_000_000,
  checkpointTokens: 1_000_000,
  holdOutputTokens: 100,
  leaseMs: 60_000,
  answerBytes: 1_000_000,
  streamBytes: 100_000_000,
  eventBytes: 1_000_000,
  attempts: 3,
  toolMs: 1_000,
  toolCalls: 10,
}

const noTools = () => {
  throw new Error('no tools here')
}

/** One for all tests of a file: its vocabulary takes a while to load. */
export const counter = new TokenCounter()

/** Parts over these providers, each of which serves `<its id>/m`; `ended` collects the calls that have ended. */
export function partsOf(
  store: Pick<Store, 'ledger' | 'signatures'>,
  providers: readonly ConfiguredProvider[],
  more: Partial<ChatLimits> = {},
): ChatParts & { readonly ended: EndedCall[] } {
  const ended: EndedCall[] = []
  const quiet = () => undefined
  return {
    ended,
    catalog: { resolve: (id) => modelOf(id), member: (id) => modelOf(id) },
    openedByPlans: async () => ({ models: [], lots: new Set() }),
    providers: new Map(providers.map((provider) => [provider.id, provider])),
    keepsContents: false,
    guards: undefined,
    outbounds,
    ledger: store.ledger,
    signatures: store.signatures,
    thoughts: new Thoughts(),
    onCallEnded: (call) => void ended.push(call),
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    watchdog: new Watchdog(),
    scheduler: new Scheduler(),
    largeBodies: new LargeBodies(),
    refusals: new LearnedRefusals(),
    answerCache: new AnswerCache(1_000_000, Date.now),
    memory: new Memory(),
    counter,
    buffered: new Buffered(1e9),
    limits: { ...limits, ...more },
    toolSources: { 'web-search': noTools, mcp: noTools },
    owner: 'me',
    now: Date.now,
    media: media({ allowHosts: [], limits: { fileBytes: 1, requestBytes: 1, timeoutMs: 1 } }),
    redact: (text) => text,
    inFlight: new InFlight(),
    health: new Health(Date.now),
    routeSessions: new Map<string, string>(),
    retryBudget: new RetryBudget(Date.now),
    arrivals: new Arrivals(1e9),
    connections: new ConnectionLimit(100),
    deployments: new DeploymentUse(() => performance.now()),
    upstream: new Upstream(),
    traces: undefined,
    publicUrl: () => '',
  }
}

/** A call of anna's app for a chat completion, whose client may disconnect by `signal`. */
export function callOf(body: JsonObject, signal = new AbortController().signal): IncomingCall {
  const request = inbound.parse({ messages: [{ role: 'user', content: 'Hello' }], ...body })
  return {
    inbound,
    request,
    bodyBytes: JSON.stringify(request.body).length,
    caller: {
      account: { id: 'anna', email: 'anna@example.com', createdAt: 0, suspended: false },
      key: null,
      standing: null,
      channel: 'app',
      mode: 'live',
    } as unknown as IncomingCall['caller'],
    requestId: 'call_1',
    signal,
    stopping: new AbortController().signal,
    keeper: undefined,
    arrivedAt: performance.now(),
  }
}
