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
export async function withSignatures<T>(
  memory: Pick<SignatureMemory, 'recall'>,
  lower: (signatureOf: SignatureOf) => Promise<T>,
): Promise<T> {
  const known = new Map<string, string | undefined>()
  const awaited = new Map<string, Promise<string | undefined>>()
  const signatureOf: SignatureOf = (id) => {
    if (known.has(id)) return known.get(id)
    const found = memory.recall(id)
    if (!(found instanceof Promise)) return found
    awaited.set(id, found)
    return undefined
  }
  const lowered = await lower(signatureOf)
  if (awaited.size === 0) return lowered
  for (const [id, signature] of awaited) known.set(id, await signature)
  return lower(signatureOf)
}
