// What an account's chat keeps besides the answers: its conversations, and prompts that are used again.

import type { Awaitable } from '../async/async.ts'
import type { JsonObject } from '../conversation/request.ts'

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
