// Which answers are kept: those that are not too large, of accounts that have room.

import { expect, test } from 'bun:test'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { keepResponse } from '../../src/responses/keep.ts'
import type { KeepCommand } from '../../src/responses/response-store.ts'

const answerOf = (text: string) => ({ id: 'resp_a', output: [{ type: 'message', text }] })
const short = 'y'.repeat(100)

test.each([
  // text of the input, bytes it came in, stored before, text of the answer; kept
  [100, 150, 0, short, true],
  // What it came in says more than it measures: white space, or a conversation before it.
  [100, 1_000_000, 0, short, true],
  [900, 1_000_000, 0, short, false],
  [900, 950, 0, short, false],
  [100, 150, 9_600, short, true],
  [100, 1_000_000, 9_600, short, true],
  [100, 1_000_000, 9_900, short, false],
  [100, 150, 0, 'y'.repeat(700), true],
  [100, 150, 0, 'é'.repeat(350), true],
  [100, 150, 0, 'é'.repeat(700), false],
  [100, 150, 0, '木'.repeat(350), false],
  [100, 150, 0, 'y'.repeat(1_100), false],
])(
  'an input of %d characters that came in %d bytes, to an account with %d stored, answered %.3s: kept %p',
  async (length, inputBytes, before, text, kept) => {
    const commands: KeepCommand[] = []
    const parts = {
      responses: { keep: (command: KeepCommand) => Promise.resolve(void commands.push(command)) },
      stored: { bytes: () => before },
      responseLimits: { retentionMs: 1, storedBytes: 1_000, accountBytes: 10_000 },
      scheduler: new Scheduler(),
      log: { warn: () => undefined },
      now: () => 0,
    }
    const input = [{ type: 'message', text: 'x'.repeat(length) }]
    const answer = answerOf(text)
    const queued = keepResponse(parts, {
      account: 'anna',
      requestId: 'a',
      conversation: undefined,
      input,
      answer,
      inputBytes,
    })
    expect(queued !== undefined).toBe(kept)
    await queued
    expect(commands.map((command) => command.input.join(''))).toEqual(kept ? [JSON.stringify(input)] : [])
  },
)
