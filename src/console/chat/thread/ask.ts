// One request of the chat: the stream of a response, event by event, then its cost.

import { EventSourceParserStream } from 'eventsource-parser/stream'
import { send } from '../../api/call.ts'
import type { Receipt } from '../../api/wire.ts'
import type { StreamEvent } from './thread.ts'

export interface Question {
  /** Which the gateway notes to stand at the answer, even if this page is gone by then. */
  readonly conversation: string
  readonly model: string
  readonly previous: string | null
  readonly input: readonly object[]
  /** Whether the model reasons: then a summary is requested. */
  readonly reasons: boolean
  /** Whether it may search the web. */
  readonly searches: boolean
  /** The registered MCP servers whose tools it may use, each call with the user's approval. */
  readonly servers: readonly string[]
}

/** How long an answer may take to begin, milliseconds. The gateway's own limits are shorter, and the user can stop it. */
const beginsWithinMs = 3_600_000

/** Resolves with the id of the request once the gateway has begun to answer. Rejects with CallError. */
export async function* ask(
  { conversation, model, previous, input, reasons, searches, servers }: Question,
  signal: AbortSignal,
  begun: (requestId: string | null) => void,
): AsyncGenerator<StreamEvent> {
  const tools = [
    ...(searches ? [{ type: 'web_search' }] : []),
    ...servers.map((name) => ({ type: 'mcp', server_label: name, require_approval: 'always' })),
  ]
  const body = {
    model,
    input,
    stream: true,
    store: true,
    ...(reasons ? { reasoning: { summary: 'auto' } } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(previous === null ? {} : { previous_response_id: previous }),
  }
  const question = {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-weir-conversation': conversation },
    body: JSON.stringify(body),
    signal,
  }
  const response = await send('/app/v1/responses', question, beginsWithinMs)
  begun(response.headers.get('x-request-id'))
  const events = response
    .body!.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
  const reader = events.getReader()
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    yield JSON.parse(next.value.data) as StreamEvent
  }
}

const settleWithinMs = 8_000
const askEveryMs = 250

/** The receipt of a call once it is settled, which a stopped call is at once; undefined if it is not settled. */
export async function settledReceipt(id: string): Promise<Receipt | undefined> {
  const until = Date.now() + settleWithinMs
  while (Date.now() < until) {
    try {
      const response = await send(`/app/v1/generation?id=${encodeURIComponent(id)}`)
      const { data } = (await response.json()) as { data: Receipt }
      if (data.state !== 'open') return data
    } catch {
      // The call is not settled yet.
    }
    await new Promise((resolve) => setTimeout(resolve, askEveryMs))
  }
  return undefined
}
