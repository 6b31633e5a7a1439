// A provider of chat completions whose model does what it is told: a message of the user that is `{"call": [[tool,
// arguments], …]}` has it call those tools, and what they give is its answer.

interface WireMessage {
  readonly role: string
  readonly content: unknown
}

interface WireRequest {
  readonly messages: readonly WireMessage[]
  readonly tools?: readonly { readonly function: { readonly name: string } }[]
  readonly stream?: boolean
}

export interface ObedientProvider {
  /** The base URL to configure. */
  readonly url: string
  /** The bodies of all requests. */
  readonly requests: readonly WireRequest[]
  stop(): Promise<void>
}

export function startObedientProvider(): ObedientProvider {
  const requests: WireRequest[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = (await request.json()) as WireRequest
      requests.push(body)
      const message = answerTo(body)
      const finish = 'tool_calls' in message ? 'tool_calls' : 'stop'
      const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
      const head = { id: 'chatcmpl-1', created: 1, model: 'm' }
      if (body.stream !== true) {
        const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }]
        return Response.json({ ...head, object: 'chat.completion', choices, usage })
      }
      const chunk = (choices: unknown[], more: object = {}) =>
        `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, ...more })}\n\n`
      const text = [
        chunk([{ index: 0, delta: { role: 'assistant', ...message }, finish_reason: null }]),
        chunk([{ index: 0, delta: {}, finish_reason: finish }]),
        chunk([], { usage }),
        'data: [DONE]\n\n',
      ].join('')
      return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  return { url: `http://127.0.0.1:${server.port}/v1`, requests, stop: () => server.stop(true) }
}

function answerTo({ messages, tools = [] }: WireRequest) {
  const last = messages.at(-1)
  const told = last?.role === 'user' ? commandsIn(textOf(last)) : undefined
  if (told === undefined) {
    const after = messages.findLastIndex(({ role }) => role === 'assistant')
    const results = messages.slice(after + 1).map(textOf)
    return { content: `Given: ${results.join('\n')}` }
  }
  const calls = told.map(([tool, args], index) => {
    const names = tools.map((each) => each.function.name)
    const name = names.includes(tool) ? tool : names.find((each) => each.endsWith(`__${tool}`))
    return {
      index,
      id: `call_${messages.length}_${index}`,
      type: 'function',
      function: { name: name ?? tool, arguments: JSON.stringify(args) },
    }
  })
  return { content: null, tool_calls: calls }
}

function textOf({ content }: WireMessage): string {
  if (!Array.isArray(content)) return String(content)
  return content.map((part: { text?: string; type: string }) => part.text ?? `<${part.type}>`).join('')
}

function commandsIn(text: string): [string, unknown][] | undefined {
  try {
    return (JSON.parse(text) as { call?: [string, unknown][] }).call
  } catch {
    return undefined
  }
}
