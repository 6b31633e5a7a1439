// The documentation of health, service state, and the MCP server.

import { z } from 'zod'
import {
  count,
  json,
  milliseconds,
  ofAnyRequest,
  ofBody,
  ofCaller,
  type Operation,
  time,
} from '../docs/operation.ts'

const figures = {
  answers: count.describe('Calls of the last hour that reached it, in steps of five minutes.'),
  success_rate: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .describe('Of them; null without any. A request that the provider refused as wrong counts as answered.'),
  p50_latency_ms: milliseconds
    .nullable()
    .describe(
      'Until the first content of a stream, or a whole answer: the median of those that were answered.',
    ),
  refusals: count.describe('Refused by the provider for its limits of rate and quota, or the key.'),
}

export const providersSchema = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      id: z.string(),
      object: z.literal('provider'),
      name: z.string(),
      protocol: z.string(),
      state: z.enum(['healthy', 'degraded', 'unavailable']),
      ...figures,
      last_day: z.object(figures).describe('The same figures of the last day.'),
      counted_since: time.describe(
        'The figures count from here on, if that is less than an hour or a day ago.',
      ),
      cool_down_until: time.nullable(),
      last_error: z
        .object({
          at: time,
          model: z.string().describe('Its name at the provider.'),
          code: z.string(),
          status: z.int().nullable(),
          reason: z.string(),
        })
        .nullable()
        .describe("The last failure that was the provider's own."),
      troubles: z.array(
        z.object({
          key: count.describe('Which of its keys, from 1.'),
          model: z.string().nullable().describe('null where the key is in trouble for every model.'),
          state: z.string(),
          breaker: z
            .enum(['closed', 'open', 'half-open'])
            .describe('`open`: no call is sent there; `half-open`: the next one goes as a probe.'),
          failures: count.describe('Failed calls in a row.'),
        }),
      ),
    }),
  ),
})

export const errorListSchema = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      code: z.string(),
      status: z.int(),
      type: z.string(),
      retryable: z.boolean(),
      means: z.string(),
      remedy: z.string(),
      docs_url: z.string(),
    }),
  ),
})

export const aliveSchema = z.object({
  status: z.literal('ok'),
  version: z.string(),
  commit: z
    .string()
    .nullable()
    .describe('What the program was built from; null where it runs from its source.'),
})

export const readinessSchema = z.object({
  status: z.enum(['ready', 'not ready']),
  store: z.enum(['writable', 'unavailable']),
  warming: z.boolean().describe('The gateway has just started and makes calls of its own, for a moment.'),
  draining: z.boolean().describe('The gateway is stopping: it finishes what it has and takes nothing new.'),
})

const shownProviders = {
  object: 'list',
  data: [
    {
      id: 'sim',
      object: 'provider',
      name: 'Simulator',
      protocol: 'openai-chat',
      state: 'healthy',
      answers: 1,
      success_rate: 1,
      p50_latency_ms: 8,
      refusals: 0,
      last_day: { answers: 1, success_rate: 1, p50_latency_ms: 8, refusals: 0 },
      counted_since: '2026-07-01T09:00:00.000Z',
      cool_down_until: null,
      last_error: null,
      troubles: [],
    },
  ],
}

// ---- operations -------------------------------------------------------------------------------------------

export const providers: Operation = {
  id: 'listProviders',
  tag: 'Service',
  summary: 'List the providers',
  description:
    'The providers that can be called, and how each has been doing, all processes of this gateway together.',
  security: 'key',
  answers: { 200: { description: 'The providers.', content: json('ProviderList', shownProviders) } },
  errors: [...ofAnyRequest, ...ofCaller],
  schemas: { ProviderList: providersSchema },
}

export const errors: Operation = {
  id: 'listErrors',
  tag: 'Service',
  summary: 'List the errors',
  description:
    'Every error code, what it means and what to do. For people: [the error reference](/docs/errors).',
  security: 'none',
  answers: { 200: { description: 'The errors.', content: json('ErrorList') } },
  errors: ofAnyRequest,
  schemas: { ErrorList: errorListSchema },
}

export const health: Operation = {
  id: 'getHealth',
  tag: 'Service',
  summary: 'Ask whether the process is alive',
  description: 'For liveness probes: restart the process when this fails.',
  security: 'none',
  answers: {
    200: { description: 'It is.', content: json('Alive', { status: 'ok', version: '0.1.0', commit: null }) },
  },
  errors: ofAnyRequest,
  schemas: { Alive: aliveSchema },
}

export const metrics: Operation = {
  id: 'getMetrics',
  tag: 'Service',
  summary: 'Get the figures for Prometheus',
  description:
    'Calls that have ended since the start of the process, by provider, model and error code, with their tokens, cost and times; calls in flight, and whether calls can be served. Where several processes serve (`server.processes`), those of each, with its number as `process`; names of models beyond the first thousand count as `other`.',
  security: 'management',
  answers: {
    200: {
      description: 'The figures, in the text format.',
      content: {
        'text/plain': {
          schema: { type: 'string' },
          example: 'weir_calls_total{provider="sim",model="sim/echo",code=""} 2\n',
        },
      },
    },
  },
  errors: [...ofAnyRequest, ...ofCaller, 'account_suspended', 'operator_required'],
}

export const readiness: Operation = {
  id: 'getReadiness',
  tag: 'Service',
  summary: 'Ask whether calls can be served',
  description: 'For readiness probes: send no calls while this fails.',
  security: 'none',
  answers: {
    200: {
      description: 'They can.',
      content: json('Readiness', { status: 'ready', store: 'writable', warming: false, draining: false }),
    },
    503: {
      description: 'The gateway has just started, its database cannot be written, or it is stopping.',
      content: json('Readiness', {
        status: 'not ready',
        store: 'unavailable',
        warming: false,
        draining: false,
      }),
    },
  },
  errors: ofAnyRequest,
  schemas: { Readiness: readinessSchema },
}

const message = {
  'application/json': { schema: { type: 'object', description: 'A message of JSON-RPC 2.0.' } },
}

export const mcp: Operation = {
  id: 'callMcp',
  tag: 'Service',
  summary: 'The gateway as an MCP server',
  description: `Streamable HTTP, without sessions: give a client this address and the key as \`Authorization: Bearer\`. Tools: \`chat\` (charged like any call), \`list_models\`, \`estimate\`, \`credits\` and \`web_search\`. Programs that speak to servers by standard input start \`weir mcp serve\` instead.`,
  security: 'key',
  body: message,
  answers: {
    '200': { description: 'The answer, whole or as an event stream.', content: message },
    '202': { description: 'A notification, which has no answer.' },
  },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, 'origin_not_allowed'],
}
