// A provider that does what the prompt asks of it and keeps its own bill, by the word: the truth about every call.

import { queryOf, searchFee, toolNames, type ToolUse } from './tool-servers.ts'

/** What one call is to be like. It travels at the end of the prompt, so that both ends know it. */
export interface Plan {
  readonly nonce: string
  readonly stream: boolean
  /** Words of the answer; each is one frame of a stream and one token. Of none nothing is made: the call is refused. */
  readonly words: number
  readonly gapMs: number
  /** What the prompt counts as. */
  readonly prompt: number
  /** `inflated`: the provider counts, and bills, three times the prompt there is. `zero`: it counts nothing of what it bills. */
  readonly usage: 'plain' | 'cached' | 'reasoning' | 'zero' | 'missing' | 'inflated'
  readonly tool: boolean
  /** What the model asks the gateway for before its answer, a round each: each is billed like the answer. */
  readonly uses?: readonly ToolUse[]
  /** The client names the call by an Idempotency-Key, its nonce. */
  readonly keyed: boolean
  /** How the client asks: a request for chat completions, a frame of a socket, or a response in the background; the first where it is absent. */
  readonly over?: 'socket' | 'background'
  /** The client's `max_cost`, US dollars. */
  readonly maxCost?: string | undefined
}

export interface Booked {
  readonly plan: Plan
  readonly upstreamId: string
  /** Words that have been made so far. */
  words: number
  /** All was sent, the counters included. */
  complete: boolean
}

export interface BillingProvider {
  readonly url: string
  readonly bill: ReadonlyMap<string, Booked>
  /** How many requests came, those that were refused among them. */
  readonly requests: number
  stop(): void
}

/** Picodollars per token; `modelsConfig` sells at the same. */
export const rates = { input: 1_000_000n, cacheRead: 100_000n, output: 2_000_000n }

const mark = '#plan:'

export function promptOf(plan: Plan, text: string): string {
  return `${text}\n${mark}${JSON.stringify(plan)}`
}

/** What the provider asks for a call of this plan, when it has made so many words of it. */
export function billOf({ usage, prompt: asked }: Plan, words: number): bigint {
  const prompt = usage === 'inflated' ? asked * 3 : asked
  const cached = usage === 'cached' ? Math.floor(prompt / 2) : 0
  return (
    BigInt(prompt - cached) * rates.input + BigInt(cached) * rates.cacheRead + BigInt(words) * rates.output
  )
}

/** What all rounds of a call and its tools come to, once all of its words are made. */
export function dueOf(plan: Plan): bigint {
  return billOf(plan, plan.words) * BigInt(roundsOf(plan)) + BigInt(searchesOf(plan)) * searchFee
}

/** How often the provider is asked for one call. */
export function roundsOf({ uses = [] }: Plan): number {
  return uses.length + 1
}

/** Searches of a call that runs to its end. */
export function searchesOf({ uses = [] }: Plan): number {
  return uses.filter((use) => use === 'search').length
}

function countersOf({ usage, prompt, words }: Plan): object | undefined {
  if (usage === 'missing') return undefined
  const counted = usage === 'inflated' ? prompt * 3 : prompt
  const [input, output] = usage === 'zero' ? [0, 0] : [counted, words]
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: usage === 'cached' ? Math.floor(prompt / 2) : 0 },
    completion_tokens_details: { reasoning_tokens: usage === 'reasoning' ? Math.floor(words / 3) : 0 },
  }
}

