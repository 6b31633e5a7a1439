// Clients that call without a pause: each until the server under them is gone, and on when it is back.

import type { Random } from '../simulation/random.ts'
import type { Plan } from './billing-provider.ts'
import { callOnce, type Seen, type Target } from './client.ts'
import type { ToolUse } from './tool-servers.ts'

/** What a client saw of one request, and which of the server's processes had it: they count from 0. */
export interface Noted extends Seen {
  readonly process: number
}

const prompt = 'Tell me where the river runs, and do not leave out the weir. '.repeat(6)

export type Asking = 'chat' | 'socket' | 'background'

export class Load {
  readonly seen: Noted[] = []
  readonly #lanes: number
  readonly #kinds: readonly Asking[]
  readonly #random: Random
  readonly #target: () => Target
  #working: Promise<void>[] = []
  #stopped = false
  #gate = Promise.withResolvers<void>()
  #number = 0
  #process = 0

  /** `kinds`: how clients ask; each is as frequent as it stands in it. */
  constructor(lanes: number, random: Random, target: () => Target, kinds: readonly Asking[] = ['chat']) {
    this.#kinds = kinds
    this.#lanes = lanes
    this.#random = random
    this.#target = target
  }

  run(): void {
    this.#working = Array.from({ length: this.#lanes }, () => this.#lane())
  }

  /** The server is back. */
  resume(): void {
    this.#process++
    this.#gate.resolve()
    this.#gate = Promise.withResolvers()
  }

  async finish(): Promise<void> {
    this.stop()
    await Promise.all(this.#working)
  }

  stop(): void {
    this.#stopped = true
    this.#gate.resolve()
  }

  async #lane(): Promise<void> {
    while (!this.#stopped) await this.#callThrough(this.#plan())
  }

  /** A client with an Idempotency-Key asks again when its connection breaks; one without does not dare to. */
  async #callThrough(plan: Plan): Promise<void> {
    for (;;) {
      const gate = this.#gate.promise
      const process = this.#process
      const seen = await callOnce(this.#target(), plan, prompt)
      this.seen.push({ ...seen, process })
      if (seen.ending !== 'broken') return
      await gate
      if (!plan.keyed || this.#stopped) return
    }
  }

  #plan(): Plan {
    const random = this.#random
    const stream = !random.oneIn(3)
    const refused = random.oneIn(12)
    const uses = random.oneIn(3)
      ? Array.from({ length: 1 + random.below(2) }, () => random.pick<ToolUse>(['search', 'gauge']))
      : undefined
    const keyed = random.oneIn(3)
    // Without a key, and without tools of the gateway, a stream may be one of the Responses protocol as well.
    const asked = random.pick(this.#kinds)
    const over = asked !== 'chat' && stream && !keyed && uses === undefined ? asked : undefined
    return {
      nonce: String(this.#number++),
      stream,
      words: refused ? 0 : 1 + random.below(stream ? 80 : 20),
      gapMs: random.pick([0, 1, 4]),
      prompt: 100 + random.below(50),
      usage: random.pick(['plain', 'plain', 'cached', 'reasoning']),
      tool: random.oneIn(6),
      ...(uses && { uses }),
      keyed,
      ...(over && { over }),
    }
  }
}
