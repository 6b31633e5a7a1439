// A worker's access to the store, the limits and everything else that exists once, in the ledger's process.

import { LRUCache } from 'lru-cache'
import type { Account, AccountStore, ApiKey, Session } from '../../accounts/account.ts'
import type { GroupStanding } from '../../accounts/group.ts'
import { atMost, type Awaitable, ShortLivedMap } from '../../async/async.ts'
import type { InFlight } from '../../chat/in-flight.ts'
import type { AnswersByProvider, SharedProbes } from '../../chat/routing/health.ts'
import { MonthlyCredit } from '../../credits/monthly-credit.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isRateLimited, type LimitedCaller, type RequestLimits } from '../../http/intake/paid/limits.ts'
import type { ServingParts } from '../../http/parts.ts'
import type { CallStore, CountingLimiter } from '../gateway/serving.ts'
import type { Mcp } from '../gateway/tools.ts'
import type { Link } from './link.ts'
import type { LedgerNotifications, LedgerRequests } from './protocol.ts'

type LedgerLink = Pick<Link<LedgerRequests, LedgerNotifications>, 'request' | 'notify' | 'congested'>

export interface Remote {
  readonly store: CallStore
  readonly limiter: CountingLimiter
  readonly probes: SharedProbes
  readonly freeCredit: ServingParts['freeCredit']
  readonly onKeyUsed: (key: string, network: string) => void
  readonly monthlyCredit: ServingParts['monthlyCredit']
  readonly mcpServer: Mcp['registered']
  /** What providers have answered all processes in the last hour. */
  readonly lastHour: () => Promise<AnswersByProvider>
  /** The hold with this number in `startHold` is durable. */
  holdDurable(number: number): void
  /** Cached accounts, keys and sessions may be out of date. */
  accountsChanged(): void
  /** Sends what has been counted and not been sent. */
  sendCounts(): void
}

const rememberedAccounts = 10_000
/** A price that was sent is not sent again for a while. Sending it twice does no harm: it is recorded once. */
const rememberedPrices = { ...atMost(10_000), ttl: 60_000 }

/**
 * All methods reject with `store_unavailable` if the ledger's process has died. `inFlight` counts the requests of this
 * process; `clock` is in milliseconds and never goes back.
 */
export function remoteOf(
  link: LedgerLink,
  inFlight: InFlight,
  limits: () => RequestLimits,
  clock: () => number,
): Remote {
  const accounts = new AccountCache(
    {
      findKey: (id) => link.request('findKey', id),
      findAccount: (idOrEmail) => link.request('findAccount', idOrEmail),
      findSession: (id) => link.request('findSession', id),
      findStanding: (group, account) => link.request('findStanding', group, account),
    },
    clock,
  )
  const holds = new Holds()
  const counts = new Counts((refusals, loopDelays) => link.notify('addCounts', refusals, loopDelays))
  return {
    store: {
      accounts,
      identities: { touchSession: (...given) => link.request('touchSession', ...given) },
      ledger: remoteLedger(link, holds),
      idempotency: {
        claim: (command) => link.request('claim', command),
        keep: (claim, answer) => link.request('keepAnswer', claim, answer),
        finish: ({ account, key, call }) => link.request('finish', { account, key, call }),
      },
      responses: remoteResponses(link),
      signatures: {
        remember: (key, signature) => link.notify('rememberSignature', key, signature),
        recall: (key) => link.request('recallSignature', key).catch(() => undefined),
      },
      ended: {
        append: (row) => link.notify('callEnded', row),
        appendTurnedAway: (row) => link.notify('turnedAway', row),
        appendRefused: (row, model) => link.notify('callRefused', row, model),
        countRefusal: (code) => counts.addRefusal(code),
        countLoopDelay: (ms) => counts.addLoopDelay(ms),
      },
    },
    limiter: remoteLimiter(link, inFlight, limits),
    probes: {
      claim: (offer) => link.request('claimProbe', offer),
      onRecovered: (offer) => link.notify('offerRecovered', offer),
    },
    monthlyCredit: new MonthlyCredit((account) => link.request('monthlyCredit', account), Date.now),
    onKeyUsed: (key, network) => link.notify('keyUsed', key, network),
    freeCredit: { ensure: (account) => link.request('freeCredit', account) },
    lastHour: () => link.request('lastHour'),
    mcpServer: async (account, name) => {
      const { url, headers, token } = await link.request('mcpServer', account, name)
      const server = { url, headers: new Headers(headers.map(([header, value]) => [header, value])) }
      if (token === undefined) return server
      return {
        ...server,
        refused: (challenge) => link.request('mcpRefused', account, name, token, challenge),
      }
    },
    holdDurable: (number) => holds.durable(number),
    accountsChanged: () => accounts.clear(),
    sendCounts: () => counts.send(),
  }
}

