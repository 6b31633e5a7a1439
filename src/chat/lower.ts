// The provider's request for the client's: translated, or passed through when both speak the same protocol.

import type { ChatRequest, ContentPart, Message } from '../conversation/request.ts'
import { withPricedOutput, withoutIgnored } from '../protocols/parameters.ts'
import type { Outbound, Target, Warning } from '../protocols/protocol.ts'
import type { Gateway, IncomingCall } from './gateway.ts'
import { nativeMessages, passesThrough } from './passthrough.ts'
import type { Candidate } from './plan.ts'

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
  const { provider } = candidate
  const native = nativeMessages(call.inbound.id, provider, call.request, target, outputBound)
  if (native) return { ...native, warnings: [], passthrough: true }
  const { request: told, warnings: untold } = requestFor(call, outbound)
  const { request: heard, warnings: ignored } = withoutIgnored(told, provider.ignores ?? [], provider.id)
  const { request: asked, warnings: unpriced } = withPricedOutput(heard, candidate.model.outputModalities)
  const bounded: ChatRequest = outputBound === undefined ? asked : { ...asked, maxOutputTokens: outputBound }
  const request = outbound.inlinesUrls
    ? await withInlineMedia(gateway, call, bounded, outbound, target)
    : bounded
  const { path, headers, body, warnings: lost, toolNames } = outbound.lower(request, target)
  return {
    path,
    headers,
    body: JSON.stringify(body),
    warnings: [...untold, ...ignored, ...unpriced, ...lost],
    ...(toolNames && { toolNames }),
    passthrough: passesThrough(call.inbound.id, provider),
  }
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

async function withInlineMedia(
  gateway: Gateway,
  call: IncomingCall,
  request: ChatRequest,
  outbound: Outbound,
  target: Target,
): Promise<ChatRequest> {
  const mustInline = (part: ContentPart) => {
    const url = urlOf(part)
    return url !== undefined && outbound.readsUrl?.(url, target) !== true
  }
  const inline = (part: ContentPart, param: string) =>
    mustInline(part) ? gateway.inlineMedia(part, param, call.signal) : part
  const messages = await Promise.all(
    request.messages.map(async (message, at): Promise<Message> => {
      if (!message.content.some(mustInline)) return message
      const content = await Promise.all(
        message.content.map((part, index) => inline(part, `messages[${at}].content[${index}]`)),
      )
      return { ...message, content }
    }),
  )
  return { ...request, messages }
}

function urlOf(part: ContentPart): string | undefined {
  const carriesMedia = part.kind === 'image' || part.kind === 'file' || part.kind === 'video'
  return carriesMedia && part.source.kind === 'url' ? part.source.url : undefined
}
