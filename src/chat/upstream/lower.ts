// Turns the client's request into the provider's: translated, or passed through if both speak the same protocol.

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
  try {
    const lowered = await lower(parts, call, candidate, outbound, target, outputBound, answer)
    return { ...lowered, warnings: warningsFor(lowered.warnings, fields) }
  } catch (error) {
    throw errorFor(error, fields)
  }
}

async function lower(
  parts: LoweringParts,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
  answer: 'passes' | 'translated',
): Promise<ProviderRequest> {
  const { provider } = candidate
  const namesAddresses = (call.request.addresses ?? []).length > 0
  const isPrivate = namesAddresses && (await parts.media.isPrivate(provider.baseUrl))
  const mayPass = answer === 'passes' && call.inbound.id === outbound.id
  const forwarded =
    isPrivate || !mayPass ? undefined : forwardedBody(call, candidate, outbound, target, outputBound)
  if (forwarded) return { ...forwarded, body: await written(parts, forwarded.body), passthrough: true }
  const common = await parts.turns.run(() => requestFor(call, outbound))
  const heeded = withoutIgnored(common.request, provider.ignores ?? [], provider.id)
  const { request: asked, warnings: unpriced } = withPricedOutput(
    heeded.request,
    candidate.model.outputModalities,
  )
  const bounded: ChatRequest = outputBound === undefined ? asked : { ...asked, maxOutputTokens: outputBound }
  const request = await withMedia(parts, call, bounded, outbound, target, isPrivate)
  refuseUnpricedMedia(request, candidate)
  const { turns } = parts
  const {
    path,
    headers,
    body,
    warnings: lost,
    toolNames,
  } = await turns.run(() => outbound.lower(request, target))
  return {
    path,
    headers,
    body: await written(parts, body),
    warnings: [...common.warnings, ...heeded.warnings, ...unpriced, ...lost],
    ...(toolNames && { toolNames }),
    passthrough: mayPass && answersPass(outbound),
  }
}

function written({ turns }: { readonly turns: Turns }, body: JsonObject): string | Promise<string> {
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
async function withMedia(
  { media }: LoweringParts,
  call: IncomingCall,
  request: ChatRequest,
  outbound: Outbound,
  target: Target,
  isPrivate: boolean,
): Promise<ChatRequest> {
  const isElsewhere = (url: string) => isPrivate && /^https?:/i.test(url) && !media.isAllowed(url)
  const mustInline = (url: string) => outbound.inlinesUrls && outbound.readsUrl?.(url, target) !== true
  const urls = request.messages.flatMap(({ content }) => content.flatMap((part) => urlOf(part) ?? []))
  if (isPrivate) {
    const others = (call.request.addresses ?? []).filter(({ url }) => !urls.includes(url))
    await Promise.all(others.map((address) => media.check(address)))
  }
  const wanted = new Set(urls.filter((url) => isElsewhere(url) || mustInline(url)))
  return wanted.size === 0 ? request : media.inline(request, (url) => wanted.has(url), call.signal)
}
