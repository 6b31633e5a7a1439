// Secrets at rest: opened by whoever has the key, for the row they belong to, and by nobody else.

import { expect, test } from 'bun:test'
import { sealer } from '../../src/accounts/account.ts'
import { faultsOf, loaded } from '../config/inputs.ts'

const [old, fresh] = ['old-master-key-0123456789abcdefghij', 'new-master-key-0123456789abcdefghij'] as const
const secret = 'a token — with ünicode'

test('what is sealed is opened again, and no two sealings are the same', () => {
  const { seal, open } = sealer([old])
  const sealed = seal(secret, 'row 1')
  expect(open(sealed, 'row 1')).toBe(secret)
  expect(Buffer.from(sealed).includes('token')).toBe(false)
  expect(seal(secret, 'row 1')).not.toEqual(sealed)
  expect(open(seal('', 'row 1'), 'row 1')).toBe('')
})

test('S16 a sealed secret that is moved to another row, changed or cut cannot be opened', () => {
  const { seal, open } = sealer([old])
  const sealed = seal(secret, 'row 1')
  expect(open(sealed, 'row 2')).toBeUndefined()
  for (let at = 0; at < sealed.length; at++) {
    const changed = Uint8Array.from(sealed)
    changed[at]! ^= 1
    expect(open(changed, 'row 1')).toBeUndefined()
    expect(open(sealed.subarray(0, at), 'row 1')).toBeUndefined()
  }
})

test('S16 a key is replaced by putting the new one in front of it', () => {
  const before = sealer([old]).seal(secret, 'row')
  const both = sealer([fresh, old])
  expect(both.open(before, 'row')).toBe(secret)
  const after = both.seal(secret, 'row')
  expect(sealer([fresh]).open(after, 'row')).toBe(secret)
  expect(sealer([old]).open(after, 'row')).toBeUndefined()
  expect(sealer([fresh]).open(before, 'row')).toBeUndefined()
})

test.each(['short', 'change-me', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'])(
  'S16 a gateway does not start with %p as its master key',
  (key) => {
    expect(faultsOf({ yaml: `secrets: { master_key: "${key}" }` }).length).toBeGreaterThan(0)
  },
)

test('there is no master key until somebody sets one', () => {
  expect(loaded({}).config.secrets.master_key).toEqual([])
})
