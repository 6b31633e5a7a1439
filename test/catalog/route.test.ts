// Names of the operator's own: routes in front of several models, aliases, names without a provider, what is offered.

import { describe, expect, test } from 'bun:test'
import { modelObject } from '../../src/catalog/wire.ts'
import { faultsOf, loaded } from '../config/inputs.ts'
import { catalogOf, override, row } from './support.ts'

const rows = [
  row('a/small', { price: { input: '1', output: '2' }, context_length: 1000, input: ['text', 'image'] }),
  row('b/large', { price: { input: '10', output: '40' }, context_length: 8000 }),
  row('openai/gpt-9'),
  row('anthropic/claude-9'),
  row('a/twin'),
  row('b/twin'),
]

const fast = override({ id: 'fast', route: { to: ['a/small', { model: 'b/large', weight: 3 }] } })

describe('a route', () => {
  const catalog = catalogOf(rows, { overrides: [fast] })

  test('is a model that promises what every member keeps, at the dearest price', () => {
    const model = catalog.resolve('fast')
    expect(model).toMatchObject({
      id: 'fast',
      contextLength: 1000,
      inputModalities: ['text'],
      route: {
        pick: 'weight',
        members: [
          { id: 'a/small', weight: 1 },
          { id: 'b/large', weight: 3 },
        ],
      },
    })
    expect(modelObject(model)).toMatchObject({
      pricing: { prompt: '0.00001', completion: '0.00004' },
      route: {
        pick: 'weight',
        pricing: {
          prompt: { from: '0.000001', to: '0.00001' },
          completion: { from: '0.000002', to: '0.00004' },
        },
      },
    })
    expect(catalog.resolve('fast')).toBe(model)
  })

  test('is listed, counted and found like any other model', () => {
    expect(catalog.list().map(({ id }) => id)).toContain('fast')
    expect(catalog.count()).toBe(rows.length + 1)
    expect(catalog.list({ provider: 'b' }).map(({ id }) => id)).toContain('fast')
    expect(catalog.list({ servedBy: new Set(['b']) }).map(({ id }) => id)).toContain('fast')
    expect(catalog.list({ servedBy: new Set(['openai']) }).map(({ id }) => id)).not.toContain('fast')
    expect(() => catalog.resolve('fsat')).toThrow('fast')
  })

  test('is found by protocols that put their own provider before names without one', () => {
    expect(catalog.resolve('anthropic/fast').id).toBe('fast')
  })

  test('may lead to routes, and whatever leads to a model is known', () => {
    const nested = catalogOf(rows, {
      overrides: [fast, override({ id: 'best', route: { to: ['openai/gpt-9', 'fast'] } })],
    })
    expect(nested.routesTo('b/large')).toEqual(['fast', 'best'])
    expect(nested.routesTo('openai/gpt-9')).toEqual(['best'])
    expect(nested.resolve('best').offers).toHaveLength(3)
  })

  test('whose members are not sold is not sold, and says which they are', () => {
    const none = catalogOf(rows, { overrides: [override({ id: 'gone', route: { to: ['a/none'] } })] })
    expect(() => none.resolve('gone')).toThrow('none of a/none is sold')
  })
})

test.each([
  ['an alias', { aliases: { gpt: 'openai/gpt-9' } }, 'gpt', 'openai/gpt-9'],
  ['an alias of a route', { aliases: { quick: 'fast' }, overrides: [fast] }, 'quick', 'fast'],
  ['an alias in place of a model', { aliases: { 'a/small': 'b/large' } }, 'a/small', 'b/large'],
  ['a maker', { firstParty: new Set(['openai', 'anthropic']) }, 'claude-9', 'anthropic/claude-9'],
])('%s names a model', (_, more, name, id) => {
  expect(catalogOf(rows, more).resolve(name).id).toBe(id)
})

test('a name without a provider is nobody’s where several makers have it, or where it is not asked for', () => {
  const several = catalogOf(rows, { firstParty: new Set(['a', 'b']) })
  expect(() => several.resolve('twin')).toThrow('provider/model_name')
  expect(() => catalogOf(rows).resolve('gpt-9')).toThrow('provider/model_name')
})

test('what is not offered is neither listed nor served by itself, and still a member', () => {
  const catalog = catalogOf(rows, { overrides: [fast], offered: (id) => id === 'fast' })
  expect(catalog.list().map(({ id }) => id)).toEqual(['fast'])
  expect(() => catalog.resolve('a/small')).toThrow('does not offer it')
  expect(catalog.find('a/small')).toBeUndefined()
  expect(catalog.member('a/small')?.id).toBe('a/small')
})

describe('the configuration', () => {
  test('of a route takes ids and weights', () => {
    const { models, aliases } = loaded({
      yaml: 'models: [{ id: fast, route: { to: [sim/echo, { model: sim/fast, weight: 2 }], pick: order } }]\naliases: { gpt: sim/echo }',
    }).config
    expect(models).toMatchObject([{ id: 'fast', route: { pick: 'order' } }])
    expect(aliases).toEqual({ gpt: 'sim/echo' })
  })

  test.each([
    [
      'a route that leads to itself',
      'models: [{ id: a, route: { to: [a] } }]',
      'leads back to itself: a → a',
    ],
    [
      'two that lead to each other',
      'models: [{ id: a, route: { to: [b] } }, { id: b, route: { to: [sim/echo, a] } }]',
      'leads back to itself: a → b → a',
    ],
    [
      'a loop by an alias',
      'models: [{ id: a, route: { to: [b] } }]\naliases: { b: a }',
      'leads back to itself: a → b → a',
    ],
    ['an alias of itself', 'aliases: { b: c, c: b }', 'leads back to itself: b → c → b'],
    ['a price of a route', 'models: [{ id: a, price: free, route: { to: [sim/echo] } }]', 'is of the models'],
    ['a model without a provider', 'models: [{ id: a, price: free }]', 'provider/model_name'],
    ['an unknown pick', 'models: [{ id: a, route: { to: [sim/echo], pick: best } }]', 'pick'],
    ['no member', 'models: [{ id: a, route: { to: [] } }]', 'to'],
  ])('refuses %s', (_, yaml, problem) => {
    expect(faultsOf({ yaml }).join('\n')).toContain(problem)
  })
})
