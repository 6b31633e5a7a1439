// Thought signatures, the same on both databases.

import { expect, test } from 'bun:test'
import { day, noon } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

describeOnBoth('signatures', (open) => {
  test('are recalled at once, soon after from the database, and forgotten in time', async () => {
    let now = noon
    const { signatures, execute } = await open(() => now)
    signatures.remember('call_1', 'first')
    signatures.remember('call_1', 'sig')
    signatures.remember('call_2', 'x'.repeat(300_000))
    expect(await signatures.recall('call_1')).toBe('sig')
    expect(await signatures.recall('call_2')).toBeUndefined()
    await execute(
      `INSERT INTO signature (tool_call, signature, expires_at) VALUES ('call_3','of another gateway',${noon + day}), ('call_4','old',${noon})`,
    )
    expect(await signatures.recall('call_3')).toBe('of another gateway')
    expect(await signatures.recall('call_4')).toBeUndefined()
    now = noon + 2 * day
    expect(await signatures.recall('call_5')).toBeUndefined()
  })
})
