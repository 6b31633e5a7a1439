// Accounts, keys and sessions as a worker knows them: remembered for a moment, for each call asks for two of them.

import { LRUCache } from 'lru-cache'
import type { Account, AccountStore } from '../../accounts/account.ts'
import type { ApiKey } from '../../accounts/api-key.ts'
import type { Session } from '../../accounts/session.ts'
import type { Awaitable } from '../../awaitable.ts'

type Lookups = Pick<AccountStore, 'findKey' | 'findAccount' | 'findSession'>

const remembered = 10_000
/** How old an answer may be, milliseconds: what another program has changed is not announced. */
const trustMs = 250

interface Known<T> {
  readonly row: T | undefined
  readonly at: number
}

/** One kind of row. Strangers' ids are remembered as well: they must not cost a question each time. */
class Rows<T> {
  readonly #find: (id: string) => Awaitable<T | undefined>
  readonly #clock: () => number
  readonly #known = new LRUCache<string, Known<T>>({ max: remembered })
  readonly #asked = new Map<string, Promise<T | undefined>>()

  constructor(find: (id: string) => Awaitable<T | undefined>, clock: () => number) {
    this.#find = find
    this.#clock = clock
  }

  find(id: string): Awaitable<T | undefined> {
    const known = this.#known.get(id)
    if (known !== undefined && this.#clock() - known.at < trustMs) return known.row
    return this.#asked.get(id) ?? this.#ask(id)
  }

  forget(): void {
    this.#known.clear()
    // Answers that are on their way may be from before the change.
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

export class KnownAccounts implements Lookups {
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

  /** Something has changed: the next answers come from the store. */
  forget(): void {
    for (const rows of [this.#keys, this.#accounts, this.#sessions]) rows.forget()
  }
}
