// Thought signatures for protocols, whose synchronous lowering needs them.

import { andThen, type Awaitable } from '../../awaitable.ts'

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
  let known: Map<string, string | undefined> | undefined
  let awaited: Map<string, Promise<string | undefined>> | undefined
  const signatureOf: SignatureOf = (id) => {
    if (known?.has(id)) return known.get(id)
    const found = memory.recall(id)
    if (!(found instanceof Promise)) return found
    awaited = (awaited ?? new Map<string, Promise<string | undefined>>()).set(id, found)
    return undefined
  }
  return andThen(lower(signatureOf), (lowered) => {
    if (awaited === undefined) return lowered
    const ids = [...awaited.keys()]
    return Promise.all(awaited.values()).then((signatures) => {
      known = new Map(ids.map((id, at) => [id, signatures[at]]))
      return lower(signatureOf)
    })
  })
}
