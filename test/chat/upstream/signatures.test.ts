// A protocol asks for thought signatures at once; a store across the network gives them later.

import { describe, expect, test } from 'bun:test'
import { RecalledSignatures } from '../../../src/chat/upstream/signatures.ts'

const kept: Readonly<Record<string, string>> = { one: 'sig 1', two: 'sig 2' }
const ids = ['one', 'unknown', 'two']

describe('signatures that a client has dropped', () => {
  test('are there at once where the store has them at hand', () => {
    const signatures = new RecalledSignatures({ recall: (id) => kept[id] })
    expect(ids.map(signatures.of)).toEqual(['sig 1', undefined, 'sig 2'])
    expect(signatures.areComplete).toBe(true)
  })

  test('are waited for where they come later, each asked for once', async () => {
    const asked: string[] = []
    const recall = async (id: string) => {
      asked.push(id)
      return kept[id]
    }
    const signatures = new RecalledSignatures({ recall })
    expect(ids.map(signatures.of)).toEqual([undefined, undefined, undefined])
    expect(signatures.areComplete).toBe(false)
    await signatures.load()
    expect(ids.map(signatures.of)).toEqual(['sig 1', undefined, 'sig 2'])
    expect(asked).toEqual(ids)
  })
})
