// Models of local servers: their ids, their price, what is known of them.

import { describe, expect, test } from 'bun:test'
import { cleanName, type ListedModel, localModels } from '../../src/catalog/catalog.ts'
import { catalogOf } from './support.ts'

const named = (name: string, more: Partial<ListedModel> = {}): ListedModel => ({
  name,
  embeds: false,
  ...more,
})
const catalog = (models: readonly ListedModel[], price?: { input: string; output: string }) =>
  catalogOf(localModels('ollama', models, '2026-06-15', price), { providersKnown: new Set(['ollama']) })

describe('models of local servers', () => {
  test('are free, because servers on this machine are', () => {
    const model = catalog([named('hf.co/x/y')]).resolve('ollama/hf.co/x/y')
    expect(model.offers[0]).toMatchObject({
      provider: 'ollama',
      upstream: 'hf.co/x/y',
      price: { rates: { output: 0n } },
    })
    expect(model.flashClass).toBe(true)
  })

  test('cost what the configuration says', () => {
    const sold = catalog([named('llama3.2:latest')], { input: '1', output: '2' })
    expect(sold.resolve('ollama/llama3.2:latest').offers[0]!.price.rates.output).toBe(2_000_000n)
  })

  test('have the length that their server says, and embed where it says so', () => {
    const known = catalog([named('a', { contextLength: 8_192 }), named('b', { embeds: true })])
    expect(known.resolve('ollama/a')).toMatchObject({ contextLength: 8_192, outputModalities: ['text'] })
    expect(known.resolve('ollama/b')).toMatchObject({
      contextLength: undefined,
      outputModalities: ['embeddings'],
    })
  })

  test('whose files have the same name are told apart, and each is called by its own', () => {
    const names = ['/a/qwen.gguf', '/b/qwen.gguf', 'qwen', ' ', '/', 'x'.repeat(200)]
    const rows = localModels(
      'llamacpp',
      names.map((name) => named(name)),
      '2026-06-15',
    )
    expect(rows.map(({ id, upstream }) => [id, upstream])).toEqual([
      ['llamacpp/qwen', '/a/qwen.gguf'],
      ['llamacpp/qwen-2', '/b/qwen.gguf'],
      ['llamacpp/qwen-3', 'qwen'],
      ['llamacpp/-', ' '],
    ])
  })
})

test.each([
  ['llama3.2:latest', 'llama3.2:latest'],
  ['Qwen/Qwen3-32B', 'Qwen/Qwen3-32B'],
  ['hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M', 'hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M'],
  ['/models/Qwen3-8B-Q4_K_M.gguf', 'Qwen3-8B-Q4_K_M'],
  ['../models/gemma-3.gguf', 'gemma-3'],
  ['gemma-3.GGUF', 'gemma-3'],
  ['C:\\Users\\ada\\models\\phi-4.gguf', 'phi-4'],
  ['~/models/phi-4', 'phi-4'],
  ['/data/Meta-Llama-3/', 'Meta-Llama-3'],
  ['/models/big-00001-of-00003.gguf', 'big'],
  ['TheBloke/phi-3-GGUF/phi-3.Q4_K_M.gguf', 'phi-3.Q4_K_M'],
  ['/home/ada/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/0a1b2c', 'Qwen/Qwen3-8B'],
  ['/models/my model.gguf', 'my-model'],
])('%s is sold as %s', (name, clean) => {
  expect(cleanName(name)).toBe(clean)
})
