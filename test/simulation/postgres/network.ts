// The connections of simulated processes to the simulated server: statements and answers are under way for a while, in their
// order, and a connection that is cut leaves behind what was sent. Part of it may still arrive, much later.

import type { Value } from '../../../src/store/sql/work.ts'
import type { ConnectionOptions, LedgerConnection } from '../../../src/store/postgres/connection.ts'
import type { Random } from '../random.ts'
import type { Scheduler } from '../scheduler.ts'
import { blocked, serverError, Session, type SimulatedServer } from './server.ts'
import type { System } from './system.ts'

/** The owner of what happens between the processes. */
const network = 'network'
/** How long a statement waits for the lock of another one, milliseconds. */
const lockTimeoutMs = 4_000
/** How long a server keeps the transaction of somebody who is gone. */
const idleTransactionMs = 2_000
/** How late something may arrive that was sent before a connection was cut. */
const mostLateMs = 20_000
/** Refusals of a server that has trouble, or is in the middle of others' transactions. */
const troubles = ['40P01', '40001', '55P03', '57014', '53100'] as const

interface Sent {
  readonly text: string
  readonly values: readonly Value[]
  /** The answer, or what it was refused with; for nobody where the connection was cut. */
  readonly answer: PromiseWithResolvers<never>
  waitsSince: number | undefined
}

/** A connection between a process and the server. */
class Link {
  readonly owner: string
  readonly session: Session
  /** What has not arrived, and what was not answered. */
  readonly wire: Sent[] = []
  readonly waiting = new Set<Sent>()
  /** They arrive in the order of the statements. */
  readonly answers: (() => void)[] = []
  isCut = false
  isPumping = false

  constructor(owner: string, session: Session) {
    this.owner = owner
    this.session = session
  }
}

export interface NetworkParts {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly system: System
  readonly tell: (line: () => string) => void
}

export class Network {
  readonly #parts: NetworkParts
  readonly #server: SimulatedServer
  readonly #links = new Set<Link>()
  /** Nobody reaches the server. */
  isDown = false
  /** The server does nothing until then, on the scheduler's clock. */
  frozenUntil = 0
  /** Of so many statements one is refused for no fault of its own; 0: none. */
  troubleEvery = 0

  constructor(parts: NetworkParts, server: SimulatedServer) {
    this.#parts = parts
    this.#server = server
  }

