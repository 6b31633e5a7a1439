// A whole answer that cannot be written down was delivered to nobody: its call is not charged.

import { expect, test } from 'bun:test'
import { openHold } from '../../src/chat/billing/hold.ts'
import type { Outcome } from '../../src/chat/call.ts'
import { jsonResponse } from '../../src/chat/streaming/respond.ts'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { Delivered } from '../../src/conversation/delivered.ts'
import { noUsage } from '../../src/conversation/usage.ts'
import { usd } from '../../src/credits/money.ts'
import { openStore } from '../../src/store/open.ts'
import { grantOf } from '../credits/support.ts'
import { tempDir } from '../support/tmp.ts'
import { callOf, partsOf } from './parts.ts'
import { candidateOf } from './support.ts'

const usage = { ...noUsage, input: 12, output: 4 }
const outcome: Outcome = {
  ending: 'finished',
  fault: undefined,
  usage,
  delivered: new Delivered(),
  finishReason: 'stop',
  upstreamId: 'up_1',
  stoppedBy: undefined,
}

/** Deeper than the runtime can write. */
function abyss(): Json {
  let value: Json = []
  for (let depth = 0; depth < 100_000; depth++) value = [value]
  return value
}

test.each<[string, () => JsonObject, 'voided' | 'settled']>([
  ['that can be written is charged', () => ({ id: 'a' }), 'settled'],
  ['that is too deep to be written is not charged', () => ({ id: 'a', deep: abyss() }), 'voided'],
  [
    'that cannot be made is not charged',
    () => {
      throw new TypeError('a fault of ours')
    },
    'voided',
  ],
])('an answer %s', async (_, body, state) => {
  using dir = tempDir()
  const store = await openStore(dir.path, { clock: () => Date.now() })
  await store.ledger.grant(grantOf('g', usd(10)))
  const candidate = candidateOf('a')
  const parts = partsOf(store, [candidate.provider])
  const call = callOf({ model: 'a/m' })
  const balance = await store.ledger.balance('anna')
  const hold = await openHold(parts, call, [candidate], balance, ['purchased'])
  const response = jsonResponse(parts, call, hold, { outcome, body }, {})

  if (state === 'settled') expect(await (await response).json()).toEqual({ id: 'a' })
  else expect(await response.catch((error: unknown) => error)).toBeInstanceOf(Error)
  expect(await store.ledger.call('anna', 'call_1')).toMatchObject({ state })
  expect((await store.ledger.balance('anna')).lots.map(({ pinned }) => pinned)).toEqual([0n])
  expect(parts.ended).toHaveLength(1)
  expect(parts.inFlight.size).toBe(0)
  await store.close()
})
