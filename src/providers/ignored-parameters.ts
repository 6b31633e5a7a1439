// Parameters of a chat request that a provider's model does not honour, so that the catalog does not list them.

import { outbounds } from '../protocols/registry.ts'
import { type Provider, withDialect } from './provider.ts'

/** By their names in chat completions. `upstream` is the model's name at the provider. */
export function ignoredParameters(
  provider: Provider,
  upstream: string,
  reasoning: boolean,
): ReadonlySet<string> {
  const { protocol, quirks, ignores = [] } = withDialect(provider, upstream)
  const outbound = outbounds[protocol]
  const full = { ...(outbound.defaultQuirks as object), ...quirks }
  const byProtocol = outbound.ignores({ model: upstream, quirks: full, reasoning })
  const ignored = new Set<string>([...byProtocol, ...ignores])
  if (ignored.has('logprobs')) ignored.add('top_logprobs')
  if (ignored.has('reasoning')) ignored.add('reasoning_effort')
  return ignored
}
