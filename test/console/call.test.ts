// How long the console waits for an answer of the gateway, and what it says when there is none.

import { afterEach, beforeEach, expect, jest, spyOn, test } from 'bun:test'
import { answerWithinMs, call, faultIn, send } from '../../src/console/api/call.ts'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => {
  jest.useRealTimers()
  jest.restoreAllMocks()
})

function fetchAnswers(answer: (signal: AbortSignal) => Promise<Response>): void {
  const fetched = (_: string, { signal }: RequestInit) => answer(signal!)
  spyOn(globalThis, 'fetch').mockImplementation(fetched as unknown as typeof fetch)
}

/** Never resolves; rejects when the signal aborts, as a request does. */
const unanswered = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

/** The headers of an answer, and a body that does not end. */
const begun = async (signal: AbortSignal) => {
  const body = new ReadableStream({
    start: (stream) => signal.addEventListener('abort', () => stream.error(signal.reason)),
  })
  return new Response(body)
}

async function faultAfter(ms: number, answer: Promise<unknown>) {
  const fault = answer.then(() => undefined, faultIn)
  await Promise.resolve()
  jest.advanceTimersByTime(ms)
  return fault
}

test.each([unanswered, begun])(
  'a call ends when its time is over, whatever of its answer has come',
  async (answer) => {
    fetchAnswers(answer)
    expect(await faultAfter(answerWithinMs, call('GET', 'keys'))).toMatchObject({
      status: 0,
      code: 'no_answer',
      message: 'The gateway has not answered for 30 seconds.',
    })
  },
)

test('an act that was not answered in time may have been done, and says so', async () => {
  fetchAnswers(unanswered)
  const { message } = (await faultAfter(answerWithinMs, call('POST', 'keys', {})))!
  expect(message).toContain('It may have done what was asked')
})

test('an act that asks other servers has the time that it was given', async () => {
  fetchAnswers(unanswered)
  let ended = false
  const answer = call('POST', 'mcp-servers/wiki/test', {}, { withinMs: 120_000 }).finally(() => {
    ended = true
  })
  const fault = faultAfter(119_999, answer)
  await Promise.resolve()
  expect(ended).toBe(false)
  jest.advanceTimersByTime(1)
  expect(await fault).toMatchObject({ code: 'no_answer', message: expect.stringContaining('120 seconds') })
})

test('a stream has no limit once it has begun', async () => {
  let limit: AbortSignal | undefined
  fetchAnswers((signal) => begun((limit = signal)))
  await send('/app/v1/responses', { method: 'POST' })
  jest.advanceTimersByTime(2 * answerWithinMs)
  expect(limit?.aborted).toBe(false)
})

test('who stops a request gets no error of the gateway', async () => {
  fetchAnswers(unanswered)
  const stop = new AbortController()
  const answer = send('/app/v1/responses', { signal: stop.signal })
  stop.abort()
  await expect(answer).rejects.toMatchObject({ name: 'AbortError' })
})
