// What operators find by a piece of text: an address, an id, the last letters of a key.

import type { Awaitable } from '../async/async.ts'

/** One of them, and what is to be said of it in a list. */
export interface Found {
  readonly kind: 'account' | 'key' | 'management_key' | 'request' | 'payment' | 'voucher' | 'group'
  readonly id: string
  /** Its address, its name, its model: what a person knows it by. */
  readonly title: string
  /** Whose it is; null for nobody's. */
  readonly account: { readonly id: string; readonly email: string } | null
  /** When it was made, or ended, milliseconds since 1970. */
  readonly at: number
  readonly state: string
}

export interface Finder {
  /** At most `most` of each kind. */
  find(text: string, most: number): Awaitable<readonly Found[]>
}
