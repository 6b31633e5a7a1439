// Settings of calls: time limits, buffers, sizes and rates.

import { z } from 'zod'
import { ignorableParameters } from '../protocols/openai/parameters.ts'
import { protocolIds } from '../protocols/protocol.ts'
import { baseUrl, day, milliseconds, note, secret, section, usdText, whole, wholeBetween } from './fields.ts'
import { ExpressionFault, readExpression } from '../guards/expression.ts'
import { guardEvents } from '../guards/guards.ts'
import { type MaskShape, shapes } from '../guards/masks.ts'

export const timeoutSettings = section({
  connect_ms: milliseconds('Reaching a provider', 5_000),
  first_byte_ms: milliseconds("A provider's first byte", 60_000),
  first_byte_reasoning_ms: milliseconds(
    'The first byte of a model that reasons, of one that is asked to, and of a local server; a ping starts it anew',
    600_000,
  ),
  first_token_ms: milliseconds(
    'The first content of a stream where another candidate waits: not of a model that may think; a long prompt has a second more for each 20 kB',
    10_000,
  ),
  gap_ms: milliseconds("Silence within a provider's answer", 60_000),
  reasoning_gap_ms: milliseconds(
    'The same of a model that reasons or is asked to, and of a local server',
    600_000,
  ),
  tool_ms: milliseconds('One call of a tool that the gateway runs for a model', 30_000),
  total_ms: milliseconds('A whole call', 1_800_000),
  socket_ms: milliseconds('A WebSocket; its last response is finished first', 3_600_000),
  client_stall_ms: milliseconds('A client that takes no byte of its answer', 60_000),
  drain_ms: milliseconds('Reading a stream on for its exact usage after the client has left', 60_000),
  leave_ms: milliseconds(
    'Taking calls after /readyz has said no, when the gateway stops: as long as a balancer needs to notice',
    0,
    0,
    600_000,
  ),
  shutdown_ms: milliseconds('Waiting for calls in flight when the gateway stops', 600_000, 0),
})

export const streamSettings = section({
  keepalive_ms: milliseconds(
    'Silence after which a streaming client gets a keep-alive comment',
    15_000,
    100,
    300_000,
  ),
  buffer_bytes: whole(
    'The most that is buffered for a client that reads slowly',
    262_144,
    4096,
    64 * 1024 ** 2,
  ),
  total_buffer_bytes: whole(
    'The most that is buffered for all clients together; accounts with clients that read slowly have equal shares of it, and one share is left free',
    64 * 1024 ** 2,
    1024 ** 2,
    64 * 1024 ** 3,
  ),
  checkpoint_ms: milliseconds('How often the progress of a stream is made durable', 2_000, 50, 60_000),
  checkpoint_tokens: whole(
    'The output tokens after which the progress of a stream is made durable',
    1_000,
    1,
    1_000_000,
  ),
})

export const limitSettings = section({
  // Bun's fetch stops at 65,336 concurrent requests whatever the setting.
  max_connections_upstream: whole(
    'Requests to providers at one time; an account may have as many as are left free for all others',
    4_096,
    1,
    65_336,
  ),
  arrived_bytes: whole(
    'How much of the answers of providers may wait to be worked through before further providers are asked',
    4 * 1024 ** 2,
    65_536,
    64 * 1024 ** 3,
  ),
  requests_in_flight: whole(
    'Requests of models at one time; more are refused with 503. Simulated ones and those of test keys are counted apart, with the same limit',
    4_096,
    1,
    1_000_000,
  ),
  requests_in_flight_per_account: whole(
    'Requests of one account at one time; more are refused with 429. 0: as many as are left free for all others, which is half of `requests_in_flight` for an account that is alone',
    0,
    0,
    1_000_000,
  ),
  background_per_account: whole(
    'Responses of one account that are made in the background at one time',
    50,
    0,
    100_000,
  ),
  sockets_per_account: whole('Open WebSockets of one account, in each process', 100, 1, 100_000),
  attempts: whole('Tries of one call, over all providers, before the first byte', 3, 1, 20),
  tool_calls: whole(
    'Calls of tools that the gateway runs for one request, where it names no `max_tool_calls`; a request may name up to 30',
    10,
    1,
    30,
  ),
  json_depth: whole('How deep the JSON of a request may nest', 64, 4, 1_000),
  // A generated image is one event, as base64, so a megabyte would be too little. The limit bounds the memory that a
  // malicious provider can take for each open stream.
  sse_event_bytes: whole(
    'The largest single event of a provider stream',
    8 * 1024 ** 2,
    4096,
    64 * 1024 ** 2,
  ),
  upstream_body_bytes: whole('The largest whole answer of a provider', 20 * 1024 * 1024, 4096, 1024 ** 3),
  upstream_stream_bytes: whole(
    'The largest streamed answer of a provider, all its events together; what was delivered of a larger one is charged',
    512 * 1024 ** 2,
    4096,
    64 * 1024 ** 3,
  ),
})

