// Streams the account's running calls as events, checked twice a second, without contents.

import { sessionFault } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import type { LiveCall } from '../../chat/call.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log.ts'
import type { LiveCallView } from './answers.ts'
import { type ConsoleRoute, iso, ownRoute } from './route.ts'

const lookEveryMs = 500
const keepaliveMs = 15_000
/** Limit of streams per account; each is checked every half second. */
const mostStreams = 10
/** Calls per event; the newest if there are more. */
const mostCalls = 100
/** Then the browser reconnects, which checks its session again. */
const longestMs = 10 * 60_000

export const liveRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'live', summary: 'Its calls in flight, as events whenever they change' },
    ({ parts, account, request, session }) => {
      const headers = {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      }
      // The answer to HEAD would not come before the end of the events.
      if (request.method === 'HEAD') return new Response(null, { headers })
      const { inFlight } = parts.chat
      const endWatch = inFlight.watch(account.id, mostStreams)
      if (!endWatch)
        throw new GatewayError('rate_limit_exceeded', {
          message: `An account watches its calls in at most ${mostStreams} places at once.`,
          retryAfterMs: 5_000,
        })
      parts.keepOpen(request)
      const isOver = async () => {
        const now = await parts.accounts.findSession(session.id)
        const owner = await parts.accounts.findAccount(account.id)
        return (
          !parts.ready() || !now || sessionFault(now, parts.now()) !== undefined || owner?.suspended !== false
        )
      }
      const onEnd = () => {
        endWatch()
        parts.closeWhenIdle(request)
      }
      const events = liveEvents({
        callsNow: () => parts.callsOf(account.id),
        isOver,
        ended: onEnd,
        signal: request.signal,
        log: parts.log,
      })
      return new Response(events, { headers })
    },
  ),
]

export interface LiveWatch {
  readonly callsNow: () => Awaitable<readonly Readonly<LiveCall>[]>
  readonly isOver: () => Promise<boolean>
  readonly ended: () => void
  readonly signal: AbortSignal
  readonly log: Pick<Log, 'warn'>
}

/**
 * Ends when `isOver`, when the reader disconnects, after ten minutes, and when the calls cannot be looked up, which the
 * log says: the browser connects again.
 */
export function liveEvents({ callsNow, isOver, ended, signal, log }: LiveWatch): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let timer: ReturnType<typeof setInterval> | undefined
  let last = ''
  let seen: readonly LiveCallView[] = []
  const began = performance.now()
  let saidAt = began
  const end = () => {
    if (timer === undefined) return
    clearInterval(timer)
    timer = undefined
    ended()
  }
  return new ReadableStream({
    start(controller) {
      const close = () => {
        if (timer === undefined) return
        end()
        controller.close()
      }
      const say = (text: string) => {
        // A slow reader misses events; each event is complete.
        if ((controller.desiredSize ?? 0) <= 0) return false
        controller.enqueue(encoder.encode(text))
        saidAt = performance.now()
        return true
      }
      const look = async () => {
        const over = await isOver().catch(() => true)
        const now = await callsNow()
        if (timer === undefined) return
        if (over || performance.now() - began > longestMs) return close()
        const calls = now.slice(-mostCalls).map(callView)
        const here = new Set(calls.map(({ id }) => id))
        const settled = seen
          .filter(({ id, phase }) => phase !== 'settled' && !here.has(id))
          .map((call) => ({ ...call, phase: 'settled' as const }))
        const data = JSON.stringify({ calls: [...settled, ...calls] })
        if (data !== last && say(`event: calls\ndata: ${data}\n\n`)) {
          last = data
          seen = calls
        } else if (performance.now() - saidAt > keepaliveMs) say(': still here\n\n')
      }
      const lookOrClose = () =>
        void look().catch((error: unknown) => {
          if (timer !== undefined) log.warn('the calls in flight could not be looked up', { error })
          close()
        })
      timer = setInterval(lookOrClose, lookEveryMs)
      signal.addEventListener('abort', close, { once: true })
      lookOrClose()
    },
    cancel: end,
  })
}

function callView(call: Readonly<LiveCall>): LiveCallView {
  return {
    id: call.id,
    model: call.model,
    key: call.key,
    channel: call.channel,
    phase: call.phase,
    started_at: iso(call.startedAt),
    first_byte_ms: call.firstByteMs,
    output_tokens: call.outputTokens,
    hold: formatUsd(call.hold),
  }
}
