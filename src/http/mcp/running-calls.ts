// Running calls of tools by clients of the protocol before 2026-07: they cancel one by a request of its own, which names
// it by its id. Ids count from 0 in every client, so each has a session of its own; nothing else is kept of it. The request
// may come to another gateway, which notes it where this one looks.

import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import type { SharedSightings } from '../../accounts/identity/sign-in-limits.ts'
import { atMost, repeat } from '../../async/async.ts'

/** Of more than this, the oldest can no longer be cancelled. */
const mostRunning = 10_000

/** Characters; ours are UUIDs. */
const longestSession = 64

const requestId = z.union([z.string().max(256), z.number()])
const cancelled = z.object({
  method: z.literal('notifications/cancelled'),
  params: z.object({ requestId }),
})
const called = z.object({ method: z.literal('tools/call'), id: requestId })
const initialized = z.object({ method: z.literal('initialize') })

export const sessionHeader = 'mcp-session-id'

export interface RunningCall {
  /** Aborts when the work for the message is to end. */
  readonly signal: AbortSignal
  /** To be called when it has ended. */
  end(): void
}

/** What other gateways are told through; `now` in milliseconds since 1970. */
interface Others {
  readonly sightings: Pick<SharedSightings, 'see' | 'seenOf'>
  readonly now: () => number
  readonly log: { warn(message: string, fields: Readonly<Record<string, unknown>>): void }
}

const cancels = 'cancelled'
/** How often it is looked for what other gateways were told, while calls run, milliseconds. */
const lookEveryMs = 250
/** A client cancels what it has asked for; clocks of gateways may differ by this, milliseconds. */
const apartMs = 60_000

interface Asker {
  readonly account: string
  readonly line: string
  readonly session: string | null
  readonly gone: AbortSignal
}

export class RunningCalls {
  readonly #running = new LRUCache<string, AbortController>(atMost(mostRunning))
  readonly #others: Others | undefined
  #looking: { stop(): void } | undefined

  /** `others` is left out where there are none. */
  constructor(others?: Others) {
    this.#others = others
  }

  /**
   * What ends the work for this message: its client's disconnection, or a later message of the session that cancels it.
   * Such a message is carried out here. `session` is what the client sent as its session, `account` and `line` whose
   * key it has.
   */
  begin(message: unknown, { account, line, session, gone }: Asker): RunningCall {
    const alone = { signal: gone, end: () => undefined }
    if (session === null || session.length > longestSession) return alone
    const keyOf = (id: string | number) => JSON.stringify([account, line, session, id])
    const end = cancelled.safeParse(message)
    if (end.success) this.#cancel(keyOf(end.data.params.requestId))
    const call = called.safeParse(message)
    if (!call.success) return alone
    const key = keyOf(call.data.id)
    const controller = new AbortController()
    this.#running.set(key, controller)
    this.#watch()
    return {
      signal: AbortSignal.any([gone, controller.signal]),
      // Its signal would keep alive whatever listens to it: all of the call.
      end: () => {
        if (this.#running.peek(key) === controller) this.#running.delete(key)
        this.#watch()
      },
    }
  }

  #cancel(key: string): void {
    const here = this.#running.get(key)
    if (here) return here.abort()
    const { sightings, now, log } = this.#others ?? {}
    sightings?.see(cancels, key, now!(), now!()).catch((error: unknown) => {
      log!.warn('other gateways could not be told that a call is cancelled', { error })
    })
  }

  /** Looks for what other gateways were told, while there is something to cancel. */
  #watch(): void {
    if (this.#others === undefined) return
    if (this.#running.size === 0) {
      this.#looking?.stop()
      this.#looking = undefined
    } else
      this.#looking ??= repeat(
        lookEveryMs,
        () => this.#look(this.#others!),
        () => undefined,
      )
  }

  /** While the database is away nobody can be told, either. */
  async #look({ sightings, now }: Others): Promise<void> {
    for (const key of await sightings.seenOf(cancels, [...this.#running.keys()], now() - apartMs))
      this.#running.get(key)?.abort()
  }
}

/** Names a new session in the answer to a client that begins one. */
export function withSession(message: unknown, response: Response): Response {
  if (initialized.safeParse(message).success && response.ok)
    response.headers.set(sessionHeader, crypto.randomUUID())
  return response
}