export const rateLimitSettings = section({
  key_requests_per_minute: whole('Requests of one key in a minute; 0 is no limit', 0, 0, 10_000_000),
  key_tokens_per_minute: whole('Tokens of one key in a minute; 0 is no limit', 0, 0, 1_000_000_000),
  free_bytes_per_minute: whole(
    'How much one account, or one network without a key, reads of lists of models, documentation and pages in a minute, bytes; 0 is no limit',
    64 * 1024 ** 2,
    0,
    1024 ** 4,
  ),
  account_requests_per_minute: whole('Requests of one account in a minute; 0 is no limit', 0, 0, 10_000_000),
})

// The settings of the tools that the gateway runs for models: web search and MCP servers.

export const searchSettings = section({
  backend: note(
    z.enum(['none', 'searxng', 'tavily', 'brave', 'exa', 'sim']).default('none'),
    'What answers web searches of models whose provider has none of its own; sim is an offline index of a few dozen ' +
      'bundled pages, for trying it out. Test keys always search that index',
  ),
  base_url: note(baseUrl.optional(), 'Its address, where it is not the public one'),
  api_key: note(secret.optional(), 'Its key: text, ${ENVIRONMENT_NAME} or file:/path', { secret: true }),
  price_per_call: note(
    usdText.optional(),
    'What one executed search costs the account, US dollars; unset, what the backend says it cost, or its list price ' +
      '(searxng 0, tavily 0.008, brave 0.005, exa as it reports)',
  ),
  timeout_ms: milliseconds('How long one search may take', 10_000, 1, 300_000),
  max_results: whole('The most results handed to the model', 5, 1, 50),
  open_pages: note(
    z.boolean().default(true),
    'Whether models that may search may also open pages, which the gateway fetches (open_page)',
  ),
  page_bytes: whole('The largest page that is opened', 2 * 1024 ** 2, 1024, 16 * 1024 ** 2),
  page_read_ms: milliseconds('How long turning a page into text may take', 2_000, 10, 60_000),
})

export const mcpSettings = section({
  answer_bytes: whole(
    'The largest answer of an MCP server, and the largest list of its tools, over all pages',
    10 * 1024 ** 2,
    1024,
    256 * 1024 ** 2,
  ),
  call_bytes: whole(
    'The most that all MCP servers of one call may send: lists of tools and results together',
    32 * 1024 ** 2,
    1024,
    1024 ** 3,
  ),
  tools: whole('Tools of one MCP server that a model is offered', 128, 1, 1_000),
})

// The settings of a provider: of a known one what deviates from its row, of another all of it.

const providerTimeouts = {
  connect_ms: note(wholeBetween(1, day), 'Overrides timeouts.connect_ms for this provider'),
  first_byte_ms: note(wholeBetween(1, day), 'Overrides timeouts.first_byte_ms for this provider'),
  first_byte_reasoning_ms: note(
    wholeBetween(1, day),
    'Overrides timeouts.first_byte_reasoning_ms for this provider',
  ),
  first_token_ms: note(wholeBetween(1, day), 'Overrides timeouts.first_token_ms for this provider'),
  gap_ms: note(wholeBetween(1, day), 'Overrides timeouts.gap_ms for this provider'),
  reasoning_gap_ms: note(wholeBetween(1, day), 'Overrides timeouts.reasoning_gap_ms for this provider'),
  total_ms: note(wholeBetween(1, day), 'Overrides timeouts.total_ms for this provider'),
}

/** One address of a provider, or one contract with it. */
const deploymentSchema = z.strictObject({
  base_url: baseUrl.optional(),
  api_key: z
    .union([secret.transform((key) => [key]), z.array(secret)], { error: 'must be text, or a list of it' })
    .default([]),
  region: z.string().min(1).max(64).optional(),
  weight: z.number().positive().max(1_000_000).default(1),
  requests_per_minute: wholeBetween(1, 100_000_000).optional(),
  tokens_per_minute: wholeBetween(1, 1_000_000_000_000).optional(),
  max_in_flight: wholeBetween(1, 1_000_000).optional(),
})

