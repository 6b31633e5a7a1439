// The documentation of Gemini's Interactions.

import {
  createInteractionRequest,
  interactionEvent,
  interactionObject,
} from '../../protocols/interactions/inbound.ts'
import { ofAnyRequest, ofCaller, ofPaidChat } from '../docs/openapi-errors.ts'
import { callHeaders, json, type Operation, type Parameter, schemaOf, text } from '../docs/operation.ts'
import { z } from 'zod'

/** Bodies that work as they stand. */
const requests = {
  text: { summary: 'A question', value: { model: 'sim/echo', input: 'Hello, river.' } },
  streamed: {
    summary: 'As a stream, with instructions and a bound',
    value: {
      model: 'sim/echo',
      input: 'Hello, river.',
      stream: true,
      system_instruction: 'Be brief.',
      generation_config: { max_output_tokens: 64 },
    },
  },
} as const

const interaction = {
  id: 'int_01a1fcaa216272aa8d5548c4e8af6c09',
  object: 'interaction',
  status: 'completed',
  model: 'sim/echo',
  created: '2026-11-25T10:00:00.000Z',
  updated: '2026-11-25T10:00:01.000Z',
  steps: [{ type: 'model_output', content: [{ type: 'text', text: 'Hello, river.' }] }],
  usage: {
    total_input_tokens: 7,
    total_cached_tokens: 0,
    total_output_tokens: 2,
    total_thought_tokens: 0,
    total_tokens: 9,
    cost: 0,
  },
}

export const createInteraction: Operation = {
  id: 'createInteraction',
  path: '/v1beta/interactions',
  tag: 'Responses',
  summary: 'Create an interaction, in Gemini’s protocol',
  description: `What POST /v1/responses does, in the words of Gemini’s Interactions (\`client.interactions\` of \`google-genai\`), for every model of the catalog. Holds, charges, receipts, limits and idempotency are the same, and so is what is stored: an interaction \`int_…\` is the response \`resp_…\` of the same number, and \`previous_interaction_id\` continues either.

\`stream: true\` answers with server-sent events (\`interaction.created\`, \`interaction.status_update\`, \`step.start\`, \`step.delta\`, \`step.stop\`, \`interaction.completed\`, \`error\`), then \`[DONE]\`. Functions, \`google_search\` (the gateway’s web search) and \`mcp_server\` are served. Other tools, agents, background interactions, cached contents, environments, webhooks, and safety settings that block something are refused.`,
  security: 'google',
  parameters: [...callHeaders],
  body: { 'application/json': { ...schemaOf('CreateInteractionRequest'), examples: requests } },
  answers: {
    200: {
      description: 'The interaction, or its events.',
      content: {
        ...json('Interaction', interaction),
        'text/event-stream': schemaOf('InteractionEvent'),
      },
    },
  },
  errors: [...ofPaidChat, 'previous_response_not_found'],
  errorShape: 'interactions',
  schemas: {
    CreateInteractionRequest: createInteractionRequest,
    Interaction: interactionObject,
    InteractionEvent: interactionEvent,
  },
}

const idInPath: Parameter = {
  name: 'id',
  in: 'path',
  required: true,
  description: 'The id of the interaction.',
  schema: { type: 'string' },
}

const ofStored = [...ofAnyRequest, ...ofCaller, 'not_found'] as const

export const getInteraction: Operation = {
  id: 'getInteraction',
  path: '/v1beta/interactions/{id}',
  tag: 'Responses',
  security: 'google',
  summary: 'Get a stored interaction',
  description:
    'As it was answered; with `stream=true` as its events, each text in one piece. A key sees what it sees of responses. They expire after 30 days.',
  parameters: [idInPath, { ...text('stream', 'As events.'), schema: { enum: ['true', 'false'] } }],
  answers: { 200: { description: 'The interaction.', content: json('Interaction', interaction) } },
  errors: [...ofStored, 'unsupported_parameter'],
  errorShape: 'interactions',
  schemas: { Interaction: interactionObject },
}

export const deleteInteraction: Operation = {
  id: 'deleteInteraction',
  path: '/v1beta/interactions/{id}',
  tag: 'Responses',
  security: 'google',
  summary: 'Delete a stored interaction',
  description: 'Forgets it and its input. What continues it can no longer be continued; the receipt stays.',
  parameters: [idInPath],
  answers: { 200: { description: 'It is gone.', content: json('DeletedInteraction', {}) } },
  errors: ofStored,
  errorShape: 'interactions',
  schemas: { DeletedInteraction: z.object({}) },
}

const asNewer = 'The same under the path that newer client libraries of Google’s call.'

export const createInteractionV1: Operation = {
  ...createInteraction,
  id: 'createInteractionV1',
  path: '/v1/interactions',
  description: asNewer,
}

export const getInteractionV1: Operation = {
  ...getInteraction,
  id: 'getInteractionV1',
  path: '/v1/interactions/{id}',
  description: asNewer,
}

export const deleteInteractionV1: Operation = {
  ...deleteInteraction,
  id: 'deleteInteractionV1',
  path: '/v1/interactions/{id}',
  description: asNewer,
}
