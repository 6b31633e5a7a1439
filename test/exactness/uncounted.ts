// Answers that no provider counts, in every kind of the corpus: what is charged against the tokens that were made.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { countTokens, decodeGenerator, encode } from 'gpt-tokenizer/encoding/o200k_base'
import { rates } from '../kill/billing-provider.ts'
import { seeded } from '../simulation/random.ts'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'
import { kinds, textOf } from './corpus.ts'

const ways = ['/chat/completions', '/responses', '/messages'] as const

/** One call: what is asked, what is answered, and how it is cut into deltas. */
interface Plan {
  readonly kind: string
  readonly way: (typeof ways)[number]
  readonly stream: boolean
  /** Tokens in each delta. */
  readonly deltaTokens: number
  /** The provider breaks off behind this many of its deltas; undefined where it comes to its end. */
  readonly cutAfter: number | undefined
  readonly prompt: string
  readonly answer: string
}

/** Sums of the calls of one kind, picodollars. */
export interface KindSums {
  calls: number
  charged: bigint
  due: bigint
}

export interface UncountedReport {
  readonly kinds: Readonly<Record<string, KindSums & { readonly error: number }>>
  readonly broken: readonly string[]
}

/** Makes `callsOfKind` calls of each kind. */
export async function measureUncounted(options: {
  readonly callsOfKind: number
  readonly lanes: number
  readonly seed: number
}): Promise<UncountedReport> {
  const provider = startProvider()
  const weir = await startWeir({ config: configOf(provider.url) })
  const plans = plansOf(options)
  const broken: string[] = []
  const calls: { readonly id: string; readonly plan: Plan }[] = []
  try {
    let next = 0
    const lane = async () => {
      for (let at = next++; at < plans.length; at = next++) {
        const plan = plans[at]!
        provider.plans.set(plan.prompt, plan)
        const answer = await call(weir, plan)
        if (answer.status !== 200) broken.push(`${plan.kind}: ${answer.status} ${answer.text}`)
        calls.push({ id: answer.id, plan })
      }
    }
    await Promise.all(Array.from({ length: options.lanes }, lane))
    return { kinds: sumsOf(calls, chargesIn(weir.dataDir), broken), broken }
  } finally {
    await weir.stop()
    provider.stop()
  }
}

function plansOf({ callsOfKind, seed }: { readonly callsOfKind: number; readonly seed: number }): Plan[] {
  const random = seeded(seed)
  return Array.from({ length: callsOfKind }, (_, at) => at).flatMap((at) =>
    kinds.map((kind) => {
      const text = (characters: number) => textOf(kind, characters, (of) => random.pick(of))
      const stream = at % 4 !== 3
      return {
        kind,
        way: ways[at % ways.length]!,
        stream,
        deltaTokens: random.pick([1, 1, 25]),
        // Rarely: ten answers in a row that break off would have the provider given a rest, and the calls after it refused.
        cutAfter: stream && random.oneIn(8) ? 1 + random.below(20) : undefined,
        // The number makes each prompt another.
        prompt: `${text(200 + random.below(600))} ${at} ${kind}`,
        answer: text(100 + random.below(3_000)),
      }
    }),
  )
}

async function call(weir: RunningWeir, { way, stream, prompt }: Plan) {
  const message = { role: 'user', content: prompt }
  const asked = way === '/responses' ? { input: prompt, store: false } : { messages: [message] }
  const response = await fetch(weir.baseUrl + way, {
    method: 'POST',
    headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'lab/m',
      stream,
      ...asked,
      ...(way === '/messages' ? { max_tokens: 8_000 } : {}),
    }),
  })
  const text = await response.text()
  return { status: response.status, id: response.headers.get('x-request-id') ?? '', text }
}

function sumsOf(
  calls: readonly { readonly id: string; readonly plan: Plan }[],
  charges: ReadonlyMap<string, { readonly charged: bigint; readonly estimated: bigint }>,
  broken: string[],
): UncountedReport['kinds'] {
  const sums: Record<string, KindSums> = {}
  for (const { id, plan } of calls) {
    const booked = charges.get(id)
    if (booked?.estimated !== 1n) {
      broken.push(`${plan.kind}, ${plan.way}: ${id} was ${booked ? 'not estimated' : 'not charged'}`)
      continue
    }
    const sum = (sums[plan.kind] ??= { calls: 0, charged: 0n, due: 0n })
    sum.calls++
    sum.charged += booked.charged
    sum.due += dueOf(plan)
  }
  return Object.fromEntries(
    Object.entries(sums).map(([kind, sum]) => [
      kind,
      { ...sum, error: Number(sum.charged - sum.due) / Number(sum.due) },
    ]),
  )
}

/** What chat formats put around one message and before the answer. */
const framingTokens = 6

function dueOf(plan: Plan): bigint {
  const made = deltasOf(plan).join('')
  return (
    BigInt(countTokens(plan.prompt) + framingTokens) * rates.input + BigInt(countTokens(made)) * rates.output
  )
}

/** The answer in its deltas, as far as the provider goes. A token that is half a character waits for the other half. */
function deltasOf({ answer, stream, deltaTokens, cutAfter }: Plan): string[] {
  if (!stream) return [answer]
  const pieces = [...decodeGenerator(encode(answer))]
  const deltas: string[] = []
  for (let at = 0; at < pieces.length; at += deltaTokens)
    deltas.push(pieces.slice(at, at + deltaTokens).join(''))
  return deltas.slice(0, cutAfter)
}

function chargesIn(dataDir: string) {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true, safeIntegers: true })
  const rows = database
    .query<{ id: string; charged: bigint; estimated: bigint }, []>(
      `SELECT id, charged, estimated FROM call WHERE state = 'settled'`,
    )
    .all()
  database.close()
  return new Map(rows.map((row) => [row.id, row]))
}

/** A chat-completions provider that answers each prompt by its plan and counts nothing. */
function startProvider() {
  const plans = new Map<string, Plan>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const { messages } = (await request.json()) as { messages: { content: Json }[] }
      const plan = plans.get(textIn(messages.at(-1)!.content))
      if (!plan) return Response.json({ error: { message: 'no plan' } }, { status: 400 })
      return plan.stream ? streamed(plan) : whole(plan)
    },
  })
  return { url: `http://127.0.0.1:${server.port}/v1`, plans, stop: () => void server.stop(true) }
}

type Json = string | readonly { readonly text: string }[]

function textIn(content: Json): string {
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('')
}

const same = { id: 'made', created: 1_767_225_600, model: 'm' }

function whole({ answer }: Plan): Response {
  const message = { role: 'assistant', content: answer }
  return Response.json({
    ...same,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
  })
}

function streamed(plan: Plan): Response {
  const event = (delta: object, finish: string | null) =>
    `data: ${JSON.stringify({ ...same, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
  const events = deltasOf(plan).map((content) => event({ content }, null))
  if (plan.cutAfter === undefined) events.push(event({}, 'stop'), 'data: [DONE]\n\n')
  return new Response(events.join(''), { headers: { 'content-type': 'text/event-stream' } })
}

function configOf(url: string): string {
  return JSON.stringify({
    bootstrap: { credit_usd: '100000' },
    local_servers: { discover: false },
    log: { level: 'error' },
    providers: { lab: { protocol: 'openai-chat', base_url: url, api_key: 'lab-secret-of-the-test' } },
    models: [
      {
        id: 'lab/m',
        price: { input: '1', cache_read: '0.1', output: '2' },
        context_length: 131_072,
        max_output_tokens: 8_192,
      },
    ],
  })
}
