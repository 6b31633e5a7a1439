// Idempotency keys: a request sent twice under one key is served and charged once.

import type { Awaitable } from '../../async/async.ts'

/** A request with a key, before anything is done for it. */
export interface ClaimCommand {
  readonly account: string
  readonly key: string
  /** SHA-256 of what makes two requests the same: endpoint, mode and body. */
  readonly bodyHash: Uint8Array
  /** The id of the call that would serve this request. */
  readonly call: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

export type ClaimedCall = Pick<ClaimCommand, 'account' | 'key' | 'call'>

export type Claim =
  /** The key is now reserved for this call. */
  | { readonly kind: 'fresh' }
  /** The key belongs to a request with another body. */
  | { readonly kind: 'conflict' }
  | { readonly kind: 'running' }
  | { readonly kind: 'answered'; readonly answer: KeptAnswer; readonly of: AnsweredCall }
  /** The call was charged, but its answer was not kept: too large, or cut short by its client or a crash. */
  | { readonly kind: 'lost'; readonly call: string }

/** The call that a kept answer is the answer of. */
export interface AnsweredCall {
  readonly model: string
  /** The line of the key that made it; null for the app. */
  readonly line: string | null
}

/** A call that was made under a key. */
export type KeyedCall = Pick<ClaimCommand, 'key' | 'bodyHash' | 'call'>

export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** null if it was too large to keep. */
  readonly body: Uint8Array<ArrayBuffer> | null
}

export interface IdempotencyStore {
  /**
   * Claims a key; resolves when the claim is durable. If the key's call was charged nothing, the key is free again; a
   * charged call never runs a second time under its key. Rejects with `store_unavailable` or `overloaded`, and then
   * nothing is claimed.
   */
  claim(command: ClaimCommand): Promise<Claim>
  /**
   * Keeps the answer of a call. Called right before its settle, it is durable no later than that. The answer is only
   * returned if that settle, not recovery, ends the call.
   */
  keep(claim: ClaimedCall, answer: KeptAnswer): Promise<void>
  /** Marks the claimed call as over, however it ended. */
  finish(claim: ClaimedCall): Promise<void>
  /** Those of the calls that were made under a key which is still known. */
  claimsOf(calls: readonly string[]): Awaitable<readonly KeyedCall[]>
  /** Deletes expired claims in small steps. Resolves with their number. */
  sweep(now: number): Promise<number>
}
