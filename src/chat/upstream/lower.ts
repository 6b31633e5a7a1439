// Turns the client's request into the provider's: translated, or passed through if both speak the same protocol.

import { type Awaitable, whenDone } from '../../awaitable.ts'
import type { ChatRequest } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { type ClientFields, errorFor, warningsFor } from '../../protocols/request/client-fields.ts'
import { type Asked, withPricedOutput, withoutIgnored } from '../../protocols/parameters.ts'
import {
  joinWarnings,
  type LoweredRequest,
  noWarnings,
  type Warning,
} from '../../protocols/lowered-request.ts'
import type { Outbound, Target } from '../../protocols/protocol.ts'
import type { IncomingCall } from '../call.ts'
import { littleCharacters, type Turns } from '../streaming/turns.ts'
import { type Media, urlOf } from './inline-media.ts'
import type { Candidate } from '../routing/candidates.ts'
import { refuseUnpricedMedia } from '../billing/unpriced-media.ts'

export interface LoweringParts {
  /** Fetches images and files given by URL, for providers that take no URLs or must not fetch them. */
  readonly media: Media
  readonly turns: Turns
  readonly largeBodies: LargeBodies
}

/** Large requests that are parsed and translated: others wait until they leave. */
export interface LargeBodies {
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
export function loweredFor(
  parts: LoweringParts,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
  answer: 'passes' | 'translated' = 'passes',
): Awaitable<ProviderRequest> {
  const { fields } = call.request
  const mayPass = answer === 'passes' && call.inbound.id === outbound.id
  const lowering: Lowering = { parts, call, candidate, outbound, target, outputBound, mayPass }
  // Clients of chat completions have no names of their own.
  return fields === undefined ? lower(lowering) : inClientsWords(lowering, fields)
}

function inClientsWords(lowering: Lowering, fields: ClientFields): Awaitable<ProviderRequest> {
  return whenDone(
    () => lower(lowering),
    (lowered) =>
      lowered.warnings.length === 0
        ? lowered
        : { ...lowered, warnings: warningsFor(lowered.warnings, fields) },
    (error) => {
      throw errorFor(error, fields)
    },
  )
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

/** A short request without addresses is lowered at once, as most are: nothing has to be awaited. */
function lower(lowering: Lowering): Awaitable<ProviderRequest> {
  const { call, outbound } = lowering
  if (namesAddresses(call) || call.bodyBytes > littleCharacters) return lowerInSteps(lowering)
  const forwarded = forwardedBody(lowering)
  if (forwarded) return writeBody(lowering, forwarded, forwarded.warnings, true)
  const asked = askedOf(lowering)
  if (outbound.inlinesUrls && urlsIn(asked.request).length > 0) return lowerInSteps(lowering)
  return translateRequest(lowering, asked.request, asked.warnings)
}

async function lowerInSteps(lowering: Lowering): Promise<ProviderRequest> {
  const { parts, call, candidate } = lowering
  const { media, turns } = parts
  const isPrivate = namesAddresses(call) && (await media.isPrivate(candidate.provider.baseUrl))
  const forwarded = isPrivate ? undefined : forwardedBody(lowering)
  if (forwarded) return writeBody(lowering, forwarded, forwarded.warnings, true)
  const asked = await turns.run(() => askedOf(lowering))
  const request = await withMedia(lowering, asked.request, isPrivate)
  return turns.run(() => translateRequest(lowering, request, asked.warnings))
}

function namesAddresses({ request: { addresses } }: IncomingCall): boolean {
  return addresses !== undefined && addresses.length > 0
}

/** What the client asks for and the provider heeds, its output bounded. */
function askedOf({ call, candidate, outbound, outputBound }: Lowering): Asked {
  const { provider, model } = candidate
  const heeded = withoutIgnored(requestFor(call, outbound), provider.ignores, provider.id)
  const asked = withPricedOutput(heeded, model.outputModalities)
  const { request, warnings } = asked
  // A limit below the lowest of the provider is raised, and the client told, by its protocol.
  const isBounded =
    outputBound === undefined || outputBound >= (request.maxOutputTokens ?? Number.POSITIVE_INFINITY)
  return isBounded ? asked : { request: { ...request, maxOutputTokens: outputBound }, warnings }
}

/** The request in the provider's protocol. */
function translateRequest(
  lowering: Lowering,
  request: ChatRequest,
  warnings: readonly Warning[],
): Awaitable<ProviderRequest> {
  const { call, candidate, outbound, target, mayPass } = lowering
  refuseUnpricedMedia(request, candidate)
  if (request.maxOutputTokens === 0 && outbound.warmsCache !== true) throw noWarming(candidate)
  const lowered = outbound.lower(request, target)
  const { isAdded } = call.request
  const lost = isAdded ? notAdded(lowered.warnings, isAdded) : lowered.warnings
  return writeBody(lowering, lowered, joinWarnings(warnings, lost), mayPass && answersPass(outbound))
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

function notAdded(warnings: readonly Warning[], isAdded: (param: string) => boolean): readonly Warning[] {
  return warnings.filter(({ param }) => !isAdded(param))
}

function writeBody(
  { parts }: Lowering,
  lowered: LoweredRequest,
  warnings: readonly Warning[],
  passthrough: boolean,
): Awaitable<ProviderRequest> {
  const body = parts.turns.text(lowered.body)
  return body instanceof Promise
    ? sentLater(lowered, body, warnings, passthrough)
    : sendBody(lowered, body, warnings, passthrough)
}

async function sentLater(
  lowered: LoweredRequest,
  body: Promise<string>,
  warnings: readonly Warning[],
  passthrough: boolean,
): Promise<ProviderRequest> {
  return sendBody(lowered, await body, warnings, passthrough)
}

function sendBody(
  { path, headers, toolNames }: LoweredRequest,
  body: string,
  warnings: readonly Warning[],
  passthrough: boolean,
): ProviderRequest {
  const request = { path, headers, body, warnings, passthrough }
  return toolNames ? { ...request, toolNames } : request
}

/** Whether answers are passed through although requests are translated. */
function answersPass({ passthrough }: Outbound): boolean {
  return passthrough !== undefined && passthrough.request === undefined
}

/**
 * The client's own body for a provider of the same protocol whose row allows it; undefined if it must be translated,
 * or the gateway limits the output more tightly than the client.
 */
function forwardedBody({
  call: { request },
  candidate: { provider },
  outbound,
  target,
  outputBound,
  mayPass,
}: Lowering): LoweredRequest | undefined {
  if (!mayPass || provider.clientBody !== 'forwarded' || request.translated === true) return undefined
  if (outputBound !== request.envelope.maxOutputTokens) return undefined
  const { searches } = request.envelope
  return outbound.passthrough?.request?.(request.body, target, provider.ignores ?? [], searches)
}

/** The client's request without the fields of its own protocol, for a provider of another. */
function requestFor({ inbound, request }: IncomingCall, outbound: Outbound): Asked {
  const asked = request.toChatRequest()
  return inbound.id === outbound.id || !inbound.forOtherProtocols
    ? { request: asked, warnings: noWarnings }
    : inbound.forOtherProtocols(asked)
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
