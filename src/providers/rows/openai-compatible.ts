// A row for a provider that speaks chat completions: defaults are filled in, a row only says what differs.

import { defaultQuirks, type OpenAIChatQuirks } from '../../protocols/openai-chat/outbound/quirks.ts'
import type { Auth, Provider } from '../provider.ts'

export type OpenAIChatProvider = Provider & { readonly quirks: Partial<OpenAIChatQuirks> }

/** Required of every row: id, name and address. The rest has a default. */
export type OpenAIChatRow = Pick<Provider, 'id' | 'name' | 'baseUrl' | 'auth'> &
  Partial<Omit<OpenAIChatProvider, 'protocol'>>

/**
 * A chat-completions provider. Unless the row says otherwise, a disconnect cancels the call, tokens are priced by the
 * catalog, and frames for clients of the same protocol are repaired.
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

/** `Authorization: Bearer` with the key from the first of these environment variables that is set. */
export function bearer(...env: readonly string[]): Auth {
  return { kind: 'bearer', env }
}

export function keyHeader(header: string, ...env: readonly string[]): Auth {
  return { kind: 'header', header, env }
}

/** For providers without a fixed address: the operator sets `providers.<id>.base_url`. */
export const noFixedAddress = ''

/** Fields that are dropped for every provider except OpenAI, plus these. */
export function alsoDrops(...fields: OpenAIChatQuirks['drops']): OpenAIChatQuirks['drops'] {
  return [...defaultQuirks.drops, ...fields]
}
