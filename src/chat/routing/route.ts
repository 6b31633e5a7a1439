// Virtual models: which member of a route serves a call, why, and what the route adds to the request.

import type { Model, VirtualModel } from '../../catalog/row.ts'
import type { ModelRoute, RouteDefaults } from '../../catalog/route.ts'
import type { ChatRequest, Message } from '../../conversation/request.ts'
import type { Price } from '../../credits/price.ts'
import type { Attempt, RouteNote } from '../../credits/ledger/ledger.ts'
import type { ClientFields } from '../../protocols/request/fields.ts'
import { joinedPrompt, promptParts } from '../../protocols/request/prompt-parts.ts'
import type { InboundRequest } from '../../protocols/protocol.ts'
import type { IncomingCall, PaidCall, RouteChoice } from '../call.ts'
import { highestBaseRates } from '../../catalog/catalog.ts'
import type { Health } from './health.ts'

/** Which member has served a session; by account, route and session. */
export interface RouteSessions {
  get(session: string): string | undefined
  set(session: string, member: string): unknown
}

export interface RouteParts {
  readonly catalog: { member(id: string): Model | undefined }
  readonly health: Pick<Health, 'latencyMs'>
  readonly routeSessions: RouteSessions
}

/** One call in so far as it decides which member is first. */
export type RoutedCall = Pick<PaidCall, 'caller' | 'request'> & { readonly requestId?: string }

/** What every call of `latency` in so many tries at random, so that a member that was slow once is not slow for ever. */
const exploredOf = 20

/**
 * The members of a virtual model for a call. A session stays with the member that has served it, since that one's cache
 * knows its prompt: whether it is well, dispatch sees.
 */
export function chooseMembers(parts: RouteParts, virtual: VirtualModel, call: RoutedCall): RouteChoice {
  const { id, route } = virtual
  const refused: { model: string; reason: string }[] = []
  const ranked = withoutRepeats(rankMembers(parts, id, route, call, refused))
  const text = sessionOf(call.request)
  const session = text === undefined ? undefined : `${call.caller.account.id} ${id} ${Bun.hash(text)}`
  const before = session === undefined ? undefined : parts.routeSessions.get(session)
  const known = before === undefined ? undefined : ranked.find((model) => model.id === before)
  return {
    id,
    defaults: route.defaults,
    reason: known === undefined ? route.pick : 'session',
    members: known === undefined ? ranked : [known, ...ranked.filter((model) => model !== known)],
    refused,
    afterFilter: route.afterFilter,
    continues: route.continues,
    session,
  }
}

function rankMembers(
  parts: RouteParts,
  id: string,
  { pick, members }: ModelRoute,
  call: RoutedCall,
  refused: { model: string; reason: string }[],
): readonly Model[] {
  const known: Weighted[] = []
  for (const { id: member, weight } of members) {
    const model = parts.catalog.member(member)
    if (model === undefined) refused.push({ model: member, reason: 'not_sold' })
    else known.push({ model, weight })
  }
  const ranked = byPick(parts, id, pick, known, call)
  if (ranked.every((model) => model.route === undefined)) return ranked
  return ranked.flatMap((model) =>
    model.route === undefined ? [model] : rankMembers(parts, model.id, model.route, call, refused),
  )
}

function withoutRepeats(models: readonly Model[]): readonly Model[] {
  const isRepeated = models.some((model, at) => models.indexOf(model) !== at)
  return isRepeated ? [...new Set(models)] : models
}

interface Weighted {
  readonly model: Model
  readonly weight: number
}

function byPick(
  { health }: Pick<RouteParts, 'health'>,
  id: string,
  pick: ModelRoute['pick'],
  members: readonly Weighted[],
  { caller, requestId }: RoutedCall,
): readonly Model[] {
  switch (pick) {
    case 'order':
      return members.map(({ model }) => model)
    case 'weight':
      return lowestFirst(members, ({ model, weight }) =>
        shareOf(`${id} ${caller.account.id} ${model.id}`, weight),
      )
    case 'price':
      return lowestFirst(members, ({ model }) => usualPrice(model.offers[0]!.price))
    case 'latency': {
      const explored =
        requestId === undefined ? -1 : Bun.hash.xxHash32(requestId) % (exploredOf * members.length)
      const quick = lowestFirst(members, ({ model }) => health.latencyMs(model.offers[0]!) ?? 0)
      const tried = members[explored]?.model
      return tried === undefined ? quick : [tried, ...quick.filter((model) => model !== tried)]
    }
    default:
      return pick satisfies never
  }
}

function lowestFirst(members: readonly Weighted[], of: (member: Weighted) => number): readonly Model[] {
  return members
    .map((member) => ({ model: member.model, rank: of(member) }))
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ model }) => model)
}

/**
 * Weighted rendezvous hashing: over many names each member is lowest as often as its weight says, and a changed weight
 * moves no more names than it must.
 */
function shareOf(name: string, weight: number): number {
  const unit = (Number(Bun.hash.xxHash64(name) >> 11n) + 0.5) / 2 ** 53
  return -Math.log(unit) / weight
}

/** Three tokens of prompt and one of output, picodollars: prompts are longer than answers. */
export function usualPrice(price: Price): number {
  const { input, output } = highestBaseRates(price)
  return Number(3n * input + output)
}

/**
 * What names the conversation of a request: what the client calls it, or how it begins, which stays the same from turn
 * to turn. Undefined for what is no conversation.
 */
