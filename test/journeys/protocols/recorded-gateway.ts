// Set-up of the journeys that play recorded providers behind a gateway.

import { type ChatResult, collect } from '../../../src/conversation/event.ts'
import type { ProtocolId, Target } from '../../../src/protocols/protocol.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import { type Case, framesOf, parseFrames } from '../../support/recordings.ts'

export interface RecordedProvider {
  readonly provider: string
  readonly protocol: ProtocolId
}

/**
 * A configuration, as JSON (which is YAML), in which each provider answers at `url` and serves one model,
 * `<provider>/recorded`.
 */
export function recordedConfig(
  providers: readonly RecordedProvider[],
  url: string,
  more: object = {},
): string {
  const price = { input: '3', cache_read: '0.3', cache_write: '3.75', cache_write_1h: '6', output: '15' }
  return JSON.stringify({
    local_servers: { discover: false },
    providers: Object.fromEntries(
      providers.map(({ provider, protocol }) => [
        provider,
        { protocol, base_url: url, api_key: 'recorded-provider-key-1' },
      ]),
    ),
    models: providers.map(({ provider }) => ({ id: `${provider}/recorded`, upstream: 'recorded', price })),
    ...more,
  })
}

/** The answer in a recording, read by the protocol itself. */
export function recordedAnswer(recorded: Case, protocol: ProtocolId): ChatResult {
  const outbound = outbounds[protocol]
  const target: Target = {
    model: 'recorded',
    provider: 'any',
    quirks: outbound.defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  if (!recorded.streamed) return collect(outbound.whole(recorded.response(), target))
  const body = recorded.stream()
  // Gemini asked without `alt=sse` streams one JSON array.
  const text = new TextDecoder().decode(body)
  if (text.trimStart().startsWith('[')) return collect(outbound.whole(JSON.parse(text), target))
  return collect(parseFrames(outbound.parser(target), framesOf([body])))
}
