// A client of the gateway under test: it sends a plan, reads the answer, may leave in the middle, and notes all of it.

import { promptOf, type Plan } from './billing-provider.ts'
import type { ToolServers } from './tool-servers.ts'

export interface Seen {
  readonly plan: Plan
  /** The call's id, from the headers of the answer; empty when none came. */
  readonly id: string
  /** It is the answer to an earlier request with the same Idempotency-Key. */
  readonly replayed: boolean
  readonly status: number
  /** Words that arrived. */
  readonly words: number
  /** `complete`: all of it came. `left`: this client hung up. `broken`: the gateway was gone. */
  readonly ending: 'complete' | 'left' | 'broken' | 'refused'
  /** What the answer says it cost, US dollars. */
  readonly cost: string | undefined
  readonly text: string
}

/** A gateway, and how its tools are declared where plans use any. */
export interface Target {
  readonly baseUrl: string
  readonly key: string
  readonly declare?: ToolServers['declare']
}

/** Sends one call. With `leaveAfter` the client hangs up once so many words of the stream have come. */
export async function callOnce(
  target: Target,
  plan: Plan,
  prompt: string,
  leaveAfter = Infinity,
): Promise<Seen> {
  const abort = new AbortController()
  const facts = {
    plan,
    id: '',
    replayed: false,
    status: 0,
    words: 0,
    cost: undefined as string | undefined,
    text: '',
  }
  try {
    const response = await fetch(`${target.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${target.key}`,
        'content-type': 'application/json',
        ...(plan.keyed && { 'idempotency-key': plan.nonce }),
      },
      body: JSON.stringify({
        model: 'lab/m',
        stream: plan.stream,
        ...(plan.maxCost && { max_cost: plan.maxCost }),
        ...(plan.uses && { tools: target.declare?.(plan.uses) ?? [] }),
        ...(plan.stream && { stream_options: { include_usage: true } }),
        messages: [{ role: 'user', content: promptOf(plan, prompt) }],
      }),
      signal: abort.signal,
    })
    facts.id = response.headers.get('x-request-id') ?? ''
    facts.replayed = response.headers.has('idempotency-replayed')
    facts.status = response.status
    if (!response.ok) return { ...facts, text: await response.text(), ending: 'refused' }
    if (!plan.stream) {
      facts.text = await response.text()
      const { usage } = JSON.parse(facts.text) as { usage: { cost: string } }
      return { ...facts, words: plan.words, cost: usage.cost, ending: 'complete' }
    }
    const decoder = new TextDecoder()
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      facts.text += decoder.decode(bytes, { stream: true })
      facts.words = facts.text.split('"finish_reason":null').length - 2
      if (facts.words < leaveAfter) continue
      abort.abort()
      return { ...facts, ending: 'left' }
    }
    if (!facts.text.includes('data: [DONE]')) return { ...facts, ending: 'broken' }
    facts.cost = /"cost":"?([0-9.e-]+)/.exec(facts.text)?.[1]
    return { ...facts, ending: 'complete' }
  } catch {
    return { ...facts, ending: facts.words >= leaveAfter ? 'left' : 'broken' }
  }
}
