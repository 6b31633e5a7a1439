// A worker's cache of accounts, keys and sessions, since each call looks up two of them.

import { LRUCache } from 'lru-cache'
import type { Account, AccountStore } from '../../accounts/account.ts'
import type { ApiKey } from '../../accounts/api-key.ts'
import type { Session } from '../../accounts/session.ts'
import type { Awaitable } from '../../awaitable.ts'
import { atMost } from '../../lru.ts'

type Lookups = Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession'>

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

  /** `clock` gives milliseconds. */
  constructor(store: Lookups, clock: () => number) {
    this.#keys = new Rows((id) => store.findKey(id), clock)
    this.#accounts = new Rows((id) => store.findAccount(id), clock)
    this.#sessions = new Rows((id) => store.findSession(id), clock)
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

  /** To be called after a change: the next answers come from the store. */
  clear(): void {
    for (const rows of [this.#keys, this.#accounts, this.#sessions]) rows.clear()
  }
}
