// Models, providers and candidates for tests of the chat core, in the shortest words.

import type { Model } from '../../src/catalog/row.ts'
import type { Candidate } from '../../src/chat/routing/candidates.ts'
import { transportFault } from '../../src/chat/routing/fault-error.ts'
import type { Fault, FaultKind } from '../../src/conversation/event.ts'
import { tokenBuckets } from '../../src/conversation/usage.ts'
import type { Price, Rates } from '../../src/credits/price.ts'
import type { Envelope, Routing } from '../../src/protocols/protocol.ts'
import type { ConfiguredProvider } from '../../src/providers/provider.ts'

/** Picodollars per token for every prompt bucket and every completion bucket. */
export function priceOf(input: bigint, output: bigint): Price {
  const rates = Object.fromEntries(
    tokenBuckets.map((bucket) => [bucket, /output|reasoning/i.test(bucket) ? output : input]),
  ) as Rates
  return {
    version: `pv_${input}_${output}`,
    rates,
    tiers: [],
    perCall: {},
    perRequest: 0n,
    perRequestBySearchContext: {},
    serviceTiers: {},
    unstated: [],
  }
}

export const price = priceOf(1_000_000n, 2_000_000n)

export function modelOf(id: string, more: Partial<Model> = {}): Model {
  const [provider, ...name] = id.split('/')
  return {
    id,
    name: id,
    description: '',
    created: 0,
    ownedBy: provider!,
    contextLength: undefined,
    maxOutputTokens: 4_096,
    inputModalities: ['text'],
    outputModalities: ['text'],
    supportedParameters: [],
    reasoning: false,
    premium: false,
    flashClass: false,
    deprecation: undefined,
    priceSource: 'test',
    priceDate: '2026-11-21',
    offers: [{ provider: provider!, upstream: name.join('/'), price }],
    ...more,
  }
}

export function providerOf(id: string, more: Partial<ConfiguredProvider> = {}): ConfiguredProvider {
  return {
    id,
    name: id,
    protocol: 'openai-chat',
    baseUrl: 'http://127.0.0.1:1/v1',
    auth: { kind: 'bearer', env: [] },
    quirks: {},
    onDisconnect: 'cancel',
    costFrom: 'rates',
    clientBody: 'translated',
    transport: 'http',
    local: false,
    headers: {},
    keys: ['key'],
    custom: true,
    timeouts: {},
    marksCache: false,
    ...more,
  }
}

export function candidateOf(provider: string, more: Partial<ConfiguredProvider> = {}): Candidate {
  const model = modelOf(`${provider}/m`)
  const configured = providerOf(provider, more)
  return { model, offer: model.offers[0]!, provider: configured, key: configured.keys[0] }
}

export function faultOf(kind: FaultKind, more: Partial<Fault> = {}): Fault {
  return { ...transportFault('cut', 'as told'), kind, ...more }
}

export const anyRoute: Routing = {
  order: [],
  only: [],
  ignore: [],
  allowFallbacks: true,
  maxPrice: { input: undefined, output: undefined, request: undefined },
  dataPolicy: undefined,
  sort: undefined,
  afterFilter: 'end',
  continues: false,
}

export const envelope: Envelope = {
  model: 'a/m',
  fallbacks: [],
  stream: false,
  includeUsage: false,
  maxOutputTokens: undefined,
  n: 1,
  routing: anyRoute,
  maxCost: undefined,
  sessionId: undefined,
  strict: false,
  onDisconnect: undefined,
}

/** A clock that stands still until it is moved. */
export function stillClock(now = 1_000_000) {
  const clock = () => now
  return Object.assign(clock, { pass: (ms: number) => (now += ms) })
}
