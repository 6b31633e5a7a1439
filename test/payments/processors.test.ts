// A payment processor is a class in payments/processors/ and a row in payments/top-up.ts. The compiler names what makes
// it from its settings (serve/gateway/payments.ts), the parts of its key (config/payments.ts) and its name in the
// console (pages/words.tsx); its addresses, its documentation, the guide's table and the audit follow from the row.

import { expect, test } from 'bun:test'
import { processorKeys } from '../../src/config/payments.ts'
import { externalProcessorIds } from '../../src/payments/top-up.ts'
import { api } from '../../src/http/routes.ts'

test('every processor that takes money has settings', () => {
  expect(Object.keys(processorKeys).toSorted()).toEqual(externalProcessorIds.toSorted())
})

test.each(externalProcessorIds)('messages of %p have an address that is documented', async (id) => {
  const hook = api.find(({ path }) => path === `/hooks/${id}`)
  expect((await hook?.operation?.())?.parameters).not.toBeEmpty()
})
