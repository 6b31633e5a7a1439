// A call whose tools the gateway runs, without a server of ours: a provider that plays one turn a round, and tools that
// do as the test says.

import { complete } from '../../../src/chat/complete.ts'
import type { Model } from '../../../src/catalog/row.ts'
import type { ChatLimits } from '../../../src/chat/call.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import type { ToolResult } from '../../../src/conversation/gateway-tools.ts'
import { receiptOf } from '../../../src/credits/ledger/receipt.ts'
import { type Pico, usd } from '../../../src/credits/money.ts'
import type { EndedCall } from '../../../src/observe/call-log.ts'
import type { GatewayTool } from '../../../src/tools/tool.ts'
import { openStore } from '../../../src/store/open.ts'
import { grantOf } from '../../credits/support.ts'
import {
  chunk,
  delta,
  done,
  lastChunk,
  plain,
  type Script,
  startScriptedProvider,
  streamHead,
  usageEvent,
} from '../../support/scripted-provider.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'
import { providerOf } from '../support.ts'

/** What the model does in one round. */
export interface Turn {
  readonly text?: string
  readonly thought?: string
  readonly calls?: readonly { readonly name: string; readonly arguments?: string }[]
  readonly finish?: string
  readonly usage?: { readonly prompt: number; readonly completion: number }
  /** A status that the provider answers with instead. */
  readonly status?: number
  /** Comments follow the end of a stream until the gateway closes it. */
  readonly comments?: boolean
  /** Plays the stream itself. */
  readonly script?: Script
}

export const look = { calls: [{ name: 'web_search', arguments: '{"query":"rivers"}' }] } satisfies Turn
export const answer = { text: 'The river runs.' } satisfies Turn

const usual = { prompt: 12, completion: 4 }

function wireCalls({ calls = [] }: Turn, round: number): JsonObject[] {
  return calls.map(({ name, arguments: json = '{}' }, index) => ({
    index,
    id: `call_${round}_${index}`,
    type: 'function',
    function: { name, arguments: json },
  }))
}

function scriptOf(turn: Turn, round: number, streams: boolean): Script {
  if (turn.script) return turn.script
  const { text = null, thought, calls = [], usage = usual, status } = turn
  if (status !== undefined)
    return (wire) => void wire.write(plain(status, 'application/json', '{"error":{"message":"no"}}'))
  const finish = turn.finish ?? (calls.length > 0 ? 'tool_calls' : 'stop')
  const counted = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
  }
  const said = {
    role: 'assistant',
    content: text,
    ...(thought === undefined ? {} : { reasoning_content: thought }),
    ...(calls.length === 0 ? {} : { tool_calls: wireCalls(turn, round) }),
  }
  if (!streams) {
    const choices = [{ index: 0, message: said, finish_reason: finish }]
    const body = JSON.stringify({ id: `cmpl_${round}`, model: 'm', choices, usage: counted })
    return (wire) => void wire.write(plain(200, 'application/json', body))
  }
  return async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(delta(said) + delta({}, finish) + usageEvent(counted) + done))
    while (turn.comments && (await wire.write(chunk(': still here\n\n')))) await Bun.sleep(20)
    await wire.write(lastChunk)
  }
}

export function ran(text: string, more: Partial<ToolResult> = {}): ToolResult {
  return { text, cost: 0n, searches: 1, ...more }
}

export function toolOf(
  run: GatewayTool['run'] = () => Promise.resolve(ran('A river.')),
  more: Partial<GatewayTool> = {},
): GatewayTool {
  return {
    preferredName: 'web_search',
    description: 'Searches.',
    parameters: { type: 'object', properties: { query: { type: 'string' } } },
    origin: { kind: 'web-search' },
    mostCost: 0n,
    run,
    ...more,
  }
}

interface LabOptions {
  readonly turns: readonly Turn[]
  readonly tools?: readonly GatewayTool[]
  readonly credit?: Pico
  readonly limits?: Partial<ChatLimits>
  /** Further providers of the same model, who play the turns as well. */
  readonly others?: readonly string[]
  readonly model?: Partial<Model>
}

