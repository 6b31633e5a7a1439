// Makes tool call ids that Claude's APIs accept, the same on call and result.

import type { Message, ToolCall } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { freeName, FreeNames } from '../free-names.ts'

const allowed = /^[a-zA-Z0-9_-]+$/

/**
 * Gives every call of a conversation a unique id. A valid id is kept on its first use; others (Kimi's `functions.x:0`,
 * or Bedrock Mantle's `call_0`, repeated in each turn) are replaced.
 */
export class ToolIds {
  readonly #longest: number
  readonly #taken: Set<string>
  readonly #used = new Set<string>()
  readonly #names = new FreeNames()

  /** `longest`: the maximum length of an id. */
  constructor(messages: readonly Message[], longest: number) {
    this.#longest = longest
    const ids = messages.flatMap((message) =>
      message.role === 'assistant' ? message.toolCalls.map((call) => call.id) : [],
    )
    this.#taken = new Set(ids.filter((id) => this.#fits(id)))
  }

  /** The ids of a turn's calls: client id to wire id. Throws if two calls share one. */
  rename(calls: readonly ToolCall[], param: string): Map<string, string> {
    if (new Set(calls.map((call) => call.id)).size < calls.length) {
      throw new GatewayError('invalid_request', {
        message: 'Two tool calls of one message have the same id.',
        param,
      })
    }
    return new Map(calls.map((call) => [call.id, this.#fresh(call.id)]))
  }

  #fresh(id: string): string {
    const fresh = this.#fits(id) && !this.#used.has(id) ? id : this.#minted(id)
    this.#taken.add(fresh)
    this.#used.add(fresh)
    return fresh
  }

  #fits(id: string): boolean {
    return allowed.test(id) && id.length <= this.#longest
  }

  #minted(id: string): string {
    const stem = id.replace(/[^a-zA-Z0-9_-]/g, '_') || 'call'
    return freeName(this.#names, stem, this.#longest, (name) => this.#taken.has(name))
  }
}
