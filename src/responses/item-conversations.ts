// Conversations of the Responses protocol: items that responses are made behind, and add theirs to. They are not those of
// the console's chat, which are a title and the last of a chain of responses.

import type { Awaitable } from '../async/async.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { ResponseViewer } from './response-store.ts'

export interface ItemConversation {
  readonly id: string
  readonly account: string
  readonly key: string | null
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly metadata: JsonObject
}

export interface ConversationItem {
  /** Rises from item to item. */
  readonly seq: number
  readonly item: JsonObject
}

export interface ItemConversationStore {
  /** Keeps a new one with its first items, durably. */
  create(conversation: ItemConversation, items: readonly JsonObject[], expiresAt: number): Promise<void>
  /** undefined if it never existed, has expired, was deleted, or may not be seen by the caller. */
  find(viewer: ResponseViewer, id: string): Awaitable<ItemConversation | undefined>
  setMetadata(id: string, metadata: JsonObject): Promise<void>
  /** Bytes that all items measure as JSON. */
  size(id: string): Awaitable<number>
  /** The same of all conversations of an account. */
  accountBytes(account: string): Awaitable<number>
  /** All items in their order. */
  items(id: string): Awaitable<readonly ConversationItem[]>
  /** Adds items, and keeps the conversation until `expiresAt`. Nothing is added to one that is gone. Durable with the next commit. */
  add(id: string, items: readonly JsonObject[], expiresAt: number): Promise<void>
  /** Whether the item was there. */
  removeItem(id: string, item: string): Promise<boolean>
  delete(id: string): Promise<void>
  /** Forgets those of an account. */
  forgetAccount(account: string): Promise<void>
  /** Forgets what has expired, in small steps. Resolves with how many. */
  sweep(now: number): Promise<number>
}
