// `npm run tenants` does the same with 200 accounts.

import { expect, test } from 'bun:test'
import { tenantsAtOnce } from './tenants.ts'

const accounts = Number(process.env['WEIR_TENANTS'] ?? 20)

test('S15 accounts with 50 calls at once each: through the gateway nobody is given what is meant for another', async () => {
  const { answered, foreign } = await tenantsAtOnce(accounts, 50)
  expect({ answered, foreign }).toEqual({ answered: accounts * 50, foreign: 0 })
}, 300_000)
