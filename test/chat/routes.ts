// Routes to the providers there are, and what a client's request looks like when it has been lowered for one.

import { Scheduler } from '../../src/scheduler/scheduler.ts'
import type { Model } from '../../src/catalog/row.ts'
import type { IncomingCall } from '../../src/chat/call.ts'
import { LearnedRefusals, loweredFor, type LoweringParts } from '../../src/chat/upstream/lower.ts'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as gemini, withModel } from '../../src/protocols/gemini/inbound/inbound.ts'
import { inbound as chat } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { inbound as completions } from '../../src/protocols/openai-completions/inbound.ts'
import { responsesCall } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../src/protocols/openai-responses/inbound/read.ts'
import type { Warning } from '../../src/protocols/lowering.ts'
import type { Inbound, InboundRequest, Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import {
  type ConfiguredProvider,
  configureProviders,
  type ProviderOverride,
  withDialect,
} from '../../src/providers/provider.ts'
import { providers } from '../../src/providers/registry.ts'
import { candidateOf, modelOf } from './support.ts'

export interface Route {
  readonly provider: ConfiguredProvider
  readonly upstream: string
  readonly reasoning: boolean
  /** What its model's answers may be made of; text alone where absent. */
  readonly sold?: Model['outputModalities']
  /** The efforts its model takes; unknown where absent. */
  readonly efforts?: Target['efforts']
}

/** A route to a model of a provider, configured with a key and an address where its row has none. */
export function routeTo(
  id: string,
  upstream: string,
  reasoning: boolean,
  more: Partial<ProviderOverride> = {},
): Route {
  const said: ProviderOverride = { api_key: ['key'], headers: {}, quirks: {}, disabled: false, ...more }
  const configured = (override: ProviderOverride) =>
    configureProviders(providers, { [id]: override }, new Set([id])).get(id)
  const provider = configured(said) ?? configured({ ...said, base_url: 'http://127.0.0.1:1/v1' })!
  return { provider: withDialect(provider, upstream), upstream, reasoning }
}

/** Names of models whose providers treat them differently; the others' models are all called `m`. */
const names: Readonly<Record<string, readonly string[]>> = {
  openai: ['gpt-4o', 'gpt-5'],
  azure: ['gpt-4o', 'gpt-5'],
  xai: ['grok-3', 'grok-4'],
  anthropic: ['claude-3-5-haiku-latest', 'claude-sonnet-4-5', 'claude-opus-4-7'],
  gemini: ['gemini-2.0-flash', 'gemini-3-pro-preview'],
  bedrock: ['amazon.nova-pro-v1:0', 'anthropic.claude-sonnet-4-5-20250929-v1:0', 'openai.gpt-oss-120b-1:0'],
  cohere: ['command-r', 'command-a-reasoning-08-2025'],
}

/** Every provider of the registry with its kinds of models, those that reason and those that do not. */
export const everyRoute: readonly Route[] = providers.flatMap(({ id }) =>
  (names[id] ?? ['m']).flatMap((name) => [false, true].map((reasons) => routeTo(id, name, reasons))),
)

/** A provider of the operator's own in each protocol. */
export const customRoutes: readonly Route[] = Object.keys(outbounds).map((protocol) =>
  routeTo('lab', 'm', true, {
    protocol: protocol as ConfiguredProvider['protocol'],
    base_url: 'http://127.0.0.1:1/v1',
  }),
)

/** The least that a client of each protocol says, with more fields. */
export type Client = 'chat' | 'responses' | 'messages' | 'completions' | 'gemini'

interface Asked {
  readonly inbound: Inbound
  readonly request: InboundRequest
}

const hello = [{ role: 'user', content: 'Hello' }]

/** A client's request, checked and read. Throws GatewayError for what its protocol does not take. */
export function asks(client: Client, more: JsonObject): Asked {
  switch (client) {
    case 'chat':
      return { inbound: chat, request: chat.parse({ model: 'a/m', messages: hello, ...more }) }
    case 'responses': {
      const request = checkedRequest({ model: 'a/m', input: 'Hello', ...more })
      const hooks = { now: () => 0, keep: () => true, kept: () => undefined }
      return responsesCall(request, { history: [], items: new Map() }, hooks)
    }
    case 'messages': {
      const body = { model: 'a/m', max_tokens: 64, messages: hello, ...more }
      return { inbound: messages, request: messages.parse(body) }
    }
    case 'completions':
      return { inbound: completions, request: completions.parse({ model: 'a/m', prompt: 'Hello', ...more }) }
    case 'gemini': {
      const body = { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }], ...more }
      return { inbound: gemini, request: gemini.parse(withModel(body, 'a/m', false)) }
    }
  }
}

export interface Sent {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
  /** All that the client is told of. */
  readonly warnings: readonly Warning[]
}

/** What the provider of a route is sent for a client's request. Rejects as `loweredFor` does. */
export async function lowered(
  { inbound, request }: Asked,
  { provider, upstream, reasoning, sold = ['text'], efforts }: Route,
  outputBound?: number,
): Promise<Sent> {
  const outbound = outbounds[provider.protocol]
  const target: Target = {
    model: upstream,
    provider: provider.id,
    quirks: { ...(outbound.defaultQuirks as object), ...provider.quirks },
    maxOutputTokens: 4_096,
    reasoning,
    efforts,
    rememberedSignature: () => undefined,
  }
  const model = modelOf(`${provider.id}/${upstream}`, { reasoning, outputModalities: sold })
  const candidate = { ...candidateOf(provider.id), model, offer: model.offers[0]!, provider }
  const call = { inbound, request, signal: new AbortController().signal } as IncomingCall
  // The gateway only fetches media, and there are none.
  const sent = await loweredFor(
    { scheduler: new Scheduler(), refusals: new LearnedRefusals() } as unknown as LoweringParts,
    call,
    candidate,
    outbound,
    target,
    outputBound,
  )
  return {
    ...sent,
    body: JSON.parse(sent.body) as JsonObject,
    warnings: [...(request.warnings ?? []), ...sent.warnings],
  }
}

/** Every value that stands anywhere in a body under this name. */
export function valuesOf(name: string, body: Json): readonly Json[] {
  if (Array.isArray(body)) return body.flatMap((each) => valuesOf(name, each))
  if (typeof body !== 'object' || body === null) return []
  return Object.entries(body).flatMap(([key, value]) => [
    ...(key === name ? [value] : []),
    ...valuesOf(name, value),
  ])
}
