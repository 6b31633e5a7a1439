// The conversations that an account's chat shows: a title, and the response each stands at. The texts are the stored
// responses themselves.

import type { Awaitable } from '../awaitable.ts'

export interface ConversationRecord {
  readonly id: string
  readonly account: string
  readonly title: string
  readonly model: string | null
  /** The id of the latest response; the chain of those it continues is the conversation. */
  readonly lastResponse: string | null
  /** Milliseconds since 1970, as all times here. */
  readonly createdAt: number
  readonly updatedAt: number
}

export type ConversationChanges = Partial<Pick<ConversationRecord, 'title' | 'model' | 'lastResponse'>>

export interface ConversationStore {
  /** Those of an account, the latest first, at most `limit`. */
  list(account: string, limit: number): Awaitable<readonly ConversationRecord[]>
  /** undefined where it is not there, or another account's. */
  find(account: string, id: string): Awaitable<ConversationRecord | undefined>
  /** Adds one. The oldest of the account beyond `most` are forgotten. */
  add(conversation: ConversationRecord, most: number): Awaitable<void>
  /** The conversation with its changes; undefined where it is not there, or another account's. */
  change(
    account: string,
    id: string,
    changes: ConversationChanges,
    at: number,
  ): Awaitable<ConversationRecord | undefined>
  /** The conversation as it stood at its end; undefined where it is not there, or another account's. */
  remove(account: string, id: string): Awaitable<ConversationRecord | undefined>
}
