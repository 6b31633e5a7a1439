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
  if (plan.over !== undefined) return askResponses(target, plan, prompt)
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
    const running = '"finish_reason":null'
    let [events, from] = [0, 0]
    for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
      facts.text += decoder.decode(bytes, { stream: true })
      for (let at = facts.text.indexOf(running, from); at >= 0; at = facts.text.indexOf(running, from)) {
        events += 1
        from = at + running.length
      }
      // The first names the role, and is no word.
      facts.words = events - 1
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

/** The same in the Responses protocol, over a socket or in the background. */
async function askResponses(target: Target, plan: Plan, prompt: string): Promise<Seen> {
  const facts = {
    plan,
    id: '',
    replayed: false,
    status: 200,
    words: 0,
    cost: undefined as string | undefined,
    text: '',
  }
  const body = { model: 'lab/m', input: promptOf(plan, prompt) }
  const read = (data: string): Seen['ending'] | undefined => {
    facts.text += data
    const event = JSON.parse(data) as ResponseEvent
    if (event.response) facts.id = event.response.id.replace('resp_', 'req_')
    if (event.type === 'response.output_text.delta') facts.words += 1
    if (event.type === 'error' && event.status !== undefined) {
      facts.id = event.error?.headers?.['x-request-id'] ?? ''
      facts.status = event.status
      return 'refused'
    }
    if (event.type === 'response.failed') return 'broken'
    if (event.type !== 'response.completed' && event.type !== 'response.incomplete') return undefined
    facts.cost = String(event.response!.usage?.cost_details.total)
    return 'complete'
  }
  const ending = await (plan.over === 'socket'
    ? overSocket(target, body, read)
    : inBackground(target, body, read, facts))
  return { ...facts, ending }
}

interface ResponseEvent {
  readonly type: string
  readonly status?: number
  readonly error?: { readonly headers?: Readonly<Record<string, string>> }
  readonly response?: {
    readonly id: string
    readonly usage: { readonly cost_details: { readonly total: string } } | null
  }
}

type Read = (data: string) => Seen['ending'] | undefined

function overSocket({ baseUrl, key }: Target, body: object, read: Read): Promise<Seen['ending']> {
  const { promise, resolve } = Promise.withResolvers<Seen['ending']>()
  const headers = { authorization: `Bearer ${key}` }
  const socket = new WebSocket(`${baseUrl.replace('http', 'ws')}/responses`, { headers } as never)
  socket.addEventListener('open', () => socket.send(JSON.stringify({ type: 'response.create', ...body })))
  socket.addEventListener('message', ({ data }) => {
    const ending = read(String(data))
    if (ending === undefined) return
    resolve(ending)
    socket.close()
  })
  socket.addEventListener('close', () => resolve('broken'))
  socket.addEventListener('error', () => resolve('broken'))
  return promise
}

async function inBackground(
  { baseUrl, key }: Target,
  body: object,
  read: Read,
  facts: { id: string; status: number; text: string },
): Promise<Seen['ending']> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  try {
    const sent = { ...body, background: true }
    const queued = await fetch(`${baseUrl}/responses`, {
      method: 'POST',
      headers,
      body: JSON.stringify(sent),
    })
    facts.id = queued.headers.get('x-request-id') ?? ''
    facts.status = queued.status
    if (!queued.ok) {
      facts.text = await queued.text()
      return 'refused'
    }
    const { id } = (await queued.json()) as { id: string }
    const events = await fetch(`${baseUrl}/responses/${id}?stream=true`, { headers })
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of events.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(bytes, { stream: true })
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1]
        text = text.slice(end + 2)
        const ending = data === undefined ? undefined : read(data)
        if (ending !== undefined) return ending
      }
    }
    return 'broken'
  } catch {
    return 'broken'
  }
}
