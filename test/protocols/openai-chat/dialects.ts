// Targets for chat completions in the dialects of providers, and the hosts recorded.

import { defaultQuirks, type OpenAIChatQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import type { Target } from '../../../src/protocols/protocol.ts'
import { providerById } from '../../../src/providers/registry.ts'
import { targetsLike } from '../../support/conversation.ts'
import { hostsOf } from '../recorded-hosts.ts'

/** The hosts whose recordings speak chat completions, each with its dialect. */
export const chatHosts = hostsOf('openai-chat').map((host) => ({
  ...host,
  quirks: { ...defaultQuirks, ...(host.quirks as Partial<OpenAIChatQuirks>) },
}))

/** The dialect of a provider, by its row. */
export function quirksOf(id: string): OpenAIChatQuirks {
  const row = providerById(id)
  if (row === undefined) throw new Error(`no row ${id}`)
  return { ...defaultQuirks, ...(row.quirks as Partial<OpenAIChatQuirks>) }
}

/** A target for one model of a provider, with everything at rest. */
export function targetOf(
  quirks: OpenAIChatQuirks,
  fields: Partial<Target<OpenAIChatQuirks>> = {},
): Target<OpenAIChatQuirks> {
  return targetsLike({ model: 'some-model', provider: 'some-provider', quirks })(fields)
}