function sessionOf({ envelope, body }: RoutedCall['request']): string | undefined {
  if (envelope.sessionId !== undefined) return `session ${envelope.sessionId}`
  const key = body['prompt_cache_key']
  if (typeof key === 'string') return `key ${key}`
  const list = body['messages'] ?? body['contents'] ?? body['input'] ?? body['prompt']
  if (list === undefined) return undefined
  const instructions = body['system'] ?? body['instructions'] ?? body['systemInstruction'] ?? ''
  return JSON.stringify([shorten(instructions), shorten(Array.isArray(list) ? beginningOf(list) : list)])
}

/** The most of one text that tells conversations apart, characters: half from its beginning, half from its end. */
const tellingCharacters = 2_048

/** The same with long texts cut: to write out and hash a prompt of an agent would cost more than all else of a route. */
function shorten(value: unknown): unknown {
  if (typeof value === 'string') {
    if (value.length <= tellingCharacters) return value
    const half = tellingCharacters / 2
    return [value.length, value.slice(0, half), value.slice(-half)]
  }
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(shorten)
  return Object.entries(value).flatMap(([name, inner]) => [name, shorten(inner)])
}

/** The items up to the first one of a user. */
function beginningOf(list: readonly unknown[]): readonly unknown[] {
  const first = list.findIndex(
    (item) => typeof item !== 'object' || item === null || Reflect.get(item, 'role') === 'user',
  )
  return list.slice(0, first < 0 ? 1 : first + 1)
}

/** Whom the route has led to, for the receipt. Members before the one that served were passed over. */
export function routeNote(
  { id, reason, members, refused }: RouteChoice,
  served: Model,
  attempts: readonly Attempt[],
): RouteNote {
  // Most calls are served by the first.
  if (members[0]?.id === served.id) return { id, model: served.id, reason, passedOver: refused }
  const at = members.findIndex((model) => model.id === served.id)
  const earlier = at < 0 ? members : members.slice(0, at)
  const failureOf = (model: Model) =>
    attempts.findLast(
      ({ provider, code }) => code !== null && model.offers.some((offer) => offer.provider === provider),
    )
  return {
    id,
    model: served.id,
    reason,
    passedOver: [
      ...refused,
      ...earlier.map((model) => ({ model: model.id, reason: failureOf(model)?.code ?? 'cooling' })),
    ],
  }
}

/** The call with what its route adds where the client says nothing. */
export function withRouteDefaults(call: IncomingCall, { defaults }: RouteChoice): IncomingCall {
  if (Object.keys(defaults).length === 0) return call
  const { system, max_cost, max_tokens, cache } = defaults
  const { request } = call
  const { envelope } = request
  const limited: InboundRequest = {
    ...request,
    envelope: {
      ...envelope,
      maxCost: envelope.maxCost ?? max_cost,
      maxOutputTokens: envelope.maxOutputTokens ?? max_tokens,
      ...(cache !== undefined && { cacheMs: envelope.cacheMs ?? cache.ttl * 1000 }),
    },
  }
  const { max_cost: _, cache: _cache, ...written } = defaults
  if (Object.keys(written).length === 0) return { ...call, request: limited }
  const added: InboundRequest = {
    ...limited,
    // No provider is sent the client's body as it is.
    translated: true,
    isAdded: (param) => isDefault(written, param) || request.isAdded?.(param) === true,
    toChatRequest: () => withDefaults(request.toChatRequest(), defaults),
  }
  if (system === undefined) return { ...call, request: added }
  const prompt = promptParts(
    { messages: [{ role: 'system', content: system }] },
    { conversation: 'messages', declared: [] },
  )
  return {
    ...call,
    bodyBytes: call.bodyBytes + Buffer.byteLength(system) + messageBytes,
    request: {
      ...added,
      promptParts: joinedPrompt(prompt, request.promptParts),
      fields: behindSystem(request),
    },
  }
}

/** What a message measures beside its text, at most. */
const messageBytes = 64

function withDefaults(
  request: ChatRequest,
  { temperature, top_p, max_tokens, reasoning, system }: RouteDefaults,
): ChatRequest {
  const { sampling, messages } = request
  const first: Message | undefined =
    system === undefined
      ? undefined
      : { role: 'system', content: [{ kind: 'text', text: system, cache: undefined }] }
  return {
    ...request,
    messages: first === undefined ? messages : [first, ...messages],
    maxOutputTokens: request.maxOutputTokens ?? max_tokens,
    sampling: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(top_p === undefined ? {} : { topP: top_p }),
      ...sampling,
    },
    reasoning: request.reasoning ?? (reasoning === undefined ? undefined : { effort: reasoning }),
  }
}

const namesOfDefaults: Readonly<Record<string, keyof RouteDefaults>> = {
  temperature: 'temperature',
  top_p: 'top_p',
  max_tokens: 'max_tokens',
  reasoning: 'reasoning',
  reasoning_effort: 'reasoning',
}

/** Whether a field is one that the route has set: nobody is warned that a model does not take it. */
function isDefault(written: RouteDefaults, param: string): boolean {
  const name = namesOfDefaults[param.split('.')[0]!]
  return name !== undefined && written[name] !== undefined
}

/** The client's names for its messages, behind the one that the route has put first. */
function behindSystem(request: InboundRequest): ClientFields {
  const { fields } = request
  const own = () => request.toChatRequest().messages.map((_, at) => `messages[${at}]`)
  return {
    names: {},
    ...fields,
    messages: () => ["the route's system text", ...(fields?.messages() ?? own())],
  }
}
