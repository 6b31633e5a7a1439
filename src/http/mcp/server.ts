// The tools of the gateway's MCP server. They use only the API, so that they run both inside the gateway and outside,
// in `weir mcp serve`.

import { type CallToolResult, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { searchModel } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { version } from '../../version.ts'

/** Calls the API: a path with query, and a body for POST. Rejects when the signal aborts or nobody answers. */
export type GatewayApi = (path: string, body: object | undefined, signal: AbortSignal) => Promise<Response>

const conversation = {
  model: z.string().describe('The id of a model, such as openai/gpt-5: list_models has them all.'),
  prompt: z.string().optional().describe('What to ask. Either this or messages.'),
  messages: z
    // Some clients take no schema that is empty, which is how "anything" would be written.
    .array(z.looseObject({ role: z.string() }).meta({ additionalProperties: true }))
    .optional()
    .describe('A whole conversation, in the shape of chat completions.'),
  system: z.string().optional().describe('Instructions that come before everything else.'),
  max_tokens: z.int().positive().optional().describe('The longest answer, in tokens.'),
  reasoning_effort: z
    .string()
    .optional()
    .describe('How much to think, where the model can: low, medium, high.'),
}

const chatInput = z.object({
  ...conversation,
  temperature: z.number().optional(),
  max_cost: z.string().optional().describe('The most the call may cost, US dollars, such as "0.05".'),
})
const estimateInput = z.object(conversation)
const modelsInput = z.object({
  q: z.string().optional().describe('Only ids and names that contain this.'),
  provider: z.string().optional().describe('Only models of this provider.'),
  available: z.boolean().optional().describe('Only what can be called now; true unless said otherwise.'),
  limit: z.int().min(1).max(1_000).optional().describe('The most models; 100 unless said otherwise.'),
})

const searchInput = z.object({
  query: z.string().min(1).max(300).describe('What to look for.'),
  allowed_domains: z.array(z.string()).optional().describe('Only these domains and their subdomains.'),
  blocked_domains: z.array(z.string()).optional().describe('Not these domains.'),
  recency: z.enum(['day', 'week', 'month', 'year']).optional().describe('Only pages as new as this.'),
})

const amount = z.string().describe('US dollars, exactly')
const chatOutput = z.object({
  id: z.string().describe('The id of the receipt.'),
  model: z.string(),
  text: z.string(),
  finish_reason: z.string().nullable(),
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  cost: amount,
})
const modelsOutput = z.object({
  models: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      access: z.string(),
      context_length: z.number().nullable(),
      prompt_price: amount.nullable().describe('US dollars per token'),
      completion_price: amount.nullable().describe('US dollars per token'),
    }),
  ),
  more: z.int().describe('Models that were left out.'),
})

const searchOutput = z.object({
  text: z.string().describe('What was found, by its sources.'),
  sources: z.array(z.string()).describe('Addresses of the sources.'),
  cost: amount,
})

const onlyLooks = { readOnlyHint: true, openWorldHint: false }

export function gatewayServer(api: GatewayApi): McpServer {
  const server = new McpServer({ name: 'weir', title: 'Weir', version })
  server.registerTool(
    'chat',
    {
      title: 'Ask a model',
      description:
        'Asks a model of any provider and gives its answer. Charged to the account at the provider’s price.',
      inputSchema: chatInput,
      outputSchema: chatOutput,
      annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: true },
    },
    (given, context) =>
      answerTool(async () => {
        const response = await api('/v1/chat/completions', bodyOf(given), signalOf(context))
        const answer = chatAnswer(await jsonOf(response), response.headers.get('x-request-id'))
        return { content: text(answer.text), structuredContent: answer }
      }),
  )
  server.registerTool(
    'list_models',
    {
      title: 'List models',
      description: 'The models that can be called, with their prices.',
      inputSchema: modelsInput,
      outputSchema: modelsOutput,
      annotations: onlyLooks,
    },
    (given, context) =>
      answerTool(async () => {
        const listed = modelList(
          await jsonOf(await api(modelsPath(given), undefined, signalOf(context))),
          given.limit,
        )
        const lines = listed.models.map(({ id, access }) => (access === 'premium' ? `${id} (premium)` : id))
        const more = listed.more === 0 ? [] : [`… and ${listed.more} more`]
        return {
          content: text([...lines, ...more].join('\n') || 'No model fits.'),
          structuredContent: listed,
        }
      }),
  )
  server.registerTool(
    'estimate',
    {
      title: 'Price of a call',
      description: 'What a call would cost, before it is made. Nothing is called, and nothing charged.',
      inputSchema: estimateInput,
      annotations: onlyLooks,
    },
    (given, context) =>
      answerTool(async () => asIs(await jsonOf(await api('/v1/estimate', bodyOf(given), signalOf(context))))),
  )
  server.registerTool(
    'credits',
    {
      title: 'Credit of the account',
      description: 'The credit of the account by pool, what is held and what was used, in US dollars.',
      inputSchema: z.object({}),
      annotations: onlyLooks,
    },
    (_, context) =>
      answerTool(async () => {
        const { data } = z
          .object({ data: z.record(z.string(), z.json()) })
          .parse(await jsonOf(await api('/v1/credits', undefined, signalOf(context))))
        return asIs(data)
      }),
  )
  server.registerTool(
    'web_search',
    {
      title: 'Search the web',
      description:
        'Searches the web. Charged to the account at the price of one search; one that fails costs nothing.',
      inputSchema: searchInput,
      outputSchema: searchOutput,
      annotations: { readOnlyHint: true, openWorldHint: true },
    },
    (given, context) =>
      answerTool(async () => {
        const found = searchAnswer(
          await jsonOf(await api('/v1/responses', searchBody(given), signalOf(context))),
        )
        return { content: text(found.text), structuredContent: found }
      }),
  )
  return server
}

