// The chain of the journal, as anybody can compute it again.

import { createHash } from 'node:crypto'
import { expect, test } from 'bun:test'
import { genesis, type HashedFields, hashOf } from '../../../src/store/ledger-rows.ts'
import { noon } from '../../credits/support.ts'

const plain: HashedFields = {
  tx: 7n,
  leg: 1,
  kind: 'settle',
  account: 'wallet:anna:purchased',
  lot: 'lot_1',
  amount: -(2n ** 62n),
  at: BigInt(noon),
}

test.each<[string, Partial<HashedFields>]>([
  ['plain fields', {}],
  ['no lot', { lot: null, account: 'provider:sim' }],
  ['a quote in an account', { account: 'wallet:"anna","lot_1":purchased' }],
  ['a backslash in a lot', { lot: 'lot\\u0041' }],
  ['a line break in a kind', { kind: 'settle\n' }],
  ['letters that are not ASCII', { account: 'wallet:änna:purchased', lot: '\u007f\u2028😀' }],
])('a line with %s hashes the line before and a JSON array of its fields', (_, wanted) => {
  const row = { ...plain, ...wanted }
  const { tx, leg, kind, account, lot, amount, at } = row
  const text = JSON.stringify([String(tx), String(leg), kind, account, lot, String(amount), String(at)])
  const previous = hashOf(genesis, plain)
  const expected = createHash('sha256')
    .update(previous.toHex() + text)
    .digest('hex')
  expect(hashOf(previous, row).toHex()).toBe(expected)
})
