// Accounts, keys and sessions as a worker remembers them.

import { describe, expect, test } from 'bun:test'
import type { ApiKey } from '../../../src/accounts/account.ts'
import { AccountCache } from '../../../src/serve/workers/remote-store.ts'

const key = (revokedAt: number | null): ApiKey => ({
  id: 'key1',
  account: 'anna',
  name: '',
  mode: 'live',
  group: null,
  hash: '',
  lastFour: '',
  createdAt: 0,
  expiresAt: null,
  revokedAt,
  paused: null,
  spendLimit: null,
  limitWindow: 'total',
  allowedModels: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  networks: null,
  cacheTtl: null,
  sees: 'own',
  lineage: null,
  replacedBy: null,
})

function lab() {
  let now = 0
  const asked: PromiseWithResolvers<ApiKey | undefined>[] = []
  const nobody = () => Promise.resolve(undefined)
  const known = new AccountCache(
    {
      findKey: () => {
        asked.push(Promise.withResolvers())
        return asked.at(-1)!.promise
      },
      findAccount: nobody,
      findSession: nobody,
      findStanding: nobody,
    },
    () => now,
  )
  return { known, asked, pass: (ms: number) => void (now += ms) }
}

describe('what a worker remembers', () => {
  test('is asked for once by many, and given at once for 50 ms', async () => {
    const { known, asked, pass } = lab()
    const many = [known.findKey('key1'), known.findKey('key1')]
    asked[0]!.resolve(key(null))
    expect((await Promise.all(many)).map((found) => found?.id)).toEqual(['key1', 'key1'])
    pass(49)
    expect(known.findKey('key1')).toMatchObject({ id: 'key1' })
    expect(asked).toHaveLength(1)
    pass(1)
    void known.findKey('key1')
    expect(asked).toHaveLength(2)
  })

  test('that a key is unknown is remembered as well', async () => {
    const { known, asked } = lab()
    const found = known.findKey('key1')
    asked[0]!.resolve(undefined)
    expect(await found).toBeUndefined()
    expect(known.findKey('key1')).toBeUndefined()
    expect(asked).toHaveLength(1)
  })

  test('is forgotten when it changes, and so is an answer that was on its way then', async () => {
    const { known, asked } = lab()
    const before = known.findKey('key1')
    known.clear()
    const after = known.findKey('key1')
    asked[1]!.resolve(key(7))
    expect(await after).toMatchObject({ revokedAt: 7 })
    asked[0]!.resolve(key(null))
    await before
    expect(known.findKey('key1')).toMatchObject({ revokedAt: 7 })
  })

  test('a question that failed is asked again', async () => {
    const { known, asked } = lab()
    const failed = Promise.resolve(known.findKey('key1'))
    asked[0]!.reject(new Error('gone'))
    await expect(failed).rejects.toThrow('gone')
    void known.findKey('key1')
    expect(asked).toHaveLength(2)
  })
})

test('a standing is asked for by the group and the account as they were given, and remembered', async () => {
  const asked: string[][] = []
  const nobody = () => Promise.resolve(undefined)
  const known = new AccountCache(
    {
      findKey: nobody,
      findAccount: nobody,
      findSession: nobody,
      findStanding: (group, account) => {
        asked.push([group, account])
        return Promise.resolve(undefined)
      },
    },
    () => 0,
  )
  for (const group of ['grp_lab', 'grp_lab', 'grp_lab acct_b']) await known.findStanding(group, 'acct_a')
  expect(asked).toEqual([
    ['grp_lab', 'acct_a'],
    ['grp_lab acct_b', 'acct_a'],
  ])
})