export const providerSchema = z.strictObject({
  name: note(z.string().min(1).optional(), 'What people call it'),
  protocol: note(
    z.enum(protocolIds).optional(),
    'The wire protocol it speaks; the registry knows that of known providers',
  ),
  base_url: note(
    baseUrl.optional(),
    'Its address up to and including the version segment; the protocol appends the rest',
  ),
  api_key: note(
    z
      .union([secret.transform((key) => [key]), z.array(secret)], { error: 'must be text, or a list of it' })
      .default([]),
    'Its key, or a list of keys used in turn: text, ${ENVIRONMENT_NAME} or file:/path',
    { secret: true },
  ),
  deployments: note(
    z.array(deploymentSchema).max(64).default([]),
    'Several addresses or contracts of it, each with `base_url`, `api_key` (those of the provider where it has none), ' +
      '`region` (for people), `weight` (its share of the calls) and limits that are kept ahead of its 429: ' +
      '`requests_per_minute`, `tokens_per_minute` (the prompt and the most that was asked for), `max_in_flight`; each ' +
      'process of the gateway keeps its part of them',
    { secret: true },
  ),
  headers: note(
    z.record(z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/), z.string().regex(/^[^\r\n\0]*$/)).default({}),
    'Fixed headers sent with every request to it',
    { secret: true },
  ),
  quirks: note(
    z.record(z.string(), z.unknown()).default({}),
    "What deviates from the protocol's defaults. `passes` lists further fields of clients' bodies that go on although " +
      'the gateway has no word for them: any that might change the price or the length of an answer does not; ' +
      '`bodyExtras` are fields of every request, whatever clients say of them; `prefill` says how its models are made to go ' +
      'on with an answer that is begun (`as-it-is`, `prefix`, `partial`, `template`); `dialects: false` keeps models that ' +
      "reason in the provider's own protocol, for an address that serves no other (OpenAI's, Azure's and xAI's are asked in Responses)",
  ),
  ignores: note(
    z.array(z.enum(ignorableParameters)).default([]),
    'Parameters, by their names in chat completions, that it takes and ignores: each is left out, named to the client, ' +
      "and refused where the request is strict. Without this a server is believed to know what its protocol defines, but for OpenAI's own extras " +
      '(metadata, store, service_tier, verbosity, safety_identifier, prompt_cache_key, prompt_cache_retention, prompt_cache_options), ' +
      'which are left out and named unless quirks.drops says otherwise',
  ),
  data_policy: note(
    z.enum(['no_training', 'zero_retention']).optional(),
    'What it has promised you of what it is sent. Requests with `provider.data_collection: deny` go to providers with either, ' +
      'those with `provider.zdr: true` to `zero_retention` alone; your own servers count as that',
  ),
  mark_cache: note(
    z.boolean().default(false),
    'Marks the tools, the instructions and the last turns of requests to its Claude models for its cache, where the client has ' +
      'marked nothing: cached input costs a tenth, and writing it a quarter more',
  ),
  timeouts: z.strictObject(providerTimeouts).partial().prefault({}),
  price: note(
    z.literal('free').optional(),
    '`free` sells its models without a price of their own for nothing, on purpose; for `sim`, all of them',
  ),
  disabled: note(z.boolean().default(false), 'Takes the provider out of service'),
})

// Settings of what looks at the texts of calls: masks, and hooks.

const on = z
  .array(z.enum(guardEvents))
  .min(1)
  .refine((events) => new Set(events).size === events.length, 'names one twice')
  .default([...guardEvents])

const hookSchema = z.strictObject({
  url: baseUrl,
  on,
  timeout_ms: wholeBetween(1, 30_000).default(5_000),
  fail: z.enum(['closed', 'open']).default('closed'),
  secret: z
    .string()
    .refine(
      (text) => (text.startsWith('whsec_') ? Buffer.from(text.slice(6), 'base64').length : text.length) >= 16,
      'must be whsec_ and base64 of at least 16 bytes, or 16 characters of text',
    ),
})

export const hookSettings = note(
  z.array(hookSchema).max(10).default([]),
  'Addresses that are asked before a request goes to a provider or a tool (`request`), and before an answer goes to its ' +
    'client (`response`), in this order: each with `url`, `secret` (they are signed by Standard Webhooks), `on`, ' +
    '`timeout_ms` (5000) and `fail` (`closed`: what is not answered does not go on; `open`: it does)',
  { secret: true },
)

const maskSchema = z
  .strictObject({
    find: z.string().regex(/^[a-z][a-z0-9_-]{0,39}$/, 'must be a name in small letters'),
    expression: z.string().optional(),
    with: z.string().min(1).max(100).optional(),
    on,
  })
  .superRefine(({ find, expression }, { addIssue }) => {
    const isShape = shapes.includes(find as MaskShape)
    if (expression === undefined && !isShape)
      addIssue({
        code: 'custom',
        path: ['find'],
        message: `must be one of ${shapes.join(', ')}, or have an expression`,
      })
    if (expression !== undefined && isShape)
      addIssue({
        code: 'custom',
        path: ['find'],
        message: 'is a shape that is known: name the expression otherwise',
      })
    const fault = expression === undefined ? undefined : faultOf(expression)
    if (fault !== undefined) addIssue({ code: 'custom', path: ['expression'], message: fault })
  })

function faultOf(expression: string): string | undefined {
  try {
    readExpression(expression)
    return undefined
  } catch (error) {
    if (error instanceof ExpressionFault) return error.message
    throw error
  }
}

export const maskSettings = note(
  z.array(maskSchema).max(50).default([]),
  `What is taken out of requests and answers: each with \`find\` (${shapes.join(', ')}, or a name of your own with an ` +
    '`expression`), `on` (`request`, `response`; both) and `with`, what stands in its place (`[email]`)',
)
