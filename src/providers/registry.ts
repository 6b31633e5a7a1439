// All known providers. A provider is a row of data; its protocol defines how to talk to it.

import type { AnthropicQuirks } from '../protocols/anthropic-messages/outbound/quirks.ts'
import type { GeminiQuirks } from '../protocols/gemini/outbound/quirks.ts'
import { keyHeader, type Provider } from './provider.ts'
import { cloudProviders } from './rows/cloud.ts'
import { hostedProviders } from './rows/hosted.ts'
import { localProviders } from './rows/local.ts'

const anthropic: Provider = {
  id: 'anthropic',
  firstParty: true,
  name: 'Anthropic',
  protocol: 'anthropic-messages',
  baseUrl: 'https://api.anthropic.com/v1',
  auth: keyHeader('x-api-key', 'ANTHROPIC_API_KEY'),
  quirks: { webSearch: true } satisfies Partial<AnthropicQuirks>,
  onDisconnect: 'cancel',
  costFrom: 'rates',
  clientBody: 'forwarded',
  transport: 'http',
  local: false,
  headers: { 'anthropic-version': '2023-06-01' },
}

const gemini: Provider = {
  id: 'gemini',
  nameInTraces: 'gcp.gemini',
  firstParty: true,
  name: 'Google Gemini',
  protocol: 'gemini',
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  auth: keyHeader('x-goog-api-key', 'GEMINI_API_KEY', 'GOOGLE_API_KEY'),
  quirks: { webSearch: true } satisfies Partial<GeminiQuirks>,
  // Google continues to generate, and bill, after a disconnect.
  onDisconnect: 'drain',
  costFrom: 'rates',
  clientBody: 'translated',
  transport: 'http',
  local: false,
  headers: {},
}

/** All of them, hosted ones first. Ids are unique; a test says so. */
export const providers: readonly Provider[] = [
  anthropic,
  gemini,
  ...cloudProviders,
  ...hostedProviders,
  ...localProviders,
]

const byId = new Map(providers.map((provider) => [provider.id, provider]))

/** The provider with this id; undefined for a custom one. */
export function providerById(id: string): Provider | undefined {
  return byId.get(id)
}