export function startBillingProvider(): BillingProvider {
  const bill = new Map<string, Booked>()
  let requests = 0
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const body = (await request.json()) as { model: string; messages: { role: string; content: string }[] }
      const { content } = body.messages.findLast(({ role }) => role === 'user')!
      const asked = JSON.parse(content.slice(content.lastIndexOf(mark) + mark.length)) as Plan
      const rounds = body.messages.filter(({ role }) => role === 'tool').length
      const use = asked.uses?.[rounds]
      const calls = use === undefined ? (asked.tool ? 'f' : undefined) : toolNames[use]
      const plan = { ...asked, calls }
      if (rounds === 0) requests++
      if (plan.words === 0) return refusal()
      // A retried attempt gets a line of its own: each is work the provider did.
      const booked = { plan, upstreamId: `up-${plan.nonce}-${bill.size}`, words: 0, complete: false }
      bill.set(booked.upstreamId, booked)
      return plan.stream ? streamed(booked, body.model) : whole(booked, body.model)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}/v1`,
    bill,
    get requests() {
      return requests
    },
    stop: () => void server.stop(true),
  }
}

function refusal(): Response {
  const error = { message: 'There is nothing to say.', type: 'invalid_request_error', param: 'messages' }
  return Response.json({ error: { ...error, code: null } }, { status: 400 })
}

/** A plan with the function that this round of it calls. */
interface RoundPlan extends Plan {
  readonly calls: string | undefined
}

async function whole(booked: Booked & { readonly plan: RoundPlan }, model: string): Promise<Response> {
  const { plan } = booked
  await Bun.sleep(plan.gapMs)
  booked.words = plan.words
  booked.complete = true
  const text = wordsOf(plan.words).join('')
  const message = plan.calls
    ? {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: 'call_1',
            type: 'function',
            function: { name: plan.calls, arguments: JSON.stringify({ query: queryOf(plan.nonce, text) }) },
          },
        ],
      }
    : { role: 'assistant', content: text }
  const counters = countersOf(plan)
  return Response.json({
    id: booked.upstreamId,
    object: 'chat.completion',
    created: 1_767_225_600,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: plan.calls ? 'tool_calls' : 'stop' }],
    ...(counters && { usage: counters }),
  })
}

function streamed(booked: Booked & { readonly plan: RoundPlan }, model: string): Response {
  const { plan, upstreamId } = booked
  const frame = (fields: object) =>
    `data: ${JSON.stringify({ id: upstreamId, object: 'chat.completion.chunk', created: 1_767_225_600, model, ...fields })}\n\n`
  const delta = (content: object, finish: string | null) =>
    frame({ choices: [{ index: 0, delta: content, logprobs: null, finish_reason: finish }] })
  let left = false
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      const write = (text: string) => controller.enqueue(encoder.encode(text))
      write(delta({ role: 'assistant', content: '' }, null))
      for (const [at, word] of wordsOf(plan.words).entries()) {
        if (plan.gapMs > 0) await Bun.sleep(plan.gapMs)
        if (left) return
        booked.words++
        write(delta(plan.calls ? toolPiece(plan, at, word) : { content: word }, null))
      }
      const counters = countersOf(plan)
      write(
        delta({}, plan.calls ? 'tool_calls' : 'stop') +
          (counters ? frame({ choices: [], usage: counters }) : ''),
      )
      write('data: [DONE]\n\n')
      booked.complete = true
      controller.close()
    },
    cancel: () => void (left = true),
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

function toolPiece({ calls, nonce, words }: RoundPlan, at: number, word: string): object {
  const first = at === 0 ? { id: 'call_1', type: 'function' } : {}
  const json = `${at === 0 ? `{"query":"${queryOf(nonce, '')}` : ''}${word}${at === words - 1 ? '"}' : ''}`
  const text = at === 0 ? { name: calls, arguments: json } : { arguments: json }
  return { tool_calls: [{ index: 0, ...first, function: text }] }
}

// Each is one token of the vocabulary that Weir counts with, as it is one token on this provider's bill.
const lexicon = ['the ', 'river ', 'runs ', 'down ', 'to ', 'a ', 'bank ', 'and ', 'on ', 'again ']

function wordsOf(count: number): string[] {
  return Array.from({ length: count }, (_, at) => lexicon[at % lexicon.length]!)
}

/** Text of `weir.yaml` that sells this provider's model at its own rates. */
export function configOf(provider: BillingProvider, more = ''): string {
  return `
bootstrap: { credit_usd: "100000" }
local_servers: { discover: false }
log: { level: error }
providers:
  lab: { protocol: openai-chat, base_url: ${provider.url}, api_key: lab-secret-of-the-test }
models:
  - id: lab/m
    price: { input: "1", cache_read: "0.1", output: "2" }
    context_length: 131072
    max_output_tokens: 8192
${more}`
}