/** Errors of the API become results of the tool, so that the model can react. */
async function answerTool(work: () => Promise<CallToolResult>): Promise<CallToolResult> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Refused) return { content: text(error.message), isError: true }
    throw error
  }
}

class Refused extends Error {}

const refusal = z.object({ error: z.object({ message: z.string(), code: z.string().nullish() }) })

/** Throws Refused if the API answered with an error. */
async function jsonOf(response: Response): Promise<unknown> {
  const json: unknown = await response.json().catch(() => undefined)
  if (response.ok && json !== undefined) return json
  const read = refusal.safeParse(json)
  if (!read.success) throw new Refused(`The gateway answered with status ${response.status}.`)
  const { message, code } = read.data.error
  throw new Refused(code ? `${message} (${code})` : message)
}

type Conversation = z.infer<typeof chatInput> | z.infer<typeof estimateInput>

/** The call as a chat completion. Throws Refused. */
function bodyOf({ prompt, messages, system, ...rest }: Conversation): JsonObject {
  if ((prompt === undefined) === (messages === undefined)) {
    throw new Refused('Give either a prompt or messages.')
  }
  const asked = messages ?? [{ role: 'user', content: prompt }]
  const all = system === undefined ? asked : [{ role: 'system', content: system }, ...asked]
  return { ...rest, messages: all } as JsonObject
}

const completion = z.object({
  id: z.string(),
  model: z.string(),
  choices: z
    .array(
      z.object({
        message: z.object({ content: z.string().nullish(), refusal: z.string().nullish() }),
        finish_reason: z.string().nullable(),
      }),
    )
    .min(1),
  usage: z.object({
    prompt_tokens: z.number(),
    completion_tokens: z.number(),
    cost_details: z.object({ total: z.string() }),
  }),
})

function chatAnswer(json: unknown, requestId: string | null): z.infer<typeof chatOutput> {
  const { id, model, choices, usage } = completion.parse(json)
  const { message, finish_reason } = choices[0]!
  return {
    id: requestId ?? id,
    model,
    text: message.content ?? message.refusal ?? '',
    finish_reason,
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    cost: usage.cost_details.total,
  }
}

/** A search without a model's answer: the simulated model calls the tool, costs nothing and exists in every gateway. */
function searchBody({
  query,
  allowed_domains,
  blocked_domains,
  recency,
}: z.infer<typeof searchInput>): JsonObject {
  const filters = {
    ...(allowed_domains === undefined ? {} : { allowed_domains }),
    ...(blocked_domains === undefined ? {} : { blocked_domains }),
  }
  const tool = { type: 'web_search', filters, ...(recency === undefined ? {} : { recency }) }
  const choice = { type: 'web_search' }
  return {
    model: searchModel,
    input: query,
    tools: [tool],
    tool_choice: choice,
    max_tool_calls: 1,
    store: false,
  }
}

const searched = z.object({
  output: z.array(
    z.looseObject({
      type: z.string(),
      status: z.string().optional(),
      output: z.string().optional(),
      action: z.looseObject({ sources: z.array(z.looseObject({ url: z.string() })).optional() }).optional(),
    }),
  ),
  usage: z.object({ cost_details: z.object({ total: z.string() }) }),
})

/** Throws Refused for a search that failed. */
function searchAnswer(json: unknown): z.infer<typeof searchOutput> {
  const { output, usage } = searched.parse(json)
  const search = output.find(({ type }) => type === 'web_search_call')
  if (search?.status !== 'completed') throw new Refused(search?.output ?? 'The search could not be made.')
  return {
    text: search.output ?? '',
    sources: (search.action?.sources ?? []).map(({ url }) => url),
    cost: usage.cost_details.total,
  }
}

const catalog = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      name: z.string(),
      access: z.string(),
      context_length: z.number().nullish(),
      pricing: z.object({ prompt: z.string().optional(), completion: z.string().optional() }).nullish(),
    }),
  ),
})

function modelsPath({ q, provider, available = true }: z.infer<typeof modelsInput>): string {
  const query = new URLSearchParams()
  if (q !== undefined) query.set('q', q)
  if (provider !== undefined) query.set('provider', provider)
  if (available) query.set('available', 'true')
  return `/v1/models?${query}`
}

function modelList(json: unknown, limit = 100): z.infer<typeof modelsOutput> {
  const { data } = catalog.parse(json)
  return {
    models: data.slice(0, limit).map(({ id, name, access, context_length, pricing }) => ({
      id,
      name,
      access,
      context_length: context_length ?? null,
      prompt_price: pricing?.prompt ?? null,
      completion_price: pricing?.completion ?? null,
    })),
    more: Math.max(0, data.length - limit),
  }
}

function asIs(json: unknown): CallToolResult {
  return {
    content: text(JSON.stringify(json, undefined, 2)),
    structuredContent: z.record(z.string(), z.unknown()).parse(json),
  }
}

function text(value: string): CallToolResult['content'] {
  return [{ type: 'text', text: value }]
}

function signalOf(context: { readonly mcpReq: { readonly signal: AbortSignal } }): AbortSignal {
  return context.mcpReq.signal
}
