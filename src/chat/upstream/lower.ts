// Turns the client's request into the provider's: translated, or passed through if both speak the same protocol.

import { LRUCache } from 'lru-cache'
import { atMost } from '../../async/async.ts'
import type { Fault } from '../../conversation/event.ts'
import type { ChatRequest, ContentPart, Json, JsonObject, Message } from '../../conversation/request.ts'
import {
  checkUrl,
  destinationOf,
  isAllowedHost,
  privateHosts,
  type Resolve,
  systemResolve,
} from '../../egress/destination.ts'
import { type Fetcher, fetchPublic } from '../../egress/egress.ts'
import { GatewayError } from '../../errors/errors.ts'
import { forgetSource, textAsItCame } from '../../json/scan.ts'
import { isObject } from '../../protocols/lenient.ts'
import { joinWarnings, type LoweredRequest, noWarnings, type Warning } from '../../protocols/lowering.ts'
import { type OutgoingRequest, withoutIgnored, withPricedOutput } from '../../protocols/openai/parameters.ts'
import type { Outbound, RequestAddress, Target } from '../../protocols/protocol.ts'
import {
  type ClientFields,
  errorFor,
  warningsFor,
  withoutGoogleFields,
} from '../../protocols/request/fields.ts'
import {
  type AddressVisitor,
  type FoundAddress,
  type Parts,
  visitAddresses,
  withCacheMarks,
} from '../../protocols/request/prompt-parts.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'
import { type Scheduler, unscheduledCharacters } from '../../scheduler/scheduler.ts'
import { BudgetSpentError, ByteBudget } from '../../transport/bounded-body.ts'
import { refuseUnpricedMedia } from '../billing/need.ts'
import type { IncomingCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { refusesPrefill } from '../routing/fault-error.ts'

// What models refuse, learned from their providers' own words: a 400 that says that a setting or one of its values is
// not supported. Tables by a model's name go stale with each new model; this does not. A setting that was refused is left
// out, or set to what is allowed, for that model of that provider, and the request is sent once more.

/** How long a refusal is believed, milliseconds: providers change what their models take. */
const believedMs = 24 * 3_600_000
/** Models about which anything is remembered at once. */
const mostModels = 1_000
/** Of one model; more mean that the provider refuses something else. */
const mostOfModel = 16

/**
 * Settings that may be left out or changed without changing what the call may cost or what its answer is: no limit of
 * tokens, no number of answers, no tier, no tool and no format of the answer is among them.
 */
interface Setting {
  /** Its name in chat completions. */
  readonly param: string
  /** Where the protocols of providers have it. */
  readonly paths: readonly string[]
  /** What refusals call it. */
  readonly called: RegExp
}

const samplers = (param: string, ...names: readonly string[]): Setting => ({
  param,
  paths: names.flatMap((name) => [
    name,
    `generationConfig.${name}`,
    `inferenceConfig.${name}`,
    `options.${name}`,
    `additionalModelRequestFields.${name}`,
  ]),
  called: new RegExp(`(?<![\\w-])(?:${names.join('|')})(?![\\w-])`),
})

const settings: readonly Setting[] = [
  {
    param: 'reasoning',
    paths: [
      'reasoning_effort',
      'reasoning.effort',
      'output_config.effort',
      'additionalModelRequestFields.output_config.effort',
      'generationConfig.thinkingConfig.thinkingLevel',
    ],
    called:
      /reasoning[ _.]?effort|reasoning\.effort|output_config\.effort|(?<![\w.])effort\b|thinking[ _]?level/i,
  },
  {
    param: 'reasoning',
    paths: ['thinking', 'additionalModelRequestFields.thinking'],
    called: /\bthinking(?:\.type)?\b/i,
  },
  { param: 'reasoning.summary', paths: ['reasoning.summary'], called: /reasoning\.summary/ },
  { param: 'verbosity', paths: ['verbosity', 'text.verbosity'], called: /\b(?:text\.)?verbosity\b/ },
  { param: 'parallel_tool_calls', paths: ['parallel_tool_calls'], called: /\bparallel_tool_calls\b/ },
  {
    param: 'tool_choice',
    paths: ['tool_choice'],
    called: /\btool_choice\b|\bforced? tool|\btool use is forced/i,
  },
  samplers('temperature', 'temperature'),
  samplers('top_p', 'top_p', 'topP'),
  samplers('top_k', 'top_k', 'topK'),
  samplers('seed', 'seed'),
  samplers('presence_penalty', 'presence_penalty', 'presencePenalty'),
  samplers('frequency_penalty', 'frequency_penalty', 'frequencyPenalty'),
  samplers('logit_bias', 'logit_bias'),
]

/** One setting, as a model refused it. */
interface Refusal {
  readonly setting: Setting
  readonly path: string
  /** The value that was refused; absent where the setting is refused whatever its value. */
  readonly value?: string
  /** The values that the provider named; absent where it named none. */
  readonly allowed?: readonly string[]
}

/** Words by which a provider says that what it was sent cannot be, and not merely that it is malformed. */
const refusing =
  /not (?:a )?support|unsupported|is deprecated|must be (?:one of|in)|(?:allowed|supported|valid|permitted|accepted) values|expected one of|not allowed|not permitted|not available for|does not (?:accept|allow)|unknown (?:parameter|field|name)|unrecognized/i

/** A request that names both of two settings: which of them is at fault is not the model's to remember. */
const ofCombination =
  /cannot both|together|may not be enabled when|only (?:one|be (?:set|used)) .*(?:when|with)/i

export class LearnedRefusals {
  /** Of each model; its size tells whether there is anything to heed. */
  readonly byModel = new LRUCache<string, readonly Refusal[]>({ ...atMost(mostModels), ttl: believedMs })

  /** Those that do not go on with an answer that is begun for them. */
  readonly withoutPrefill = new LRUCache<string, true>({ ...atMost(mostModels), ttl: believedMs })

  /** Learns from the fault of a request with this body. Whether there was anything to learn that was not known. */
  learn(model: string, fault: Fault, body: unknown): boolean {
    if (refusesPrefill(fault)) this.withoutPrefill.set(model, true)
    const found = isObject(body) ? refusalIn(fault, body) : undefined
    if (found === undefined) return false
    const known = this.byModel.get(model) ?? []
    const isKnown = known.some((each) => each.path === found.path && each.value === found.value)
    if (isKnown || known.length >= mostOfModel) return false
    this.byModel.set(model, [...known, found])
    return true
  }

  /** The body without what this model is known to refuse, and what has changed. The same body where that is nothing. */
  heed(
    model: string,
    body: JsonObject,
  ): { readonly body: JsonObject; readonly warnings: readonly Warning[] } {
    const known = this.byModel.get(model)
    const warnings: Warning[] = []
    if (known === undefined) return { body, warnings }
    let heeded = body
    for (const refusal of known) {
      const { path, setting } = refusal
      const value = valueAt(heeded, path)
      if (value === undefined || !isRefused(value, refusal)) continue
      const next = replacementFor(
        value,
        known.filter((each) => each.path === path),
      )
      heeded = withValue(heeded, path.split('.'), next) as JsonObject
      const done = next === undefined ? 'was left out' : `became ${JSON.stringify(next)}`
      warnings.push({
        param: setting.param,
        message: `${JSON.stringify(value)} ${done}: the provider says that the model does not support it.`,
      })
    }
    return { body: heeded, warnings }
  }
}

/** What a fault says that the model refuses of this body; undefined if it says no such thing. Exported for its test. */
export function refusalIn({ kind, status, message, param }: Fault, body: JsonObject): Refusal | undefined {
  if (kind !== 'invalid-request' || (status !== 400 && status !== 422)) return undefined
  if (!refusing.test(message) || ofCombination.test(message)) return undefined
  for (const setting of settings) {
    // A provider that names the field means no other that its sentence may name as well.
    if (!setting.called.test(param ?? message)) continue
    const path = setting.paths.find((each) => valueAt(body, each) !== undefined)
    if (path === undefined) continue
    const value = valueAt(body, path)
    const word = wordOf(value)
    // A choice of tools is refused for what it forces: to be free not to call any is the client's right everywhere.
    if (setting.param === 'tool_choice' && (word === 'none' || word === 'auto')) return undefined
    if (word === undefined) return { setting, path }
    const allowed = valuesIn(message, word)
    const isNamed = new RegExp(`(?:\\b|_)${patternOf(word)}\\b`, 'i').test(message)
    if (allowed === undefined && !isNamed && setting.param !== 'tool_choice') return { setting, path }
    return { setting, path, value: word, ...(allowed !== undefined && { allowed }) }
  }
  return undefined
}

/** The word that says which value it is: of an object its type; undefined for a number and the like. */
function wordOf(value: Json | undefined): string | undefined {
  const word = isObject(value) ? value['type'] : value
  return typeof word === 'string' ? word : undefined
}

function patternOf(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

/** The values that a sentence names as those that would do, in the notation of `refused`; undefined if it names none. */
function valuesIn(message: string, refused: string): readonly string[] | undefined {
  const list =
    /(?:(?:allowed|supported|valid|permitted|accepted) values(?: are)?|must be (?:one of|in)|expected one of)\s*:?\s*([^.]{1,300})/i.exec(
      message,
    )?.[1] ?? ofUse.exec(message)?.[1]
  if (list === undefined) return undefined
  const quoted = [...list.matchAll(/['"`‘“]([\w-]+)['"`’”]/g)].map(([, word]) => word!)
  const words = quoted.length > 0 ? quoted : list.split(/[\s,[\]()]+|\bor\b|\band\b/).filter(Boolean)
  const isUpper = refused === refused.toUpperCase()
  const values = words.map((word) => (isUpper ? word.toUpperCase() : word)).filter((word) => word !== refused)
  return values.length === 0 ? undefined : values
}

/** Anthropic's way: `Use "thinking.type.adaptive" and …`. */
const ofUse = /\buse ["“`']?thinking\.type\.(\w+)/i

/** From the least to the most that a model may think. */
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

function isRefused(value: Json, { value: refused, allowed }: Refusal): boolean {
  if (refused === undefined) return true
  const word = wordOf(value)
  return word === refused || (word !== undefined && allowed !== undefined && !allowed.includes(word))
}

/** What stands for a refused value: of efforts the next one up, so that nobody gets less than asked for, else down. */
function replacementFor(value: Json, refusals: readonly Refusal[]): Json | undefined {
  const word = wordOf(value)
  if (word === undefined) return undefined
  // Whatever else a choice of tools says still holds.
  if (isObject(value) && value['disable_parallel_tool_use'] === true)
    return { type: 'auto', disable_parallel_tool_use: true }
  const [named] = refusals.flatMap(({ allowed }) => (allowed === undefined ? [] : [allowed]))
  const rank = isObject(value) ? -1 : efforts.indexOf(word.toLowerCase())
  const refused = new Set(refusals.flatMap((each) => each.value ?? []))
  const isUpper = word !== word.toLowerCase()
  if (rank < 0) {
    const only = named?.length === 1 ? named[0] : undefined
    return only !== undefined && isObject(value) ? { type: only } : only
  }
  const options = named ?? efforts.slice(1, 5).map((effort) => (isUpper ? effort.toUpperCase() : effort))
  const able = options.filter((each) => !refused.has(each))
  const rankOf = (each: string) => efforts.indexOf(each.toLowerCase())
  const ranked = able.filter((each) => rankOf(each) >= 0).toSorted((a, b) => rankOf(a) - rankOf(b))
  return ranked.find((each) => rankOf(each) > rank) ?? ranked.at(-1)
}

function valueAt(body: JsonObject, path: string): Json | undefined {
  let value: Json | undefined = body
  for (const name of path.split('.')) {
    if (!isObject(value)) return undefined
    value = value[name]
  }
  return value ?? undefined
}

/** The object with another value there; without the member where there is none, nor an object that held nothing else. */
function withValue(
  object: JsonObject,
  [name = '', ...inner]: readonly string[],
  value: Json | undefined,
): Json | undefined {
  const { [name]: before, ...rest } = object
  const after = inner.length > 0 && isObject(before) ? withValue(before, inner, value) : value
  if (after !== undefined) return { ...object, [name]: after }
  return Object.keys(rest).length === 0 ? undefined : rest
}

/** A model of one provider. */
export function upstreamModel({ provider, offer }: Candidate): string {
  return `${provider.id}/${offer.upstream}`
}

export interface LoweringParts {
  /** Fetches images and files given by URL, for providers that take no URLs or must not fetch them. */
  readonly media: Media
  readonly scheduler: Scheduler
  readonly largeBodies: LargeBodies
  /** What models are known to refuse. */
  readonly refusals: Pick<LearnedRefusals, 'heed' | 'byModel'>
}

/** Large requests that are parsed and translated: others wait until they leave. */
interface LargeBodies {
  leave(requestId: string): void
}

export interface ProviderRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string
  readonly warnings: readonly Warning[]
  readonly toolNames?: Readonly<Record<string, string>>
  /** The answer's frames are in the client's own protocol. */
  readonly passthrough: boolean
}

/**
 * The request for this candidate's provider, with its output limited to `outputBound` tokens if given. With
 * `translated` neither the request nor the answer is passed through in the client's own protocol. Rejects with
 * `unsupported_parameter` or `url_not_allowed` for what cannot be sent to the provider.
 */
export async function loweredFor(
  parts: LoweringParts,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
  answer: 'passes' | 'translated' = 'passes',
): Promise<ProviderRequest> {
  const { fields } = call.request
  const mayPass = answer === 'passes' && call.inbound.id === outbound.id
  const lowering: Lowering = { parts, call, candidate, outbound, target, outputBound, mayPass }
  // Clients of chat completions have no names of their own.
  return fields === undefined ? lower(lowering) : inClientsWords(lowering, fields)
}

async function inClientsWords(lowering: Lowering, fields: ClientFields): Promise<ProviderRequest> {
  try {
    const lowered = await lower(lowering)
    return lowered.warnings.length === 0
      ? lowered
      : { ...lowered, warnings: warningsFor(lowered.warnings, fields) }
  } catch (error) {
    throw errorFor(error, fields)
  }
}

interface Lowering {
  readonly parts: LoweringParts
  readonly call: IncomingCall
  readonly candidate: Candidate
  readonly outbound: Outbound
  readonly target: Target
  readonly outputBound: number | undefined
  /** The client speaks the provider's protocol, and nobody else reads the answer. */
  readonly mayPass: boolean
}

/** A short request without addresses is lowered at once, as most are. */
async function lower(lowering: Lowering): Promise<ProviderRequest> {
  const { call, outbound } = lowering
  if (namesAddresses(call) || call.bodyBytes > unscheduledCharacters) return lowerInSteps(lowering)
  const forwarded = forwardedBody(lowering)
  if (forwarded) return writeBody(lowering, forwarded, forwarded.warnings, true)
  const asked = askedOf(lowering)
  if (outbound.inlinesUrls && urlsIn(asked.request).length > 0) return lowerInSteps(lowering)
  refuseUnserved(lowering, asked.request)
  return writeLowered(lowering, outbound.lower(asked.request, lowering.target), asked.warnings)
}

async function lowerInSteps(lowering: Lowering): Promise<ProviderRequest> {
  const { parts, call, candidate, outbound, target } = lowering
  const { media, scheduler } = parts
  const isPrivate = namesAddresses(call) && (await media.isPrivate(candidate.provider.baseUrl))
  const forwarded = isPrivate ? undefined : forwardedBody(lowering)
  if (forwarded) return writeBody(lowering, forwarded, forwarded.warnings, true)
  const asked = await scheduler.run(() => askedOf(lowering))
  const request = await withMedia(lowering, asked.request, isPrivate)
  refuseUnserved(lowering, request)
  const lowered = await scheduler.runDivisible(
    () => outbound.lowerSteps?.(request, target) ?? outbound.lower(request, target),
  )
  return writeLowered(lowering, lowered, asked.warnings)
}

function namesAddresses({ request: { addresses } }: IncomingCall): boolean {
  return addresses !== undefined && addresses.length > 0
}

/** What the client asks for and the provider heeds, its output bounded. */
function askedOf(lowering: Lowering): OutgoingRequest {
  const { call, candidate, outbound, outputBound } = lowering
  const { provider, model } = candidate
  const heeded = withoutIgnored(requestFor(call, outbound), provider.ignores, provider.id)
  const priced = withPricedOutput(heeded, model.outputModalities)
  const asked = marksCache(lowering) ? { ...priced, request: withCacheMarks(priced.request) } : priced
  const { request, warnings } = asked
  // A limit below the lowest of the provider is raised, and the client told, by its protocol.
  const isBounded =
    outputBound === undefined || outputBound >= (request.maxOutputTokens ?? Number.POSITIVE_INFINITY)
  return isBounded ? asked : { request: { ...request, maxOutputTokens: outputBound }, warnings }
}

/** Whether the prompt is to be marked for Claude's cache. Clients of Claude's own protocol know when to mark what. */
function marksCache({ call, candidate: { provider, offer } }: Lowering): boolean {
  return provider.marksCache && /claude/i.test(offer.upstream) && call.inbound.id !== 'anthropic-messages'
}

function refuseUnserved({ candidate, outbound }: Lowering, request: ChatRequest): void {
  refuseUnpricedMedia(request, candidate)
  if (request.maxOutputTokens === 0 && outbound.warmsCache !== true) throw noWarming(candidate)
}

/** The request as it goes out: `warnings` are those of what was asked, before the protocol's own. */
function writeLowered(
  lowering: Lowering,
  lowered: LoweredRequest,
  warnings: readonly Warning[],
): Promise<ProviderRequest> {
  const { call, outbound, mayPass } = lowering
  const { isAdded } = call.request
  const lost = isAdded ? lowered.warnings.filter(({ param }) => !isAdded(param)) : lowered.warnings
  return writeBody(
    lowering,
    lowered,
    joinWarnings(warnings, lost),
    mayPass && keepsNames(lowered, call) && answersPass(outbound),
  )
}

/** Others would take no output for a mistake of the client's, or for no bound. */
function noWarming({ model, provider }: Candidate): GatewayError {
  return new GatewayError('unsupported_parameter', {
    message:
      `max_tokens: 0 writes a prompt to the provider's cache and generates nothing. ` +
      `${provider.id} has no such request for ${model.id}; send 1 or more.`,
    param: 'max_tokens',
    metadata: { model: model.id, provider: provider.id },
  })
}

async function writeBody(
  { parts, call, candidate }: Lowering,
  { path, headers, toolNames, body: asked }: LoweredRequest,
  lost: readonly Warning[],
  passthrough: boolean,
): Promise<ProviderRequest> {
  const { refusals } = parts
  const { body, warnings: refused } =
    refusals.byModel.size === 0
      ? { body: asked, warnings: noWarnings }
      : refusals.heed(upstreamModel(candidate), asked)
  const text = textAsItCame(body, call.request.body) ?? (await parts.scheduler.stringify(body))
  const warnings = refused.length === 0 ? lost : joinWarnings(lost, refused)
  const request = { path, headers, body: text, warnings, passthrough }
  return toolNames ? { ...request, toolNames } : request
}

/** Whether calls in the answer are those of the client's own tools, by its own names. */
function keepsNames({ toolNames }: LoweredRequest, { request }: IncomingCall): boolean {
  return toolNames === undefined && request.envelope.customTools === undefined
}

/** Whether answers are passed through although requests are translated. */
function answersPass({ passthrough }: Outbound): boolean {
  return passthrough !== undefined && passthrough.request === undefined
}

/**
 * The client's own body for a provider of the same protocol whose row allows it; undefined if it must be translated,
 * or the gateway limits the output more tightly than the client.
 */
function forwardedBody(lowering: Lowering): LoweredRequest | undefined {
  const { call, candidate, outbound, target, outputBound, mayPass } = lowering
  const { request } = call
  const { provider, serviceTier } = candidate
  if (!mayPass || provider.clientBody !== 'forwarded' || request.translated === true) return undefined
  if (outputBound !== request.envelope.maxOutputTokens) return undefined
  if (request.body['extra_body'] !== undefined || serviceTier !== undefined) return undefined
  if (marksCache(lowering)) return undefined
  const { searches } = request.envelope
  return outbound.passthrough?.request?.(request.body, target, provider.ignores ?? [], searches)
}

/** The client's request without the fields of its own protocol, for a provider of another. */
function requestFor({ inbound, request }: IncomingCall, outbound: Outbound): OutgoingRequest {
  const asked = request.toChatRequest()
  const own =
    inbound.id === outbound.id || !inbound.forOtherProtocols
      ? { request: asked, warnings: noWarnings }
      : inbound.forOtherProtocols(asked)
  const isGoogles = asked.rest['extra_body'] !== undefined || asked.googleMembers !== undefined
  if (outbound.readsGoogleFields === true || !isGoogles) return own
  const { request: heeded, warnings } = withoutGoogleFields(own.request)
  return { request: heeded, warnings: joinWarnings(own.warnings, warnings) }
}

function urlsIn({ messages }: ChatRequest): readonly string[] {
  const urls: string[] = []
  for (const { content } of messages)
    for (const part of content) {
      const url = urlOf(part)
      if (url !== undefined) urls.push(url)
    }
  return urls
}

/**
 * The request with media that the provider can take. A provider in a private network must not fetch for a caller: it
 * would resolve names again, and could get a private address.
 */
async function withMedia(
  { parts: { media, largeBodies }, call, outbound, target }: Lowering,
  request: ChatRequest,
  isPrivate: boolean,
): Promise<ChatRequest> {
  const urls = urlsIn(request)
  const isElsewhere = (url: string) => isPrivate && /^https?:/i.test(url) && !media.isAllowed(url)
  const mustInline = (url: string) => outbound.inlinesUrls && outbound.readsUrl?.(url, target) !== true
  const wanted = new Set(urls.filter((url) => isElsewhere(url) || mustInline(url)))
  // Nobody waits for the servers that a caller names.
  if (isPrivate || wanted.size > 0) largeBodies.leave(call.requestId)
  if (isPrivate) {
    const others = (call.request.addresses ?? []).filter(({ url }) => !urls.includes(url))
    await Promise.all(others.map((address) => media.check(address)))
  }
  return wanted.size === 0 ? request : media.inline(request, (url) => wanted.has(url), call.signal)
}

// A provider's complete quirks: its protocol's defaults, overridden by its row.

type Quirks = Outbound['defaultQuirks']

const merged = new WeakMap<Outbound, WeakMap<object, Quirks>>()

/** The quirks passed to a protocol's functions; cached per row and protocol. */
export function quirksFor(outbound: Outbound, { quirks }: ConfiguredProvider): Quirks {
  let ofProtocol = merged.get(outbound)
  if (!ofProtocol) merged.set(outbound, (ofProtocol = new WeakMap()))
  let full = ofProtocol.get(quirks)
  if (full === undefined) {
    full = { ...(outbound.defaultQuirks as object), ...quirks }
    ofProtocol.set(quirks, full)
  }
  return full
}

// Fetches images and files given by URL through the egress guard: for protocols that only take bytes, and for
// providers in a private network, which would resolve the name themselves and may reach something private.

export interface MediaLimits {
  /** The largest file fetched for a prompt, bytes. */
  readonly fileBytes: number
  /** The most bytes fetched for one request. */
  readonly requestBytes: number
  /** The time limit for all files of a request, milliseconds. */
  readonly timeoutMs: number
}

interface Media {
  /**
   * The request with the bytes of every image, file and video instead of its URL, if `wanted` accepts the URL. Rejects
   * with `url_not_allowed` for an address that users may not reach, and `invalid_request` for one that returns
   * nothing, a file too large or a fetch too slow, each naming the part.
   */
  inline(request: ChatRequest, wanted: (url: string) => boolean, signal: AbortSignal): Promise<ChatRequest>
  /** Whether a provider at this base URL runs in a private network. */
  isPrivate(baseUrl: string): Promise<boolean>
  /** Whether the operator allows everybody to reach the host of this URL (`egress.allow_hosts`). */
  isAllowed(url: string): boolean
  /** Resolves the name in an address. Rejects with `url_not_allowed` if it is private. */
  check(address: RequestAddress): Promise<void>
}

interface MediaParts {
  readonly allowHosts: readonly string[]
  readonly limits: MediaLimits
  readonly resolve?: Resolve
  readonly fetcher?: Fetcher
}

/** Concurrent fetches per request. */
const atOnce = 4

export function media({ allowHosts, limits, resolve = systemResolve, fetcher }: MediaParts): Media {
  const rim = { allowHosts, resolve, ...(fetcher && { fetcher }) }

  async function inline(request: ChatRequest, wanted: (url: string) => boolean, signal: AbortSignal) {
    const jobs = urlParts(request, wanted)
    if (jobs.length === 0) return request
    const deadline = performance.now() + limits.timeoutMs
    const inlined = new Map<ContentPart, ContentPart>()
    const budget = new ByteBudget(limits.requestBytes)

    async function next(): Promise<void> {
      for (let job = jobs.shift(); job; job = jobs.shift()) {
        const { part, url, param } = job
        const maxBytes = limits.fileBytes
        const timeoutMs = Math.max(1, deadline - performance.now())
        const source = await withinBudget(limits.requestBytes, param, async () => {
          const given = inlinedIn(url)
          if (given === undefined)
            return checkMedia(
              await fetchPublic(url, { ...rim, signal, param, maxBytes, budget, timeoutMs }),
              param,
            )
          budget.take(Math.ceil(given.data.length * 0.75))
          return given
        })
        inlined.set(part, { ...part, source: { kind: 'base64', ...source } } as ContentPart)
      }
    }

    await Promise.all(Array.from({ length: Math.min(atOnce, jobs.length) }, next))
    const messages = request.messages.map((message): Message => {
      if (!message.content.some((part) => inlined.has(part))) return message
      return { ...message, content: message.content.map((part) => inlined.get(part) ?? part) }
    })
    return { ...request, messages }
  }

  return {
    inline,
    isPrivate: privateHosts(resolve),
    isAllowed: (url) => isAllowedHost(url, allowHosts),
    async check({ url, param }) {
      await destinationOf(url, { allowHosts, resolve, param })
    },
  }
}

interface UrlPart {
  readonly part: ContentPart
  readonly url: string
  readonly param: string
}

function urlParts(request: ChatRequest, wanted: (url: string) => boolean): UrlPart[] {
  return request.messages.flatMap((message, at) =>
    message.content.flatMap((part, index) => {
      const url = urlOf(part)
      if (url === undefined || !wanted(url)) return []
      return [{ part, url, param: `messages[${at}].content[${index}]` }]
    }),
  )
}

/** The URL of a part that is an external image, file or video. */
function urlOf(part: ContentPart): string | undefined {
  const carriesMedia = part.kind === 'image' || part.kind === 'file' || part.kind === 'video'
  return carriesMedia && part.source.kind === 'url' ? part.source.url : undefined
}

/** Runs `work`. Rejects with `invalid_request` if it takes more of the budget than there is. */
async function withinBudget<T>(requestBytes: number, param: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof BudgetSpentError ? tooMuch(requestBytes, param) : error
  }
}

function tooMuch(requestBytes: number, param: string): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The files that this request names are together larger than ${requestBytes} bytes.`,
    param,
  })
}

/** A data: URL contains its bytes. */
function inlinedIn(url: string): { mediaType: string; data: string } | undefined {
  const match = /^data:([\w.+/-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/_=-]+)$/.exec(url)
  return match ? { mediaType: match[1]!, data: match[2]! } : undefined
}

function checkMedia(
  fetched: { status: number; mediaType: string; bytes: Uint8Array },
  param: string,
): { mediaType: string; data: string } {
  if (fetched.status !== 200) {
    throw new GatewayError('invalid_request', {
      message: `The address answered with status ${fetched.status}.`,
      param,
    })
  }
  return {
    mediaType: fetched.mediaType === '' ? 'application/octet-stream' : fetched.mediaType,
    data: Buffer.from(fetched.bytes).toString('base64'),
  }
}

// Checks addresses in a request, whoever is going to fetch them: a provider in the same network could reach for the
// caller what the gateway itself refuses to reach.

export interface AddressRules {
  /** Private `host` or `host:port` entries that may be reached, and buckets as `gs://bucket`. */
  readonly allowHosts: readonly string[]
  /** Whether files may be named that are stored at a provider: it reads them with the rights of the operator. */
  readonly providerFiles: boolean
}

interface CheckedAddresses {
  readonly addresses: readonly RequestAddress[]
  /** What was removed from the body. */
  readonly warnings: readonly Warning[]
}

/**
 * Normalises every address in a body, so that all parsers read it alike, and removes unknown fields that contain an
 * address or name a destination. Changes the body. Throws, naming the field, `url_not_allowed` for an address that
 * users may not reach, and `unsupported_parameter` for a file stored at a provider, unless the rules allow those.
 */
export function checkAddresses(body: JsonObject, places: Parts, rules: AddressRules): CheckedAddresses {
  const check = new AddressCheck(rules)
  visitAddresses(body, places, check)
  if (check.hasChanged) forgetSource(body)
  return check
}

/** Google's Files API: Gemini reads what was uploaded there with the operator's key. */
const fileHost = /^generativelanguage\.googleapis\.com\.?$/

const noAddresses: readonly RequestAddress[] = []

/** Most bodies hold no address. */
class AddressCheck implements AddressVisitor, CheckedAddresses {
  #addresses: RequestAddress[] | undefined
  #warnings: Warning[] | undefined
  readonly #rules: AddressRules
  /** Whether the body is no longer what came. */
  hasChanged = false

  constructor(rules: AddressRules) {
    this.#rules = rules
  }

  get addresses(): readonly RequestAddress[] {
    return this.#addresses ?? noAddresses
  }

  get warnings(): readonly Warning[] {
    return this.#warnings ?? noWarnings
  }

  onFound({ text, param, replace }: FoundAddress): void {
    const url = checkUrl(text, { allowHosts: this.#rules.allowHosts, param })
    if (fileHost.test(url.hostname)) this.onKept(param)
    // Parsers may disagree on the host of the original: `http://good.example\@127.0.0.1/`.
    if (url.href !== text) {
      replace(url.href)
      this.hasChanged = true
    }
    // A file of Cloud Storage is not to be fetched: only Google reads it.
    if (url.protocol === 'gs:') return
    ;(this.#addresses ??= []).push({ url: url.href, param })
  }

  /** Ids do not tell whose they are: everybody's, and the operator's own, are in one account at the provider. */
  onKept(param: string): void {
    if (this.#rules.providerFiles) return
    const message =
      `'${param}' names a file that is stored at a provider, which reads it with the operator's rights, whoever ` +
      'uploaded it. Send its content instead, or a public URL; the operator can allow such files ' +
      '(egress.provider_files).'
    throw new GatewayError('unsupported_parameter', { message, param })
  }

  onDropped(param: string): void {
    const message = 'It was dropped: it names an address, and no provider is known to read one here.'
    ;(this.#warnings ??= []).push({ param, message })
    this.hasChanged = true
  }
}
