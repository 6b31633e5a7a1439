// One Idempotency-Key is one call: what a store keeps so that a request sent twice is served and charged once.

/** A request that carries a key, before anything is done for it. */
export interface ClaimCommand {
  readonly account: string
  readonly key: string
  /** SHA-256 of what makes two requests the same: endpoint, mode and body. */
  readonly bodyHash: Uint8Array
  /** The id of the call that would serve it. */
  readonly call: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

export type ClaimedCall = Pick<ClaimCommand, 'account' | 'key' | 'call'>

export type Claim =
  /** The key is this call's from now on. */
  | { readonly kind: 'fresh' }
  /** It belongs to a request with another body. */
  | { readonly kind: 'conflict' }
  | { readonly kind: 'running' }
  | { readonly kind: 'answered'; readonly answer: KeptAnswer }
  /** The call was charged, but its answer was too large to keep, or was cut short by its client or with its process. */
  | { readonly kind: 'lost'; readonly call: string }

export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** null where it was too large to keep. */
  readonly body: Uint8Array<ArrayBuffer> | null
}

export interface IdempotencyStore {
  /**
   * Claims a key; resolves when the claim is durable. A key whose call was charged nothing is free again; a call that
   * was charged never runs a second time under its key, whatever became of its answer. Rejects with
   * `store_unavailable` or `overloaded`, and then nothing is claimed.
   */
  claim(command: ClaimCommand): Promise<Claim>
  /**
   * Keeps the answer of a call that is about to be settled: called right before its settle, it is durable no later. It is
   * given to nobody unless that settle, and no recovery, ends the call.
   */
  keep(claim: ClaimedCall, answer: KeptAnswer): Promise<void>
  /** Tells that the claimed call is over here, however it ended. */
  finish(claim: ClaimedCall): Promise<void>
  /** Forgets what has expired, in small steps. Resolves with how many. */
  sweep(now: number): Promise<number>
}
