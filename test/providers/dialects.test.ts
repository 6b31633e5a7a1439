// Which models of a provider are spoken to in another protocol than the rest.

import { describe, expect, test } from 'bun:test'
import { defaultQuirks } from '../../src/protocols/openai-responses/quirks.ts'
import { spokenTo } from '../../src/providers/provider.ts'
import { hostedProviders } from '../../src/providers/rows-hosted.ts'

const rowOf = (id: string) => hostedProviders.find((row) => row.id === id)!

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
    const row = rowOf(provider)
    const spoken = spokenTo(row, model)
    expect(spoken.protocol as string).toBe(protocol)
    expect({ ...spoken, protocol: row.protocol, quirks: row.quirks, passthrough: row.passthrough }).toEqual(
      row,
    )
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
