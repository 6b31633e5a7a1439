// Which answers are kept: those that are not too large, of accounts that have room.

import { expect, test } from 'bun:test'
import { Turns } from '../../src/chat/streaming/turns.ts'
import { keepResponse } from '../../src/responses/keep.ts'
import type { KeepCommand } from '../../src/responses/response-store.ts'

const answer = { id: 'resp_a', output: [{ type: 'message', text: 'y'.repeat(100) }] }

test.each([
  // text of the input, bytes it came in, stored before; kept
  [100, 150, 0, true],
  // What it came in says more than it measures: white space, or a conversation before it.
  [100, 1_000_000, 0, true],
  [900, 1_000_000, 0, false],
  [900, 950, 0, false],
  [100, 150, 9_600, true],
  [100, 1_000_000, 9_600, true],
  [100, 1_000_000, 9_900, false],
])(
  'an input of %d characters that came in %d bytes, to an account with %d stored: kept %p',
  async (length, inputBytes, before, kept) => {
    const commands: KeepCommand[] = []
    const parts = {
      responses: { keep: (command: KeepCommand) => Promise.resolve(void commands.push(command)) },
      stored: { bytes: () => before },
      responseLimits: { retentionMs: 1, storedBytes: 1_000, accountBytes: 10_000 },
      turns: new Turns(),
      log: { warn: () => undefined },
      now: () => 0,
    }
    const input = [{ type: 'message', text: 'x'.repeat(length) }]
    const queued = keepResponse(parts, { account: 'anna', requestId: 'a', input, answer, inputBytes })
    expect(queued !== undefined).toBe(kept)
    await queued
    expect(commands.map((command) => command.input.join(''))).toEqual(kept ? [JSON.stringify(input)] : [])
  },
)
