// Thought signatures for protocols, whose synchronous lowering needs them.

import type { Awaitable } from '../../awaitable.ts'

/** Stores thought signatures by tool-call id, for clients that drop them. */
export interface SignatureMemory {
  remember(toolCallId: string, signature: string): void
  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(toolCallId: string): Awaitable<string | undefined>
}

type SignatureOf = (toolCallId: string) => string | undefined

/** Runs `lower` with signatures. If some are loaded asynchronously it runs twice: first without them, then with all. */
export function withSignatures<T>(
  memory: Pick<SignatureMemory, 'recall'>,
  lower: (signatureOf: SignatureOf) => Awaitable<T>,
): Awaitable<T> {
  const recalled = new Recalled(memory)
  const lowered = lower(recalled.of)
  if (lowered instanceof Promise) return lowered.then((first) => again(recalled, lower) ?? first)
  return again(recalled, lower) ?? lowered
}

/** Lowers once more where signatures had to be awaited. */
function again<T>(
  recalled: Recalled,
  lower: (signatureOf: SignatureOf) => Awaitable<T>,
): Promise<T> | undefined {
  return recalled.loaded()?.then(() => lower(recalled.of))
}

/** The signatures that one request asks for. */
class Recalled {
  readonly #memory: Pick<SignatureMemory, 'recall'>
  #known: Map<string, string | undefined> | undefined
  #awaited: Map<string, Promise<string | undefined>> | undefined

  constructor(memory: Pick<SignatureMemory, 'recall'>) {
    this.#memory = memory
  }

  readonly of: SignatureOf = (id) => {
    if (this.#known?.has(id)) return this.#known.get(id)
    const found = this.#memory.recall(id)
    if (!(found instanceof Promise)) return found
    this.#awaited = (this.#awaited ?? new Map<string, Promise<string | undefined>>()).set(id, found)
    return undefined
  }

  /** Resolves when those that were not there at once are; undefined if all were. */
  loaded(): Promise<void> | undefined {
    if (this.#awaited === undefined) return undefined
    const ids = [...this.#awaited.keys()]
    return Promise.all(this.#awaited.values()).then((signatures) => {
      this.#known = new Map(ids.map((id, at) => [id, signatures[at]]))
    })
  }
}
