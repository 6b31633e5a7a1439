// The provider's request for the client's: translated, or passed through when both speak the same protocol.

import type { ChatRequest } from '../../conversation/request.ts'
import { errorFor, warningsFor } from '../../protocols/client-fields.ts'
import { withPricedOutput, withoutIgnored } from '../../protocols/parameters.ts'
import type { LoweredRequest, Outbound, Target, Warning } from '../../protocols/protocol.ts'
import type { Gateway } from '../gateway.ts'
import type { IncomingCall } from '../call.ts'
import { urlOf } from './inline-media.ts'
import type { Candidate } from '../routing/candidates.ts'
import { refuseUnpricedMedia } from '../billing/unpriced-media.ts'

export interface Lowered {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** JSON text. */
  readonly body: string
  readonly warnings: readonly Warning[]
  readonly toolNames?: Readonly<Record<string, string>>
  /** The answer's frames are the client's own protocol. */
  readonly passthrough: boolean
}

/**
 * The request as this candidate's provider wants it, its output bounded to `outputBound` tokens where that is given.
 * Rejects with `unsupported_parameter` or `url_not_allowed` for what the provider cannot be sent.
 */
export async function loweredFor(
  gateway: Gateway,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
): Promise<Lowered> {
  const { fields } = call.request
  try {
    const lowered = await lower(gateway, call, candidate, outbound, target, outputBound)
    return { ...lowered, warnings: warningsFor(lowered.warnings, fields) }
  } catch (error) {
    throw errorFor(error, fields)
  }
}

async function lower(
  gateway: Gateway,
  call: IncomingCall,
  candidate: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
): Promise<Lowered> {
  const { provider } = candidate
  const namesAddresses = (call.request.addresses ?? []).length > 0
  const isPrivate = namesAddresses && (await gateway.media.isPrivate(provider.baseUrl))
  const forwarded = isPrivate ? undefined : forwardedBody(call, candidate, outbound, target, outputBound)
  if (forwarded) return { ...forwarded, body: JSON.stringify(forwarded.body), passthrough: true }
  const { request: told, warnings: untold } = await gateway.turns.run(() => requestFor(call, outbound))
  const { request: heard, warnings: ignored } = withoutIgnored(told, provider.ignores ?? [], provider.id)
  const { request: asked, warnings: unpriced } = withPricedOutput(heard, candidate.model.outputModalities)
  const bounded: ChatRequest = outputBound === undefined ? asked : { ...asked, maxOutputTokens: outputBound }
  const request = await withMedia(gateway, call, bounded, outbound, target, isPrivate)
  refuseUnpricedMedia(request, candidate)
  const { turns } = gateway
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
    body: await turns.run(() => JSON.stringify(body)),
    warnings: [...untold, ...ignored, ...unpriced, ...lost],
    ...(toolNames && { toolNames }),
    passthrough: call.inbound.id === outbound.id && answersPass(outbound),
  }
}

/** Whether every answer passes, although requests are translated. */
function answersPass({ passthrough }: Outbound): boolean {
  return passthrough !== undefined && passthrough.request === undefined
}

/**
 * The client's own body for a provider of its protocol whose row lets it through; undefined where it has to be
 * translated, or where the gateway bounds the output more tightly than the client does.
 */
function forwardedBody(
  { inbound, request }: IncomingCall,
  { provider }: Candidate,
  outbound: Outbound,
  target: Target,
  outputBound: number | undefined,
): LoweredRequest | undefined {
  if (inbound.id !== outbound.id || provider.clientBody !== 'forwarded') return undefined
  if (outputBound !== request.envelope.maxOutputTokens) return undefined
  return outbound.passthrough?.request?.(request.body, target, provider.ignores ?? [])
}

/** The client's request, as far as it can be told to a provider of this protocol. */
function requestFor(
  { inbound, request }: IncomingCall,
  outbound: Outbound,
): { readonly request: ChatRequest; readonly warnings: readonly Warning[] } {
  const asked = request.toChatRequest()
  const abroad = inbound.id === outbound.id ? undefined : inbound.abroad
  return abroad ? abroad(asked) : { request: asked, warnings: [] }
}

/**
 * The request with its media as the provider can take them. A provider in a private network fetches nothing for a
 * caller: it would look names up again, and another answer may then be a private address.
 */
async function withMedia(
  { media }: Gateway,
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
