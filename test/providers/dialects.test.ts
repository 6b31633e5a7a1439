// Which models of a provider are spoken to in another protocol than the rest.

import { describe, expect, test } from 'bun:test'
import { defaultQuirks } from '../../src/protocols/openai-responses/outbound/quirks.ts'
import { configureProvider, type ProviderOverride, withDialect } from '../../src/providers/provider.ts'
import { hostedProviders } from '../../src/providers/rows/hosted.ts'

const said: ProviderOverride = { api_key: ['key'], headers: {}, quirks: {}, disabled: false }

/** The provider as it is called: configured, at an address of the operator's where `base_url` is given. */
function configured(id: string, more: Partial<ProviderOverride> = {}) {
  const row = hostedProviders.find((each) => each.id === id)
  return configureProvider(id, row, { ...said, ...more })
}

const elsewhere = { base_url: 'https://models.company.example/openai/v1' }

describe('a model', () => {
  test.each([
    // provider  model                       protocol
    ['openai', 'gpt-4o', 'openai-chat'],
    ['openai', 'gpt-4.1-mini', 'openai-chat'],
    ['openai', 'gpt-4o-search-preview', 'openai-chat'],
    ['openai', 'gpt-audio', 'openai-chat'],
    ['openai', 'gpt-5-chat-latest', 'openai-chat'],
    ['openai', 'gpt-5.2-chat-latest', 'openai-chat'],
    ['openai', 'gpt-5-search-api', 'openai-chat'],
    ['openai', 'o1-mini', 'openai-chat'],
    ['openai', 'o1-preview-2024-09-12', 'openai-chat'],
    ['openai', 'o1', 'openai-responses'],
    ['openai', 'o1-pro', 'openai-responses'],
    ['openai', 'o3-mini', 'openai-responses'],
    ['openai', 'o4-mini-2025-04-16', 'openai-responses'],
    ['openai', 'gpt-5', 'openai-responses'],
    ['openai', 'gpt-5-2025-08-07', 'openai-responses'],
    ['openai', 'gpt-5.3-codex', 'openai-responses'],
    ['openai', 'gpt-6-sol', 'openai-responses'],
    ['openai', 'codex-mini-latest', 'openai-responses'],
    ['azure', 'gpt-5-mini', 'openai-responses'],
    ['azure', 'deepseek-v4-pro', 'openai-chat'],
    ['azure', 'gpt-4.1', 'openai-chat'],
    ['xai', 'grok-3', 'openai-chat'],
    ['xai', 'grok-3-mini', 'openai-chat'],
    ['xai', 'grok-4-fast-non-reasoning', 'openai-chat'],
    ['xai', 'grok-4-1-fast-non-reasoning-latest', 'openai-chat'],
    ['xai', 'grok-4-fast-reasoning', 'openai-responses'],
    ['xai', 'grok-4.3', 'openai-responses'],
    ['xai', 'grok-code-fast-1', 'openai-responses'],
    ['groq', 'openai/gpt-oss-20b', 'openai-chat'],
  ] as const)('%s/%s is spoken to in %s', (provider, model, protocol) => {
    for (const row of [configured(provider), configured(provider, elsewhere)]) {
      const spoken = withDialect(row, model)
      expect(spoken.protocol as string).toBe(protocol)
      expect({ ...spoken, protocol: row.protocol, quirks: row.quirks, clientBody: row.clientBody }).toEqual(
        row,
      )
    }
  })

  test('at an address that serves nothing else is spoken to in the protocol of its row', () => {
    const plain = configured('azure', { ...elsewhere, quirks: { dialects: false } })
    expect(withDialect(plain, 'gpt-5').protocol).toBe('openai-chat')
  })

  test('has no dialect where the operator names another protocol', () => {
    const changed = configured('openai', { ...elsewhere, protocol: 'openai-responses' })
    expect(changed.dialects).toBeUndefined()
  })

  test('keeps the quirks that the operator sets', () => {
    const quirks = { bodyExtras: { user: 'company' } }
    const spoken = withDialect(configured('azure', { ...elsewhere, quirks }), 'gpt-5')
    expect(spoken.quirks).toMatchObject({ ...quirks, reasoningFormat: 'azure-openai-responses-v1' })
  })
})

test('a dialect names only quirks that its protocol has', () => {
  const dialects = hostedProviders.flatMap((row) => row.dialects ?? [])
  expect(dialects.length).toBeGreaterThan(0)
  for (const { protocol, quirks } of dialects) {
    expect(protocol).toBe('openai-responses')
    expect(Object.keys(defaultQuirks)).toEqual(expect.arrayContaining(Object.keys(quirks)))
  }
})