  /** A connection of a process. `acknowledged` is told of each group whose answer has reached it. */
  connectionOf(
    owner: string,
    acknowledged: (text: string, values: readonly Value[], answer: unknown) => void,
  ) {
    return ({ deadlineMs }: ConnectionOptions): LedgerConnection => {
      const { ConnectionLost } = this.#parts.system
      let link: Link | undefined
      const lost = (why: string) => new ConnectionLost(why)
      const open = async () => {
        const ms = this.#parts.random.below(3)
        await new Promise((resolve) => setTimeout(resolve, ms))
        if (this.isDown) throw lost('refused')
        link = new Link(owner, this.#server.connect())
        this.#links.add(link)
      }
      const close = async () => {
        if (link) this.#cut(link)
        link = undefined
      }
      const connection: LedgerConnection = {
        open,
        close,
        get session() {
          return link
        },
        get isOpen() {
          return link !== undefined
        },
        async renew() {
          void close()
          await open()
        },
        renewFrom: () => connection.renew(),
        send: async <Answer>(text: string, given?: readonly Value[]) => {
          const values = given ?? []
          if (!link) throw lost('not connected')
          if (link.isCut) throw lost('cut')
          const sent: Sent = { text, values, answer: Promise.withResolvers(), waitsSince: undefined }
          const { wire, waiting } = link
          wire.push(sent)
          waiting.add(sent)
          this.#pump(link)
          const timer = setTimeout(() => sent.answer.reject(lost('no answer')), deadlineMs)
          try {
            const answer: readonly Answer[] = await sent.answer.promise
            acknowledged(text, values, answer)
            return answer
          } finally {
            waiting.delete(sent)
            clearTimeout(timer)
          }
        },
      }
      return connection
    }
  }

  /** Carries the next statement of a link to the server, when nothing of it is under way. */
  #pump(link: Link, inMs = this.#parts.random.below(4)): void {
    if (link.isPumping) return
    link.isPumping = true
    this.#parts.scheduler.later(network, inMs, () => {
      link.isPumping = false
      this.#arrive(link)
    })
  }

  #arrive(link: Link): void {
    const { scheduler, random } = this.#parts
    const [next] = link.wire
    if (!next) {
      if (link.isCut) this.#forget(link)
      return
    }
    if (this.frozenUntil > scheduler.now) return this.#pump(link, this.frozenUntil - scheduler.now)
    const carried = this.#carryOut(link, next)
    if (carried === blocked) return this.#pump(link, 1 + random.below(50))
    link.wire.shift()
    this.#pump(link, random.below(2))
    if (link.isCut) return
    link.answers.push(() => {
      if ('refused' in carried) next.answer.reject(carried.refused)
      else next.answer.resolve(carried.rows as never)
    })
    scheduler.later(link.owner, random.below(3), () => {
      const answer = link.answers.shift()!
      if (!link.isCut) answer()
    })
  }

  #carryOut({ session, owner }: Link, sent: Sent) {
    const { scheduler, random, tell } = this.#parts
    const { text, values } = sent
    try {
      const isPlain = text === 'BEGIN' || text === 'ROLLBACK' || text === 'COMMIT'
      if (this.troubleEvery > 0 && !isPlain && random.oneIn(this.troubleEvery)) {
        this.#server.fail(session)
        throw serverError(random.pick(troubles))
      }
      const rows = this.#server.execute(session, text, values)
      if (rows !== blocked) {
        tell(() => `${owner}: ${text.replaceAll(/\s+/g, ' ').slice(0, 60)} ${shown(values)} → ${shown(rows)}`)
        return { rows }
      }
      sent.waitsSince ??= scheduler.now
      if (scheduler.now - sent.waitsSince < lockTimeoutMs) return blocked
      this.#server.fail(session)
      throw serverError('55P03')
    } catch (refused) {
      if (!('errno' in (refused as object))) throw refused
      tell(
        () =>
          `${owner}: ${text.slice(0, 40)} is refused with ${String((refused as { errno: string }).errno)}`,
      )
      return { refused }
    }
  }

  /**
   * The process hears nothing more. What it had sent is lost from some point on, and what is before that arrives, sooner or
   * later.
   */
  #cut(link: Link): void {
    if (link.isCut) return
    const { random, system, scheduler } = this.#parts
    link.isCut = true
    scheduler.later(link.owner, 0, () => {
      for (const { answer } of link.waiting) answer.reject(new system.ConnectionLost('cut'))
    })
    link.wire.splice(random.below(link.wire.length + 1))
    if (link.wire.length === 0) {
      // The server notices at once that it is gone, or keeps its transaction for a while.
      scheduler.later(network, random.oneIn(2) ? 0 : idleTransactionMs, () => this.#forget(link))
    } else if (!link.isPumping) this.#pump(link, random.below(random.oneIn(2) ? 10 : mostLateMs))
  }

  #forget(link: Link): void {
    this.#server.disconnect(link.session)
    this.#links.delete(link)
  }

  /** Cuts a connection of a process, or all of it. */
  cut(owner: string, all: boolean): void {
    const links = [...this.#links].filter((link) => link.owner === owner && !link.isCut)
    if (links.length === 0) return
    for (const link of all ? links : [this.#parts.random.pick(links)]) this.#cut(link)
  }

  /** The server is gone with all that was on its way; a pooler keeps the connections on which nothing was. */
  loseServer(isPooled: boolean): void {
    for (const link of this.#links) {
      if (isPooled && link.wire.length === 0) continue
      this.#cut(link)
      link.wire.splice(0)
    }
  }
}

function shown(value: unknown): string {
  return (
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? `${item}` : item)) ?? ''
  ).slice(0, 400)
}
