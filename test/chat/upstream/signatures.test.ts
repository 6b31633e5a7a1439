// A protocol asks for thought signatures at once; a store across the network gives them later.

import { describe, expect, test } from 'bun:test'
import { remembering, signatureKey, withSignatures } from '../../../src/chat/upstream/thoughts.ts'

const owner = { account: 'acct_1', line: 'line_1', provider: 'a' }
const called = (id: string) => ({ id, name: 'look' })
const keyOf = (id: string) => signatureKey(owner, called(id))
const kept: Readonly<Record<string, string>> = { [keyOf('one')]: 'sig 1', [keyOf('two')]: 'sig 2' }

async function lowered(recall: (key: string) => string | undefined | Promise<string | undefined>) {
  let runs = 0
  const signatures = await withSignatures({ recall }, owner, async (signatureOf) => {
    runs += 1
    return ['one', 'unknown', 'two'].map((id) => signatureOf(called(id)))
  })
  return { runs, signatures }
}

describe('signatures that a client has dropped', () => {
  test('are put in at once where the store has them at hand', async () => {
    expect(await lowered((key) => kept[key])).toEqual({ runs: 1, signatures: ['sig 1', undefined, 'sig 2'] })
  })

  test('are waited for where they come later, each asked for once', async () => {
    const asked: string[] = []
    const recall = async (key: string) => {
      asked.push(key)
      return kept[key]
    }
    expect(await lowered(recall)).toEqual({ runs: 2, signatures: ['sig 1', undefined, 'sig 2'] })
    expect(asked).toEqual(['one', 'unknown', 'two'].map(keyOf))
  })
})

describe('the key of a signature', () => {
  const call = called('call_0')

  test('is what it is remembered by', () => {
    const memory = new Map<string, string>()
    remembering({ remember: (key, signature) => void memory.set(key, signature) }, owner)(call, 'sig')
    expect([...memory]).toEqual([[signatureKey(owner, call), 'sig']])
  })

  test('is short, however long the id', () => {
    expect(signatureKey(owner, called('x'.repeat(10_000)))).toHaveLength(22)
  })

  test.each([
    ['another account', { ...owner, account: 'acct_2' }, call],
    ['another provider', { ...owner, provider: 'b' }, call],
    ['another call', owner, called('call_1')],
    ['a call of another function by that id', owner, { ...call, name: 'listen' }],
    ['an id with parts of the scope in it', { ...owner, provider: '' }, called('a","look","call_0')],
  ])('is another one for %s', (_, of, other) => {
    expect(signatureKey(of, other)).not.toBe(signatureKey(owner, call))
  })
})
