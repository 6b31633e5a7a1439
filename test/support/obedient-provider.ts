// A provider of chat completions and Responses whose model does what it is told: a message of the user that is
// `{"call": [[tool, arguments], …]}` has it call those tools, and what they give is its answer. A text in place of the
// arguments is the input of a custom tool.

interface WireMessage {
  readonly role: string
  readonly content: unknown
}

interface ChatRequest {
  readonly messages: readonly WireMessage[]
  readonly tools?: readonly {
    readonly function?: { readonly name: string }
    readonly custom?: { readonly name: string }
  }[]
  readonly stream?: boolean
}

interface WireTool {
  readonly type: string
  readonly name?: string
  readonly tools?: readonly WireTool[]
}

interface WireItem extends Readonly<Record<string, unknown>> {
  readonly type?: string
  readonly role?: string
  readonly tools?: readonly WireTool[]
}

interface ResponsesRequest {
  readonly input: readonly WireItem[]
  readonly tools?: readonly WireTool[]
}

export interface ObedientProvider {
  /** The base URL to configure. */
  readonly url: string
  /** The bodies of all requests for chat completions, and for responses. */
  readonly requests: readonly ChatRequest[]
  readonly responses: readonly ResponsesRequest[]
  stop(): Promise<void>
}

export function startObedientProvider(): ObedientProvider {
  const requests: ChatRequest[] = []
  const responses: ResponsesRequest[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body: unknown = await request.json()
      if (request.url.endsWith('/responses')) {
        responses.push(body as ResponsesRequest)
        return response(body as ResponsesRequest, responses.length)
      }
      requests.push(body as ChatRequest)
      return completion(body as ChatRequest)
    },
  })
  return { url: `http://127.0.0.1:${server.port}/v1`, requests, responses, stop: () => server.stop(true) }
}

const sse = { headers: { 'content-type': 'text/event-stream' } }

// ---- chat completions -------------------------------------------------------------------------------------

function completion(body: ChatRequest): Response {
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
  return new Response(text, sse)
}

function answerTo({ messages, tools = [] }: ChatRequest) {
  const last = messages.at(-1)
  const told = last?.role === 'user' ? commandsIn(textOf(last.content)) : undefined
  if (told === undefined) {
    const after = messages.findLastIndex(({ role }) => role === 'assistant')
    const results = messages.slice(after + 1).map(({ content }) => textOf(content))
    return { content: `Given: ${results.join('\n')}` }
  }
  const calls = told.map(([tool, args], index) => {
    const names = tools.map((each) => each.function?.name ?? each.custom?.name ?? '')
    const name = names.includes(tool) ? tool : names.find((each) => each.endsWith(`__${tool}`))
    const id = `call_${messages.length}_${index}`
    if (tools[names.indexOf(name ?? tool)]?.custom)
      return { index, id, type: 'custom', custom: { name: name ?? tool, input: String(args) } }
    return {
      index,
      id,
      type: 'function',
      function: {
        name: name ?? tool,
        arguments: JSON.stringify(typeof args === 'string' ? { input: args } : args),
      },
    }
  })
  return { content: null, tool_calls: calls }
}

// ---- responses --------------------------------------------------------------------------------------------

function response({ input, tools = [] }: ResponsesRequest, nth: number): Response {
  const last = input.at(-1)
  const told = last?.role === 'user' ? commandsIn(textOf(last['content'])) : undefined
  const output = told?.map(([tool, args], at) =>
    calledItem(tool, args, `${nth}_${at}`, toolsOf(tools, input)),
  )
  const items = output ?? [saidItem(input, nth)]
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 }
  const whole = { id: `resp_${nth}`, object: 'response', model: 'm' }
  const events = [
    { type: 'response.created', response: { ...whole, status: 'in_progress', output: [] } },
    ...items.flatMap((item, output_index) => [
      { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress' } },
      { type: 'response.output_item.done', output_index, item: { ...item, status: 'completed' } },
    ]),
    { type: 'response.completed', response: { ...whole, status: 'completed', output: items, usage } },
  ]
  const frames = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  return new Response(frames.join(''), sse)
}

/** All tools that are declared, with the namespace of each. */
function toolsOf(tools: readonly WireTool[], input: readonly WireItem[]) {
  const declared = [...tools, ...input.flatMap((item) => item.tools ?? [])]
  return declared.flatMap((tool) =>
    tool.type === 'namespace'
      ? (tool.tools ?? []).map((each) => ({ ...each, namespace: tool.name }))
      : [{ ...tool, namespace: undefined }],
  )
}

function calledItem(tool: string, args: unknown, id: string, tools: ReturnType<typeof toolsOf>) {
  const declared = tools.find(({ name, namespace }) => [name, `${namespace}__${name}`].includes(tool))
  const within = declared?.namespace === undefined ? {} : { namespace: declared.namespace }
  const named = { id: `item_${id}`, call_id: `call_${id}`, name: declared?.name ?? tool, ...within }
  return declared?.type === 'custom'
    ? { type: 'custom_tool_call', ...named, input: String(args) }
    : { type: 'function_call', ...named, arguments: JSON.stringify(args) }
}

function saidItem(input: readonly WireItem[], nth: number) {
  const after = input.findLastIndex(({ type, role }) => role === 'assistant' || type?.endsWith('_call'))
  const results = input.slice(after + 1).map((item) => textOf(item['output'] ?? item['content']))
  const content = [{ type: 'output_text', text: `Given: ${results.join('\n')}`, annotations: [] }]
  return { type: 'message', id: `msg_${nth}`, role: 'assistant', content }
}

function textOf(content: unknown): string {
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
