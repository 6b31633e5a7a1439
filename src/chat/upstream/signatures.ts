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

  /** Whether all were there at once. */
  get isComplete(): boolean {
    return this.#awaited === undefined
  }

  async load(): Promise<void> {
    const awaited = [...(this.#awaited ?? [])]
    const signatures = await Promise.all(awaited.map(([, signature]) => signature))
    this.#known = new Map(awaited.map(([id], at) => [id, signatures[at]]))
  }
}
