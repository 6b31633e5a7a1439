// Turns the client's request into the provider's: translated, or passed through if both speak the same protocol.

import { andThen, type Awaitable, whenDone } from '../../awaitable.ts'
import type { ChatRequest, JsonObject } from '../../conversation/request.ts'
import { textSteps } from '../../json/stringify.ts'
import { errorFor, warningsFor } from '../../protocols/request/client-fields.ts'
import { withPricedOutput, withoutIgnored } from '../../protocols/parameters.ts'
import type { LoweredRequest, Outbound, Target, Warning } from '../../protocols/protocol.ts'
import type { IncomingCall } from '../call.ts'
import type { Turns } from '../streaming/turns.ts'
import { type Media, urlOf } from './inline-media.ts'
import type { Candidate } from '../routing/candidates.ts'
import { refuseUnpricedMedia } from '../billing/unpriced-media.ts'

export interface LoweringParts {
  /** Fetches images and files given by URL, for providers that take no URLs or must not fetch them. */
  readonly media: Media
  readonly turns: Turns
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
  return whenDone(
    () => lower(parts, call, candidate, outbound, target, outputBound, answer),
    (lowered) =>
      lowered.warnings.length === 0
        ? lowered
        : { ...lowered, warnings: warningsFor(lowered.warnings, fields) },
    (error) => {
      throw errorFor(error, fields)
    },
  )
}

function lower(
  parts: LoweringParts,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
  answer: 'passes' | 'translated',
): Awaitable<ProviderRequest> {
  const { provider } = candidate
  const namesAddresses = (call.request.addresses ?? []).length > 0
  const privacy = namesAddresses ? parts.media.isPrivate(provider.baseUrl) : false
  const mayPass = answer === 'passes' && call.inbound.id === outbound.id
  return andThen(privacy, (isPrivate) => {
    const forwarded =
      isPrivate || !mayPass ? undefined : forwardedBody(call, candidate, outbound, target, outputBound)
    if (forwarded)
      return andThen(written(parts, forwarded.body), (body) => ({ ...forwarded, body, passthrough: true }))
    const passthrough = mayPass && answersPass(outbound)
    return translated(parts, call, candidate, outbound, target, { outputBound, isPrivate, passthrough })
  })
}

interface Translation {
  readonly outputBound: number | undefined
  /** The provider is in a private network. */
  readonly isPrivate: boolean
  readonly passthrough: boolean
}

/** The request in the provider's protocol: what it takes of it, with its media as it can take them. */
function translated(
  parts: LoweringParts,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  { outputBound, isPrivate, passthrough }: Translation,
): Awaitable<ProviderRequest> {
  const { turns } = parts
  const { provider, model } = candidate
  let warnings: readonly Warning[] = []
  const asked = andThen(
    turns.run(() => requestFor(call, outbound)),
    (common): Awaitable<ChatRequest> => {
      const heeded = withoutIgnored(common.request, provider.ignores ?? [], provider.id)
      const priced = withPricedOutput(heeded.request, model.outputModalities)
      warnings = [...common.warnings, ...heeded.warnings, ...priced.warnings]
      const { request } = priced
      const bounded = outputBound === undefined ? request : { ...request, maxOutputTokens: outputBound }
      return withMedia(parts, call, bounded, outbound, target, isPrivate)
    },
  )
  const lowered = andThen(asked, (request) => {
    refuseUnpricedMedia(request, candidate)
    return turns.run(() => outbound.lower(request, target))
  })
  return andThen(lowered, ({ path, headers, body, warnings: lost, toolNames }) =>
    andThen(written(parts, body), (text): ProviderRequest => ({
      path,
      headers,
      body: text,
      warnings: [...warnings, ...lost.filter(({ param }) => call.request.isAdded?.(param) !== true)],
      ...(toolNames && { toolNames }),
      passthrough,
    })),
  )
}

function written({ turns }: { readonly turns: Turns }, body: JsonObject): Awaitable<string> {
  return turns.through(textSteps(body))
}

/** Whether answers are passed through although requests are translated. */
function answersPass({ passthrough }: Outbound): boolean {
  return passthrough !== undefined && passthrough.request === undefined
}

/**
 * The client's own body for a provider of the same protocol whose row allows it; undefined if it must be translated,
 * or the gateway limits the output more tightly than the client.
 */
function forwardedBody(
  { request }: IncomingCall,
  { provider }: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
): LoweredRequest | undefined {
  if (provider.clientBody !== 'forwarded' || request.translated === true) return undefined
  if (outputBound !== request.envelope.maxOutputTokens) return undefined
  const { searches } = request.envelope
  return outbound.passthrough?.request?.(request.body, target, provider.ignores ?? [], searches)
}

/** The client's request without the fields of its own protocol, for a provider of another. */
function requestFor(
  { inbound, request }: IncomingCall,
  outbound: Outbound,
): { readonly request: ChatRequest; readonly warnings: readonly Warning[] } {
  const asked = request.toChatRequest()
  const withoutOwn = inbound.id === outbound.id ? undefined : inbound.forOtherProtocols
  return withoutOwn ? withoutOwn(asked) : { request: asked, warnings: [] }
}

/**
 * The request with media that the provider can take. A provider in a private network must not fetch for a caller: it
 * would resolve names again, and could get a private address.
 */
function withMedia(
  parts: LoweringParts,
  call: IncomingCall,
  request: ChatRequest,
  outbound: Outbound,
  target: Target,
  isPrivate: boolean,
): Awaitable<ChatRequest> {
  const urls = urlsIn(request)
  return urls.length === 0 && !isPrivate
    ? request
    : withFetchedMedia(parts, call, request, outbound, target, isPrivate, urls)
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

async function withFetchedMedia(
  { media }: LoweringParts,
  call: IncomingCall,
  request: ChatRequest,
  outbound: Outbound,
  target: Target,
  isPrivate: boolean,
  urls: readonly string[],
): Promise<ChatRequest> {
  const isElsewhere = (url: string) => isPrivate && /^https?:/i.test(url) && !media.isAllowed(url)
  const mustInline = (url: string) => outbound.inlinesUrls && outbound.readsUrl?.(url, target) !== true
  if (isPrivate) {
    const others = (call.request.addresses ?? []).filter(({ url }) => !urls.includes(url))
    await Promise.all(others.map((address) => media.check(address)))
  }
  const wanted = new Set(urls.filter((url) => isElsewhere(url) || mustInline(url)))
  return wanted.size === 0 ? request : media.inline(request, (url) => wanted.has(url), call.signal)
}
