// What a worker serves by: the store, the limits and what else there is once, in the ledger's process.

import { LRUCache } from 'lru-cache'
import type { InFlight } from '../../chat/in-flight.ts'
import { GatewayError } from '../../errors.ts'
import { isRateLimited, type LimitedCaller, type RequestLimits } from '../../http/intake/paid/limits.ts'
import type { CallStore, CountingLimiter } from '../gateway/serving.ts'
import type { Mcp } from '../gateway/mcp.ts'
import type { AppParts } from '../../http/parts.ts'
import { KnownAccounts } from './known-accounts.ts'
import type { Link } from './link/link.ts'
import type { LedgerAnswers, LedgerHears } from './protocol.ts'

export type LedgerLink = Pick<Link<LedgerAnswers, LedgerHears>, 'ask' | 'tell' | 'congested'>

export interface Remote {
  readonly store: CallStore
  readonly limiter: CountingLimiter
  readonly freeCredit: AppParts['freeCredit']
  readonly mcpServer: Mcp['registered']
  /** A hold is durable, by the number it was started with. */
  holdDurable(number: number): void
  /** Accounts, keys or sessions have changed. */
  forget(): void
}

const rememberedAccounts = 10_000
/** How many prices are known to have been sent, and for how long; one that is sent twice is recorded once. */
const rememberedPrices = { max: 10_000, ttl: 60_000 }

export interface RemoteParts {
  /** Counts the requests of this process. */
  readonly inFlight: InFlight
  readonly limits: RequestLimits
  /** Milliseconds. */
  readonly clock: () => number
}

/** Everything rejects with `store_unavailable` when the ledger's process has gone. */
export function remoteOf(link: LedgerLink, { inFlight, limits, clock }: RemoteParts): Remote {
  const accounts = new KnownAccounts(
    {
      findKey: (id) => link.ask('findKey', id),
      findAccount: (idOrEmail) => link.ask('findAccount', idOrEmail),
      findSession: (id) => link.ask('findSession', id),
    },
    clock,
  )
  const holds = new Holds()
  return {
    store: {
      accounts,
      identities: { touchSession: (...given) => link.ask('touchSession', ...given) },
      ledger: remoteLedger(link, holds),
      idempotency: {
        claim: (command) => link.ask('claim', command),
        keep: (claim, answer) => link.ask('keepAnswer', claim, answer),
        finish: ({ account, key, call }) => link.ask('finish', { account, key, call }),
      },
      responses: remoteResponses(link),
      signatures: {
        remember: (id, signature) => link.tell('rememberSignature', id, signature),
        recall: (id) => link.ask('recallSignature', id).catch(() => undefined),
      },
      ended: {
        append: (row) => link.tell('callEnded', row),
        appendRefused: (row, model) => link.tell('callRefused', row, model),
      },
    },
    limiter: remoteLimiter(link, inFlight, limits),
    freeCredit: { ensure: (account) => link.ask('freeCredit', account) },
    mcpServer: async (account, name) => {
      const { url, headers, token } = await link.ask('mcpServer', account, name)
      const server = { url, headers: new Headers(headers.map(([header, value]) => [header, value])) }
      if (token === undefined) return server
      return { ...server, refused: (challenge) => link.ask('mcpRefused', account, name, token, challenge) }
    },
    holdDurable: (number) => holds.durable(number),
    forget: () => accounts.forget(),
  }
}

/** Holds that are decided, and perhaps not durable yet. */
class Holds {
  #last = 0
  readonly #waiting = new Map<number, () => void>()

  /** A new number, and what resolves when its hold is durable. */
  begin(): { readonly number: number; readonly durable: Promise<void> } {
    const number = ++this.#last
    const { promise: durable, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(number, resolve)
    return { number, durable }
  }

  durable(number: number): void {
    this.#waiting.get(number)?.()
    this.#waiting.delete(number)
  }
}

function remoteLedger(link: LedgerLink, holds: Holds): CallStore['ledger'] {
  const sent = new LRUCache<string, true>(rememberedPrices)
  return {
    async startHold(command) {
      const { number, durable } = holds.begin()
      try {
        return { result: await link.ask('startHold', command, number), durable }
      } catch (error) {
        // Nothing is held, so nobody waits for it.
        holds.durable(number)
        throw error
      }
    },
    extend: (call, owner, more) => link.ask('extend', call, owner, more),
    checkpoint: (command) => link.ask('checkpoint', command),
    settle: (command) => link.ask('settle', command),
    release: (command) => link.ask('release', command),
    balance: (account) => link.ask('balance', account),
    keySpend: (key, windowStart) => link.ask('keySpend', key, windowStart),
    recordPrice(version, model, price) {
      const name = `${version} ${model}`
      if (sent.has(name)) return
      sent.set(name, true)
      link.tell('recordPrice', version, model, price)
    },
  }
}

function remoteResponses(link: LedgerLink): CallStore['responses'] {
  /** Bytes that were sent to be kept, by account, since this process knows of it. */
  const sent = new LRUCache<string, number>({ max: rememberedAccounts })
  return {
    find: (account, id) => link.ask('findResponse', account, id),
    conversation: (account, id, maxBytes) => link.ask('conversation', account, id, maxBytes),
    keep(command) {
      const { account, input, answer } = command
      let bytes = sent.get(account) ?? 0
      for (const piece of [...input, ...answer]) bytes += Buffer.byteLength(piece)
      sent.set(account, bytes)
      return link.ask('keepResponse', command)
    },
    async stored(account) {
      // What was sent before the question is in its answer.
      const before = sent.get(account) ?? 0
      const bytes = await link.ask('storedBytes', account)
      return { bytes: () => bytes + Math.max(0, (sent.get(account) ?? 0) - before) }
    },
  }
}

function remoteLimiter(link: LedgerLink, inFlight: InFlight, limits: RequestLimits): CountingLimiter {
  return {
    async enter(caller, requestId) {
      if (link.congested) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
      // It is in flight from now on: a process that drains must not end before it.
      inFlight.enter(requestId, caller.account.id)
      await link.ask('enter', limitedBy(caller), requestId)
    },
    leave: (requestId) => inFlight.leave(requestId),
    headers: (caller) => (isRateLimited(limits, caller) ? link.ask('limitHeaders', limitedBy(caller)) : {}),
    spentTokens: (key, tokens) => link.tell('spentTokens', key, tokens),
  }
}

function limitedBy({ account, key }: LimitedCaller): LimitedCaller {
  if (key === null) return { account: { id: account.id }, key }
  const { id, lineage, requestsPerMinute, tokensPerMinute } = key
  return { account: { id: account.id }, key: { id, lineage, requestsPerMinute, tokensPerMinute } }
}