export async function toolLab({
  turns,
  tools = [toolOf()],
  credit = usd(10),
  limits,
  others = [],
  model: more = {},
}: LabOptions) {
  const dir = tempDir()
  const store = await openStore(dir.path, { clock: () => Date.now() })
  await store.ledger.grant(grantOf('g', credit))
  let round = 0
  const upstream = await startScriptedProvider({}, ({ stream }) => {
    const turn = turns[Math.min(round, turns.length - 1)]!
    round += 1
    return scriptOf(turn, round, stream === true)
  })
  const ids = ['a', ...others]
  const providers = ids.map((id) => providerOf(id, { baseUrl: upstream.url.replace('/v1', `/${id}/v1`) }))
  let closed = 0
  const sources = () => ({
    open: () => Promise.resolve({ tools, items: [] }),
    close: () => {
      closed += 1
      return Promise.resolve()
    },
  })
  const bare = partsOf(store, providers, limits)
  const models = (id: string) => {
    const model = bare.catalog.resolve(id)
    const [offer] = model.offers
    return { ...model, ...more, offers: ids.map((provider) => ({ ...offer!, provider })) }
  }
  const parts: { -readonly [Part in keyof typeof bare]: (typeof bare)[Part] } = {
    ...bare,
    catalog: { resolve: models, member: models },
    toolSources: { 'web-search': sources, mcp: sources },
  }
  let calls = 0

  /** Asks, and leaves the reading to the test. */
  function open(body: JsonObject, signal?: AbortSignal, stopping?: AbortSignal): Promise<Response> {
    calls += 1
    const asked = { model: 'a/m', tools: [{ type: 'web_search' }], ...body }
    const call = { ...callOf(asked, signal), requestId: `call_${calls}` }
    return complete(parts, stopping === undefined ? call : { ...call, stopping })
  }

  /** Asks, and reads what comes to its end. */
  async function ask(body: JsonObject) {
    const response = await open(body)
    const text = await response.text()
    return { response, text, ...readChat(text) }
  }

  return {
    ask,
    open,
    /** Resolves with the call that ends next. */
    ended() {
      const { promise, resolve } = Promise.withResolvers<EndedCall>()
      parts.onCallEnded = resolve
      return promise
    },
    parts,
    store,
    upstream,
    /** The messages of each request to the provider. */
    get asked() {
      return upstream.arrivals.map(({ body }) => body['messages'] as JsonObject[])
    },
    get closed() {
      return closed
    },
    async receipt(id = `call_${calls}`) {
      const record = await store.ledger.call('anna', id)
      return receiptOf(record!)
    },
    /** What of the account's credit is set aside. */
    async pinned() {
      const { lots } = await store.ledger.balance('anna')
      return lots.reduce((sum, { pinned }) => sum + pinned, 0n)
    },
    async [Symbol.asyncDispose]() {
      await upstream.stop()
      await store.close()
      dir[Symbol.dispose]()
    },
  }
}

interface ChatChunk {
  readonly choices?: readonly {
    readonly delta?: JsonObject
    readonly message?: JsonObject
    readonly finish_reason?: string | null
  }[]
  readonly usage?: JsonObject | null
  readonly error?: JsonObject
  readonly metadata?: JsonObject
}

/** A chat answer, whole or streamed, in the same words. */
function readChat(text: string) {
  const bodies = text.startsWith('{')
    ? [text]
    : text
        .split('\n')
        .filter((line) => line.startsWith('data: {'))
        .map((line) => line.slice(6))
  const chunks = bodies.map((body) => JSON.parse(body) as ChatChunk)
  const said = chunks.flatMap(({ choices }) =>
    (choices ?? []).map((each) => each.delta ?? each.message ?? {}),
  )
  const lists = (field: string) => said.flatMap((each) => (each[field] ?? []) as JsonObject[])
  return {
    chunks,
    content: said.map((each) => each['content'] ?? '').join(''),
    finishes: chunks.flatMap(({ choices }) => (choices ?? []).flatMap((each) => each.finish_reason ?? [])),
    roles: said.flatMap((each) => each['role'] ?? []),
    runs: lists('web_search_calls'),
    toolCalls: lists('tool_calls'),
    reasoning: lists('reasoning_details'),
    annotations: lists('annotations'),
    usage: chunks.findLast(({ usage }) => usage != null)?.usage,
    error: chunks.find(({ error }) => error !== undefined)?.error,
    stoppedBy: chunks.findLast(({ metadata }) => metadata !== undefined)?.metadata?.['stopped_by'],
  }
}
