// A row for a provider that speaks chat completions: what is usual is filled in, a row says what is not.

import { defaultQuirks, type OpenAIChatQuirks } from '../../protocols/openai-chat/outbound/quirks.ts'
import type { Auth, Provider } from '../provider.ts'

export type OpenAIChatProvider = Provider & { readonly quirks: Partial<OpenAIChatQuirks> }

/** What every such row must say: its id, its name, its address. The rest has a default. */
export type OpenAIChatRow = Pick<Provider, 'id' | 'name' | 'baseUrl' | 'auth'> &
  Partial<Omit<OpenAIChatProvider, 'protocol'>>

/**
 * A chat-completions provider. Unless the row says otherwise: a hang-up cancels the call, tokens are priced by the
 * catalog, and frames are mended on their way to clients of the same protocol.
 */
export function openaiCompatible(row: OpenAIChatRow): OpenAIChatProvider {
  return {
    protocol: 'openai-chat',
    onDisconnect: 'cancel',
    costFrom: 'rates',
    clientBody: 'translated',
    transport: 'http',
    local: false,
    headers: {},
    ...row,
    quirks: row.quirks ?? {},
  }
}

/** `Authorization: Bearer`, the key under the first of these environment names that is set. */
export function bearer(...env: readonly string[]): Auth {
  return { kind: 'bearer', env }
}

export function keyHeader(header: string, ...env: readonly string[]): Auth {
  return { kind: 'header', header, env }
}

/** For providers without a fixed address: the operator sets `providers.<id>.base_url`. */
export const toBeConfigured = ''

/** Fields that are dropped for every provider except OpenAI, plus these. */
export function alsoDrops(...fields: OpenAIChatQuirks['drops']): OpenAIChatQuirks['drops'] {
  return [...defaultQuirks.drops, ...fields]
}
