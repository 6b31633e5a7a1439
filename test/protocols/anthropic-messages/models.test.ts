// Which generation a model's name belongs to, in all the spellings that providers use.

import { describe, expect, test } from 'bun:test'
import { prefillOfClaude, traitsOf } from '../../../src/protocols/claude/models.ts'

describe('the traits of a model', () => {
  test.each([
    // name                                          thinking     budget  schema    sampling
    ['claude-2.1', 'none', false, 'tool', 'both'],
    ['anthropic.claude-v2', 'none', false, 'tool', 'both'],
    ['claude-3-opus-20240229', 'none', false, 'tool', 'both'],
    ['anthropic.claude-3-5-haiku-20241022-v1:0', 'none', false, 'tool', 'both'],
    ['claude-3-7-sonnet-20250219', 'budget', true, 'tool', 'both'],
    ['claude-3-7-sonnet@20250219', 'budget', true, 'tool', 'both'],
    ['claude-sonnet-4-20250514', 'budget', true, 'tool', 'both'],
    ['claude-sonnet-4-0', 'budget', true, 'tool', 'both'],
    ['claude-4-sonnet', 'budget', true, 'tool', 'both'],
    ['claude-opus-4@20250514', 'budget', true, 'tool', 'both'],
    ['claude-opus-4-1-20250805', 'budget', true, 'tool', 'one'],
    ['claude-haiku-4-5-20251001', 'budget', true, 'native', 'one'],
    ['anthropic/claude-sonnet-4.5', 'budget', true, 'native', 'one'],
    ['us.anthropic.claude-opus-4-6-v1', 'adaptive', true, 'native', 'one'],
    ['claude-4.6-opus', 'adaptive', true, 'native', 'one'],
    ['claude-opus-4-7', 'adaptive', false, 'native', 'neither'],
    ['claude-opus-4-8', 'adaptive', false, 'native', 'neither'],
    ['claude-sonnet-5', 'adaptive', false, 'native', 'neither'],
    ['claude-fable-5-1', 'adaptive', false, 'native', 'neither'],
    ['kimi-k2', 'none', false, 'tool', 'both'],
  ] as const)(
    '%s: thinking %s, budget %p, schema %s, sampling %s',
    (name, thinking, takesBudget, schema, sampling) => {
      expect(traitsOf(name, false, {})).toMatchObject({ thinking, takesBudget, schema, sampling })
    },
  )

  test('of a name that is not Claude follow the catalog, and the provider row has the last word', () => {
    expect(traitsOf('kimi-k2-thinking', true, {}).thinking).toBe('budget')
    expect(traitsOf('kimi-k2-thinking', true, { thinking: 'none' }).thinking).toBe('none')
  })
})

test.each([
  ['claude-3-5-haiku-20241022', 'rest'],
  ['claude-sonnet-4-5', 'rest'],
  ['anthropic.claude-opus-4-5-20251101-v1:0', 'rest'],
  ['claude-opus-4-6', undefined],
  ['claude-sonnet-5', undefined],
  ['minimax-m2', undefined],
] as const)('%s goes on with an answer that is begun for it: %p', (model, answer) => {
  expect(prefillOfClaude(model)).toBe(answer)
})
