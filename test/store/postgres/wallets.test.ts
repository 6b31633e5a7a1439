// What a process on PostgreSQL has in memory of wallets and keys, where an answer comes late.

import { expect, test } from 'bun:test'
import type { LedgerConnection } from '../../../src/store/postgres/connection.ts'
import { KnownWallets, keysText, walletsText } from '../../../src/store/postgres/wallets.ts'

test('the figures of a key that come after the wallet beside them was refused are not kept', async () => {
  const figures = (held: bigint) => [{ key: 'k', relative: 'k', days: null, held }]
  const late = Promise.withResolvers<unknown>()
  const wallet = { account: 'anna', version: 1n, at: 0n, debt: 0n, line: null }
  const answers = new Map<string, (() => Promise<unknown>)[]>([
    [
      walletsText,
      [
        () => Promise.reject(new Error('a lock was waited for')),
        () => Promise.resolve([{ ...wallet, allowance: null, lots: null, calls: null }]),
      ],
    ],
    [keysText, [() => late.promise, () => Promise.resolve(figures(700n))]],
  ])
  const send = (text: string) => answers.get(text)!.shift()!()
  const connection = { send } as unknown as LedgerConnection
  const call = { key: 'k', keyLimit: { limit: 1_000n, windowStart: 0 }, inGroup: null }
  const need = { account: 'anna', call: 'c', ...call }

  const wallets = new KnownWallets()
  expect(await wallets.load(connection, [need]).catch(String)).toBe('Error: a lock was waited for')
  late.resolve(figures(0n))
  await Bun.sleep(0)
  // Meanwhile another process holds something.
  await wallets.load(connection, [need])
  expect(wallets.spendOf(call)).toEqual({ spent: 0n, held: 700n })
})
