// Thought signatures for protocols, whose synchronous lowering needs them.

import type { Awaitable } from '../../awaitable.ts'
import type { Target } from '../../protocols/protocol.ts'
import type { NamedCall, Owner } from './thoughts.ts'

/** Stores thought signatures of tool calls, for clients that drop them. */
export interface SignatureMemory {
  /** `key`: see `signatureKey`. */
  remember(key: string, signature: string): void
  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(key: string): Awaitable<string | undefined>
}

type SignatureOf = Target['rememberedSignature']

/**
 * What the signature of a call is stored by. Ids alone are not unique: some servers count them from `call_0` in each
 * answer. All models of a provider share its signatures. A hash is short, and does not store what clients name things.
 */
export function signatureKey({ account, line, provider }: Owner, { id, name }: NamedCall): string {
  const text = JSON.stringify([account, line, provider, name, id])
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url').slice(0, 22)
}

/** Remembers the signatures of calls that a provider made for an account. */
export function remembering(
  memory: Pick<SignatureMemory, 'remember'>,
  owner: Owner,
): (call: NamedCall, signature: string) => void {
  return (call, signature) => memory.remember(signatureKey(owner, call), signature)
}

/**
 * Runs `lower` with the owner's signatures. If some are loaded asynchronously it runs twice: first without them, then
 * with all.
 */
export function withSignatures<T>(
  memory: Pick<SignatureMemory, 'recall'>,
  owner: Owner,
  lower: (signatureOf: SignatureOf) => Awaitable<T>,
): Awaitable<T> {
  const recalled = new Recalled(memory, owner)
  const lowered = lower(recalled.of)
  const isDone = !(lowered instanceof Promise) && recalled.isComplete
  return isDone ? lowered : lowerAgain(recalled, lower, lowered)
}

/** Lowers once more if signatures have to be awaited. */
async function lowerAgain<T>(
  recalled: Recalled,
  lower: (signatureOf: SignatureOf) => Awaitable<T>,
  first: Awaitable<T>,
): Promise<T> {
  const lowered = await first
  if (recalled.isComplete) return lowered
  await recalled.load()
  return lower(recalled.of)
}

/** The signatures that one request asks for. */
class Recalled {
  readonly #memory: Pick<SignatureMemory, 'recall'>
  readonly #owner: Owner
  /** By key, as what is awaited. */
  #known: Map<string, string | undefined> | undefined
  #awaited: Map<string, Promise<string | undefined>> | undefined

  constructor(memory: Pick<SignatureMemory, 'recall'>, owner: Owner) {
    this.#memory = memory
    this.#owner = owner
  }

  readonly of: SignatureOf = (call) => {
    const key = signatureKey(this.#owner, call)
    if (this.#known?.has(key)) return this.#known.get(key)
    const found = this.#memory.recall(key)
    if (!(found instanceof Promise)) return found
    this.#awaited = (this.#awaited ?? new Map<string, Promise<string | undefined>>()).set(key, found)
    return undefined
  }

  /** Whether all were there at once. */
  get isComplete(): boolean {
    return this.#awaited === undefined
  }

  async load(): Promise<void> {
    const awaited = [...(this.#awaited ?? [])]
    const signatures = await Promise.all(awaited.map(([, signature]) => signature))
    this.#known = new Map(awaited.map(([key], at) => [key, signatures[at]]))
  }
}
