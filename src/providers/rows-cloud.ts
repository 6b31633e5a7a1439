// Hosts that speak protocols of their own: Cohere, and the clouds of Amazon and Google.

import { bearer } from './openai-compatible.ts'
import type { Provider } from './provider.ts'

const usual = {
  quirks: {},
  onDisconnect: 'cancel',
  costFrom: 'rates',
  passthrough: 'repair',
  transport: 'http',
  local: false,
  headers: {},
} as const satisfies Partial<Provider>

const cohere: Provider = {
  ...usual,
  id: 'cohere',
  name: 'Cohere',
  protocol: 'cohere',
  baseUrl: 'https://api.cohere.com/v2',
  auth: bearer('COHERE_API_KEY', 'CO_API_KEY'),
}

export const cloudProviders: readonly Provider[] = [cohere]
