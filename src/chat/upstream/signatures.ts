// Thought signatures for protocols, whose synchronous lowering needs them.

import type { Awaitable } from '../../awaitable.ts'

/** Stores thought signatures by tool-call id, for clients that drop them. */
export interface SignatureMemory {
  remember(toolCallId: string, signature: string): void
  /** undefined if unknown or expired. Never fails: the call can continue without it. */
  recall(toolCallId: string): Awaitable<string | undefined>
}

/** The signatures that the lowering of one request asks for. */
export class RecalledSignatures {
  readonly #memory: Pick<SignatureMemory, 'recall'>
  #known: Map<string, string | undefined> | undefined
  #awaited: Map<string, Promise<string | undefined>> | undefined

  constructor(memory: Pick<SignatureMemory, 'recall'>) {
    this.#memory = memory
  }

  /** The signature of a tool call. One that has to be awaited is undefined until `load`. */
  readonly of = (toolCallId: string): string | undefined => {
    if (this.#known?.has(toolCallId)) return this.#known.get(toolCallId)
    const found = this.#memory.recall(toolCallId)
    if (!(found instanceof Promise)) return found
    this.#awaited = (this.#awaited ?? new Map<string, Promise<string | undefined>>()).set(toolCallId, found)
    return undefined
  }

  /** Whether none had to be awaited. */
  get areComplete(): boolean {
    return this.#awaited === undefined
  }

  /** Awaits them: lowering once more gets them all. */
  async load(): Promise<void> {
    const awaited = [...(this.#awaited ?? [])]
    const signatures = await Promise.all(awaited.map(([, signature]) => signature))
    this.#known = new Map(awaited.map(([id], at) => [id, signatures[at]]))
  }
}
