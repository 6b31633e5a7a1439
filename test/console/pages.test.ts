// Every page in both themes, on a screen and on a phone: accessible, no wider than the screen, without a fault, and
// without asking anybody else for anything.

import { describe, expect, test } from 'bun:test'
import { openedConsole } from './opened.ts'
import { faultsOf } from './page-faults.ts'
import { browserPath, clean, seen } from './visitor.ts'

const own = [
  '',
  'keys',
  'credits',
  'credits/top-up',
  'usage',
  'requests',
  'models',
  'chat',
  'mcp',
  'connect',
  'settings',
  'settings/webhooks',
]
const payments = ['/payments', '/payments/messages', '/payments/vouchers', '/payments/subscriptions']
const operators = [
  '',
  '/accounts',
  ...payments,
  '/providers',
  '/catalog',
  '/ledger',
  '/keys',
  '/acts',
  '/settings',
]

describe.skipIf(browserPath === null)('every page', () => {
  const console = openedConsole()

  test.each([
    ['of an account', own],
    ['of an operator', operators.map((path) => `operator${path}`)],
  ] as const)(
    '%s is accessible in both themes and both widths',
    async (_, addresses) => {
      const visit = await console.visit()
      await console.signIn(visit.page)
      const faults: string[] = []
      for (const address of addresses) faults.push(...(await faultsOf(visit.page, address)))
      expect({ faults, ...seen(visit) }).toEqual({ faults: [], ...clean })
      await visit.context.close()
    },
    150_000,
  )
})