/** How long figures are gathered before they are sent, in looks at the loop: ten are a second. */
const looksTogether = 10

/** Figures of this process that the ledger's process adds up: a flood of refusals must not be one of messages. */
class Counts {
  readonly #send: (refusals: Readonly<Record<string, number>>, loopDelays: readonly number[]) => void
  #refusals = new Map<string, number>()
  #loopDelays: number[] = []

  constructor(send: (refusals: Readonly<Record<string, number>>, loopDelays: readonly number[]) => void) {
    this.#send = send
  }

  addRefusal(code: string): void {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1)
  }

  addLoopDelay(ms: number): void {
    this.#loopDelays.push(ms)
    if (this.#loopDelays.length >= looksTogether) this.send()
  }

  send(): void {
    const [refusals, loopDelays] = [Object.fromEntries(this.#refusals), this.#loopDelays]
    this.#refusals = new Map()
    this.#loopDelays = []
    this.#send(refusals, loopDelays)
  }
}

/** Holds that may not be durable yet. */
class Holds {
  #last = 0
  readonly #waiting = new ShortLivedMap<number, () => void>()

  /** A new number, and a promise that resolves when its hold is durable. */
  begin(): { readonly number: number; readonly durable: Promise<void> } {
    const number = ++this.#last
    const { promise: durable, resolve } = Promise.withResolvers<void>()
    this.#waiting.set(number, resolve)
    return { number, durable }
  }

  durable(number: number): void {
    this.#waiting.take(number)?.()
  }
}

function remoteLedger(link: LedgerLink, holds: Holds): CallStore['ledger'] {
  const sent = new LRUCache<string, true>(rememberedPrices)
  return {
    async startHold(command, haste) {
      const { number, durable } = holds.begin()
      try {
        return { result: await link.request('startHold', command, haste, number), durable }
      } catch (error) {
        // Nothing is held, so there is nothing to wait for.
        holds.durable(number)
        throw error
      }
    },
    extend: (command) => link.request('extend', command),
    checkpoint: (command) => link.request('checkpoint', command),
    settle: (command) => link.request('settle', command),
    release: (command) => link.request('release', command),
    balance: (account) => link.request('balance', account),
    keySpend: (key, windowStart) => link.request('keySpend', key, windowStart),
    budgetSpend: (budgets) => link.request('budgetSpend', budgets),
    recordPrice(version, model, price) {
      const name = `${version} ${model}`
      if (sent.has(name)) return
      sent.set(name, true)
      link.notify('recordPrice', version, model, price)
    },
  }
}

function remoteResponses(link: LedgerLink): CallStore['responses'] {
  /** Bytes of responses that this process has sent, by account. */
  const sent = new LRUCache<string, number>(atMost(rememberedAccounts))
  return {
    find: (viewer, id) => link.request('findResponse', viewer, id),
    sizeOf: (viewer, id) => link.request('sizeOfResponse', viewer, id),
    conversation: (viewer, id, maxBytes) => link.request('conversation', viewer, id, maxBytes),
    keep(command) {
      const { account, input, answer } = command
      let bytes = sent.get(account) ?? 0
      for (const piece of [...input, ...answer]) bytes += Buffer.byteLength(piece)
      sent.set(account, bytes)
      return link.request('keepResponse', command)
    },
    async storedBytes(account) {
      // The answer includes what was sent before the request.
      const before = sent.get(account) ?? 0
      const bytes = await link.request('storedBytes', account)
      return { bytes: () => bytes + Math.max(0, (sent.get(account) ?? 0) - before) }
    },
  }
}

function remoteLimiter(link: LedgerLink, inFlight: InFlight, limits: () => RequestLimits): CountingLimiter {
  return {
    async enter(caller, requestId, kind) {
      if (link.congested) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
      // In flight from now on: a draining process must wait for it.
      inFlight.enter(requestId, caller.account.id, kind)
      await link.request('enter', limitedBy(caller), requestId, kind)
    },
    leave: (requestId) => inFlight.leave(requestId),
    headers: (caller) =>
      isRateLimited(limits(), caller) ? link.request('limitHeaders', limitedBy(caller)) : {},
    spentTokens: (key, tokens) => link.notify('spentTokens', key, tokens),
  }
}

function limitedBy({ account, key }: LimitedCaller): LimitedCaller {
  if (key === null) return { account: { id: account.id }, key }
  const { id, lineage, requestsPerMinute, tokensPerMinute } = key
  return { account: { id: account.id }, key: { id, lineage, requestsPerMinute, tokensPerMinute } }
}

// A worker's cache of accounts, keys, sessions and standings in groups, since each call looks up two or three of them.

type Lookups = Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession' | 'findStanding'>

const remembered = 10_000
/** How long a row is cached, milliseconds: what another process changes is announced only when it has been noticed. */
const maxAgeMs = 50

interface Known<T> {
  readonly row: T | undefined
  readonly at: number
}

/** One kind of row. Unknown ids are cached as well, so that they do not cost a request each time. */
class Rows<T> {
  readonly #find: (id: string) => Awaitable<T | undefined>
  readonly #clock: () => number
  readonly #known = new LRUCache<string, Known<T>>(atMost(remembered))
  readonly #asked = new Map<string, Promise<T | undefined>>()

  constructor(find: (id: string) => Awaitable<T | undefined>, clock: () => number) {
    this.#find = find
    this.#clock = clock
  }

  find(id: string): Awaitable<T | undefined> {
    const known = this.#known.get(id)
    if (known !== undefined && this.#clock() - known.at < maxAgeMs) return known.row
    return this.#asked.get(id) ?? this.#ask(id)
  }

  clear(): void {
    this.#known.clear()
    // Pending answers may be from before the change.
    this.#asked.clear()
  }

  async #ask(id: string): Promise<T | undefined> {
    const at = this.#clock()
    const asked = Promise.resolve(this.#find(id))
    this.#asked.set(id, asked)
    try {
      const row = await asked
      if (this.#asked.get(id) === asked) this.#known.set(id, { row, at })
      return row
    } finally {
      if (this.#asked.get(id) === asked) this.#asked.delete(id)
    }
  }
}

export class AccountCache implements Lookups {
  readonly #keys: Rows<ApiKey>
  readonly #accounts: Rows<Account>
  readonly #sessions: Rows<Session>
  readonly #standings: Rows<GroupStanding>

  /** `clock` gives milliseconds. */
  constructor(store: Lookups, clock: () => number) {
    this.#keys = new Rows((id) => store.findKey(id), clock)
    this.#accounts = new Rows((id) => store.findAccount(id), clock)
    this.#sessions = new Rows((id) => store.findSession(id), clock)
    this.#standings = new Rows((name) => {
      const end = name.indexOf(' ')
      return store.findStanding(name.slice(end + 1), name.slice(0, end))
    }, clock)
  }

  findKey(id: string) {
    return this.#keys.find(id)
  }

  findAccount(idOrEmail: string) {
    return this.#accounts.find(idOrEmail)
  }

  findSession(id: string) {
    return this.#sessions.find(id)
  }

  findStanding(group: string, account: string) {
    return this.#standings.find(`${account} ${group}`)
  }

  /** To be called after a change: the next answers come from the store. */
  clear(): void {
    for (const rows of [this.#keys, this.#accounts, this.#sessions, this.#standings]) rows.clear()
  }
}
