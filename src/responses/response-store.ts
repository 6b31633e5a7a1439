// Responses that clients may come back for: what a store keeps of them, for how long, and for whom.

import type { Awaitable } from '../async/async.ts'
import type { JsonObject } from '../conversation/request.ts'

/** Whose responses may be seen; a key is not as wide as its account. See `viewerOf` of accounts/account.ts. */
export interface ResponseViewer {
  readonly account: string
  /** Only those of the keys of this line; undefined for all of the account. */
  readonly line: string | undefined
  /** Only those of test keys; undefined for both. */
  readonly mode: 'test' | undefined
}

/** A response with what it was made from. It is its account's alone. */
export interface StoredResponse {
  readonly id: string
  /** The id of the model that made it, as its call was charged. */
  readonly model: string
  /** The response it continues; undefined where it begins a conversation. */
  readonly previous: string | undefined
  /** The input items of its own request, oldest first. */
  readonly input: readonly JsonObject[]
  /** The response object, with the encrypted reasoning that not every client is shown. */
  readonly answer: JsonObject
  /** Bytes that input and answer measure as JSON. */
  readonly size: number
}

/** A response as it is stored: its input and its answer as JSON text, in pieces. */
export interface WrittenResponse extends Omit<StoredResponse, 'input' | 'answer'> {
  readonly input: readonly string[]
  readonly answer: readonly string[]
}

export interface KeepCommand extends Omit<WrittenResponse, 'size' | 'model'> {
  readonly account: string
  /** The call that produced it. */
  readonly call: string
  /** The conversation of the chat that now stands at this response. If the account has none with this id, because it
   *  was deleted while it was answered, the response is not kept. */
  readonly conversation: string | undefined
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** A conversation, oldest first; or what is missing of it. */
export type Conversation<Response = StoredResponse> =
  | { readonly kind: 'whole'; readonly responses: readonly Response[] }
  /** Never existed, expired, deleted, or hidden from the caller. */
  | { readonly kind: 'missing'; readonly id: string }
  /** `bytes` is what it measures. */
  | { readonly kind: 'too-large'; readonly bytes: number }

export interface StoredBytes {
  /** Throws `store_unavailable`. */
  bytes(): number
}

export interface ResponseStore {
  /**
   * Keeps a response whose call is about to be settled: called right before its settle, it is durable no later, so that an
   * answer is not charged for and then missing. A disk too full for it is the exception: money goes first, and the
   * response follows when there is room, if this process lives to see it. It cannot be read unless that settle,
   * and no recovery, ends the call, so none is had for nothing. The responses it continues stay for as long as it does.
   */
  keep(command: KeepCommand): Promise<void>
  /** What an account has stored, or is about to store: a live view that includes later changes. */
  storedBytes(account: string): Promise<StoredBytes>
  /** undefined if it never existed, has expired, was deleted, or may not be seen by the caller. */
  find(viewer: ResponseViewer, id: string): Awaitable<WrittenResponse | undefined>
  /** What `find` would read of a response, bytes; undefined where it would find nothing. */
  sizeOf(viewer: ResponseViewer, id: string): Awaitable<number | undefined>
  /** The conversation that ends with a response, if all of it measures at most `maxBytes`; else nothing of it is read. */
  conversation(viewer: ResponseViewer, id: string, maxBytes: number): Awaitable<Conversation<WrittenResponse>>
  /** Forgets a response, durably; resolves with whether it was there. What continued it can no longer be continued. */
  delete(viewer: ResponseViewer, id: string): Promise<boolean>
  /** Forgets a response and all that it continues, durably; also those that have expired. */
  deleteConversation(account: string, id: string): Promise<void>
  /** Forgets all that an account has, durably and in small steps. Resolves with how many. */
  forgetAccount(account: string): Promise<number>
  /** Forgets what has expired, in small steps. Resolves with how many. */
  sweep(now: number): Promise<number>
}

// Conversations of the Responses protocol: items that responses are made behind, and add theirs to. They are not those of
// the console's chat, which are a title and the last of a chain of responses.

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

// What an account's chat keeps besides the answers: its conversations, and prompts that are used again.

/**
 * A conversation as the list shows it: a title, and the response that it stands at. The texts are the stored responses
 * themselves.
 */
export interface ConversationRecord {
  readonly id: string
  readonly account: string
  readonly title: string
  readonly model: string | null
  /** The id of the latest response; the chain of those it continues is the conversation. */
  readonly lastResponse: string | null
  /** The name of the folder it lies in. */
  readonly folder: string | null
  /** Shown before the others, and not forgotten while others can be. */
  readonly pinned: boolean
  /** Milliseconds since 1970, as all times here. */
  readonly createdAt: number
  readonly updatedAt: number
}

/** A conversation with what each of its questions is asked with, as the chat wrote it: instructions and parameters. */
export interface OpenConversation extends ConversationRecord {
  readonly settings: JsonObject | null
  /** By which link others see it; null while it is not shared. */
  readonly share: ConversationShare | null
}

export interface ConversationShare {
  /** Of the link: whoever knows it sees the conversation. */
  readonly token: string
  /** The response up to which it is shown. */
  readonly response: string
  readonly at: number
}

/** A question and its answer from the export of another program. They cost nothing here, and are no response. */
export interface ImportedTurn {
  readonly question: string
  readonly answer: string
  /** The model as the other program named it. */
  readonly model: string | null
}

export type ConversationChanges = Partial<
  Pick<OpenConversation, 'title' | 'model' | 'lastResponse' | 'folder' | 'pinned' | 'settings' | 'share'>
>

export interface ConversationStore {
  /** Those of an account, the latest first, at most `limit`. */
  list(account: string, limit: number): Awaitable<readonly ConversationRecord[]>
  /** undefined where it is not there, or another account's. */
  find(account: string, id: string): Awaitable<OpenConversation | undefined>
  /** Adds one. The oldest of the account beyond `most` are forgotten, pinned ones last. */
  add(conversation: OpenConversation, most: number): Awaitable<void>
  /** Adds one that begins with turns of another program. */
  addImported(conversation: OpenConversation, turns: readonly ImportedTurn[], most: number): Awaitable<void>
  /** What a conversation begins with that was imported; empty for most. */
  importedTurns(account: string, id: string): Awaitable<readonly ImportedTurn[]>
  /**
   * The conversation with its changes; undefined where it is not there, or another account's. Where it lies and how it
   * asks does not make it the latest.
   */
  change(
    account: string,
    id: string,
    changes: ConversationChanges,
    at: number,
  ): Awaitable<OpenConversation | undefined>
  /** The shared conversation of a link; undefined where there is none. */
  findShared(token: string): Awaitable<OpenConversation | undefined>
  /** The conversation that was removed; undefined if there is none, or it is another account's. */
  remove(account: string, id: string): Awaitable<OpenConversation | undefined>
}

/** A text that an account keeps to ask with again. */
export interface SavedPrompt {
  readonly id: string
  readonly account: string
  readonly name: string
  readonly text: string
  readonly changedAt: number
}

export interface PromptStore {
  /** Those of an account, by name. */
  list(account: string): Awaitable<readonly SavedPrompt[]>
  /** Adds one; resolves with whether there was room among at most `most` of the account. */
  add(prompt: SavedPrompt, most: number): Awaitable<boolean>
  /** Resolves with whether the account had it. */
  change(prompt: SavedPrompt): Awaitable<boolean>
  /** Resolves with whether the account had it. */
  remove(account: string, id: string): Awaitable<boolean>
}
