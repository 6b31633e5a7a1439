// A protocol asks for thought signatures at once; a store across the network gives them later.

import { describe, expect, test } from 'bun:test'
import { withSignatures } from '../../../src/chat/upstream/signatures.ts'

const kept: Readonly<Record<string, string>> = { one: 'sig 1', two: 'sig 2' }

async function lowered(recall: (id: string) => string | undefined | Promise<string | undefined>) {
  let runs = 0
  const signatures = await withSignatures({ recall }, async (signatureOf) => {
    runs += 1
    return ['one', 'unknown', 'two'].map(signatureOf)
  })
  return { runs, signatures }
}

describe('signatures that a client has dropped', () => {
  test('are put in at once where the store has them at hand', async () => {
    expect(await lowered((id) => kept[id])).toEqual({ runs: 1, signatures: ['sig 1', undefined, 'sig 2'] })
  })

  test('are waited for where they come later, each asked for once', async () => {
    const asked: string[] = []
    const recall = async (id: string) => {
      asked.push(id)
      return kept[id]
    }
    expect(await lowered(recall)).toEqual({ runs: 2, signatures: ['sig 1', undefined, 'sig 2'] })
    expect(asked).toEqual(['one', 'unknown', 'two'])
  })
})
