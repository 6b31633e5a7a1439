// The worker that counts tokens is found where the build has put it: without it every count would hold the loop up.

import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { postAs } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

/** The names of the process's threads, as the kernel lists them. */
function threadsOf({ pid }: RunningWeir): string[] {
  const tasks = `/proc/${pid}/task`
  return readdirSync(tasks).map((id) => readFileSync(`${tasks}/${id}/comm`, 'utf8').trim())
}

test('the executable counts tokens in a thread of its own (item 23)', async () => {
  await using weir = await startWeir()
  expect(threadsOf(weir)).not.toContain('Worker')
  const response = await postAs(`${weir.baseUrl}/estimate`, weir.key, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'river '.repeat(500) }],
  })
  const { prompt_tokens: tokens } = (await response.json()) as { prompt_tokens: { expected: number } }
  expect(tokens.expected).toBeGreaterThan(490)
  expect(tokens.expected).toBeLessThan(520)
  // One that had found no file would have ended by now, and this answer have been counted without it.
  expect(threadsOf(weir)).toContain('Worker')
}, 30_000)
