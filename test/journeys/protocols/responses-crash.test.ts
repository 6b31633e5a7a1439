// The gateway is killed while a response is being charged: afterwards it is there exactly when it was paid for.

import { expect, test } from 'bun:test'
import type { Failpoint } from '../../../src/credits/ledger/failpoint.ts'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import { expectAudited, receiptOf, postAs } from '../../support/call-gateway.ts'
import { startWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

test.each([
  // dies when, and then it has been paid for
  ['request-sent', false],
  ['answer-read', false],
  ['settle-queued', false],
  ['end-written', false],
  ['settle-committed', true],
] as const satisfies readonly (readonly [Failpoint, boolean])[])(
  'killed at %s, a response is stored: %p',
  async (point, paid) => {
    using dir = tempDir('weir-killed-')
    const dataDir = dir.join('data')
    const doomed = await startWeir({ dataDir, env: { WEIR_TEST_FAILPOINT: `${point}:1` } })
    const asked = postAs(`${doomed.baseUrl}/responses`, doomed.key, {
      model: 'sim/echo',
      input: 'Hello, river.',
    })
    expect(await asked.catch(() => 'no answer')).toBe('no answer')
    await doomed.exited
    const [, call] = /failpoint [a-z-]+ req_([0-9a-f]{32})/.exec(doomed.output())!

    await using weir = { ...(await startWeir({ dataDir })), key: doomed.key }
    const headers = { authorization: `Bearer ${weir.key}` }
    const stored = await fetch(`${weir.baseUrl}/responses/resp_${call}`, { headers })
    expect(stored.status).toBe(paid ? 200 : 404)
    const receipt: Receipt | undefined = await receiptOf(weir, `resp_${call}`)
    expect(receipt?.ending === 'finished').toBe(paid)
    await expectAudited(weir)
  },
  30_000,
)
