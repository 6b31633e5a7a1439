import { describe, expect, test } from 'bun:test'
import { bundledCatalog } from '../../src/catalog/bundled/bundled.ts'
import { parseModelId } from '../../src/catalog/row.ts'
import { NearIds } from '../../src/catalog/catalog.ts'
import { asGatewayError } from '../../src/errors/errors.ts'

function codeOf(act: () => unknown) {
  try {
    act()
  } catch (thrown) {
    return asGatewayError(thrown)
  }
  return undefined
}

describe('a model id', () => {
  test.each([
    ['openai/gpt-4o', 'openai', 'gpt-4o'],
    ['openrouter/meta-llama/llama-4', 'openrouter', 'meta-llama/llama-4'],
    ['bedrock/anthropic.claude-opus-4-5-20251101-v1:0', 'bedrock', 'anthropic.claude-opus-4-5-20251101-v1:0'],
    ['cf/@cf/meta/llama', 'cf', '@cf/meta/llama'],
    ['my-lab.2/x', 'my-lab.2', 'x'],
  ])('%s is split at the first slash', (id, provider, name) => {
    expect(parseModelId(id)).toEqual({ provider, name })
  })

  test.each([
    '',
    'gpt-4o',
    '/gpt-4o',
    'openai/',
    '/',
    'open ai/x',
    'openai/gpt 4',
    'openai/a\nb',
    'openai/a\u0000',
    ' openai/x',
    '../x',
    `openai/${'x'.repeat(300)}`,
  ])('%p is refused as malformed', (id) => {
    const error = codeOf(() => parseModelId(id))
    expect(error?.code).toBe('invalid_model_id')
    expect(error?.details.param).toBe('model')
  })

  test('without its provider is answered with the whole id', () => {
    const known = new NearIds(['openai/gpt-4o', 'mistral/codestral'])
    const error = codeOf(() => parseModelId('gpt-4o', (id) => known.nearest(id)))
    expect(error?.message).toContain('Did you mean openai/gpt-4o?')
    expect(error?.details.metadata?.nearest).toEqual(['openai/gpt-4o'])
  })
})

describe('nearest ids', () => {
  const known = new NearIds([...bundledCatalog().models.map((model) => model.id), 'sim/echo'])

  test.each([
    ['openai/gpt4o-mini', 'openai/gpt-4o-mini'],
    ['openai/gpt-4o-mni', 'openai/gpt-4o-mini'],
    ['OpenAI/GPT-4o', 'openai/gpt-4o'],
    ['anthropic/claude-haiku-4.5', 'anthropic/claude-haiku-4-5'],
    ['google/gemini-2.5-pro', 'gemini/gemini-2.5-pro'],
    ['groq/llama-3.3-70b', 'groq/llama-3.3-70b-versatile'],
  ])('of %s include %s', (wanted, id) => {
    expect(known.nearest(wanted)).toContain(id)
  })

  test('of an id with two neighbouring letters swapped include it, wherever in it', () => {
    expect(known.nearest('sim/ehco')[0]).toBe('sim/echo')
    expect(known.nearest('ehco')).toContain('sim/echo')
    const missed: string[] = []
    // Every fourth place of an id, each model beginning with another one.
    for (const [index, { id }] of bundledCatalog().models.entries()) {
      for (let at = 1 + (index % 4); at < id.length; at += 4) {
        const swapped = id.slice(0, at - 1) + id[at]! + id[at - 1]! + id.slice(at + 1)
        // A slash in another place is another name.
        if (swapped === id || swapped.indexOf('/') !== id.indexOf('/') || known.nearest(swapped).includes(id))
          continue
        missed.push(swapped)
      }
    }
    expect(missed.length / bundledCatalog().models.length).toBeLessThan(0.025)
    const short = new NearIds(['xai', 'ai21', 'groq', 'a'])
    expect(['xia', 'a2i1', 'rgoq'].map((name) => short.nearest(name)[0])).toEqual(['xai', 'ai21', 'groq'])
  })

  test('are none for what resembles nothing', () => {
    expect(known.nearest('qqq/zzzzzzzzzz')).toEqual([])
    expect(known.nearest('')).toEqual([])
  })

  test('are only those that are known now', () => {
    const [nearest] = known.nearest('openai/gpt-4o-mni')
    expect(nearest).toBe('openai/gpt-4o-mini')
    expect(known.nearest('openai/gpt-4o-mni', (id) => id !== nearest)).not.toContain(nearest)
  })

  test('cost little, for clients that ask for the same again and again', () => {
    const took = Array.from({ length: 40 }, (_, at) => {
      const start = performance.now()
      known.nearest(`openai/gpt-5-turbo-${at}`)
      return performance.now() - start
    })
    // Comparing with every id anew took 1.2 ms.
    expect(Math.min(...took)).toBeLessThan(0.4)
  })

  test('take a bounded time, however long the id and hostile its letters', () => {
    const hostile = 'openai/' + '-4'.repeat(50_000)
    known.nearest('openai/warm-up')
    const took = [1, 2, 3, 4, 5].map(() => {
      const start = performance.now()
      known.nearest(hostile)
      return performance.now() - start
    })
    // 5 ms is the aim on an idle core; the bound leaves room for a busy machine.
    expect(Math.min(...took)).toBeLessThan(20)
  })
})
