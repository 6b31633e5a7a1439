// What the API documentation says of Gemini: its protocol, and its Interactions.

import { z } from 'zod'
import {
  batchEmbedContentsRequest,
  embedContentRequest,
  embedContentResponse,
} from '../../protocols/gemini/inbound/inbound.ts'
import {
  geminiModel,
  geminiModelList,
  generateContentRequest,
  generateContentResponse,
} from '../../protocols/gemini/inbound/schema.ts'
import {
  callHeaders,
  inPath,
  json,
  ofAnyRequest,
  ofCaller,
  ofModel,
  ofPaidChat,
  type Operation,
  type Parameter,
  schemaOf,
  text,
} from '../docs/operation.ts'
import {
  createInteractionRequest,
  interactionEvent,
  interactionObject,
} from '../../protocols/interactions/inbound.ts'
import { exactDetails } from './chat-examples.ts'

const contents = [{ role: 'user', parts: [{ text: 'Hello, river.' }] }]

/** Bodies that work as they stand with `sim/echo:generateContent`. */
export const geminiRequests = {
  whole: { summary: 'A question', value: { contents } },
  configured: {
    summary: 'With instructions and a bound',
    value: {
      contents,
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      generationConfig: { maxOutputTokens: 64, temperature: 0 },
    },
  },
} as const

export const geminiAnswer = {
  candidates: [
    { index: 0, content: { role: 'model', parts: [{ text: 'Hello, river.' }] }, finishReason: 'STOP' },
  ],
  usageMetadata: {
    promptTokenCount: 7,
    cachedContentTokenCount: 0,
    candidatesTokenCount: 2,
    thoughtsTokenCount: 0,
    totalTokenCount: 9,
    cost: 0.0000075,
    costDetails: exactDetails,
  },
  modelVersion: 'sim/echo',
  responseId: 'req_01a1fcaa216272aa8d5548c4e8af6c09',
}

const model = {
  name: 'models/sim/echo',
  displayName: 'Echo',
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
}

const modelParameter: Parameter = inPath(
  'model',
  'An id of the catalog; a name without a provider is Google’s own: `gemini/` stands before it.',
  'sim/echo',
)

const anyOf = (...names: string[]) => ({ anyOf: names.map((name) => schemaOf(name).schema) })

export const callGemini: Operation = {
  id: 'callGemini',
  path: '/v1beta/models/{model}:{method}',
  tag: 'Chat',
  summary: 'Generate content, in Gemini’s protocol',
  description: `What POST /v1/chat/completions does, for clients of Gemini’s API (\`google-genai\`, Gemini CLI), and for every model of the catalog, whatever protocol its provider speaks. Holds, charges, receipts, limits and idempotency are the same.

\`streamGenerateContent\` answers with one JSON array, or with server-sent events where the query says \`alt=sse\`; function calls come whole, at the end. After 15 seconds of silence a chunk with an empty text keeps the connection open. Thoughts are shown where \`includeThoughts\` asks for them; else those of other providers travel in a \`thoughtSignature\`, to be sent back with the next turn. \`countTokens\` estimates with one tokenizer and charges nothing. \`embedContent\` and \`batchEmbedContents\` make vectors of texts, as \`POST /v1/embeddings\` does. Functions and \`googleSearch\` are served, the latter for every model as the gateway’s web search; other tools that Google runs, cached contents and \`text/x.enum\` are refused.`,
  security: 'google',
  parameters: [
    modelParameter,
    {
      name: 'method',
      in: 'path',
      required: true,
      description: 'What to do with the contents.',
      schema: {
        enum: [
          'generateContent',
          'streamGenerateContent',
          'countTokens',
          'embedContent',
          'batchEmbedContents',
        ],
      },
    },
    { ...text('alt', 'How a stream is written.'), schema: { enum: ['sse'] } },
    ...callHeaders,
  ],
  body: {
    'application/json': {
      schema: anyOf('GenerateContentRequest', 'EmbedContentRequest', 'BatchEmbedContentsRequest'),
      examples: geminiRequests,
    },
  },
  answers: {
    200: {
      description: 'The answer; a stream of such answers; the count; or the vectors.',
      content: {
        'application/json': {
          schema: anyOf('GenerateContentResponse', 'EmbedContentResponse'),
          example: geminiAnswer,
        },
      },
    },
  },
  errors: [...ofPaidChat, 'not_found'],
  errorShape: 'gemini',
  schemas: {
    GenerateContentRequest: generateContentRequest,
    GenerateContentResponse: generateContentResponse,
    EmbedContentRequest: embedContentRequest,
    BatchEmbedContentsRequest: batchEmbedContentsRequest,
    EmbedContentResponse: embedContentResponse,
  },
}

/** An operation under the path that newer client libraries of Google's call. */
function asNewer(operation: Operation, path: string): Operation {
  const description = 'The same under the path that newer client libraries of Google’s call.'
  return { ...operation, id: `${operation.id}V1`, path, description }
}

export const callGeminiV1 = asNewer(callGemini, '/v1/models/{model}:{method}')

export const callGeminiBare: Operation = {
  ...callGemini,
  id: 'callGeminiBare',
  path: '/v1beta/{model}:{method}',
  description:
    'The same under the path that the AI SDK’s provider for Google calls: it puts no `models/` before a name with a slash.',
}

export const listModels: Operation = {
  id: 'listGeminiModels',
  tag: 'Models',
  summary: 'List the models, in Gemini’s shape',
  description:
    'The models of the catalog that chat or embed, page by page. Needs no key. `GET /v1/models` answers the same to a request with `x-goog-api-key`.',
  security: 'none',
  parameters: [
    text('pageSize', 'How many at most; 50 unless it says otherwise, 1,000 at most.', '100'),
    text('pageToken', 'The `nextPageToken` of the page before.'),
  ],
  answers: {
    200: {
      description: 'A page.',
      content: json('GeminiModelList', { models: [model], nextPageToken: '50' }),
    },
  },
  errors: [...ofAnyRequest, 'rate_limit_exceeded'],
  errorShape: 'gemini',
  schemas: { GeminiModelList: geminiModelList },
}

export const showModel: Operation = {
  id: 'showGeminiModel',
  path: '/v1beta/models/{model}',
  tag: 'Models',
  summary: 'Show one model, in Gemini’s shape',
  description: 'Needs no key.',
  security: 'none',
  parameters: [modelParameter],
  answers: { 200: { description: 'The model.', content: json('GeminiModel', model) } },
  errors: [...ofAnyRequest, ...ofModel, 'rate_limit_exceeded'],
  errorShape: 'gemini',
  schemas: { GeminiModel: geminiModel },
}

// The documentation of Gemini's Interactions.

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

const idInPath: Parameter = inPath('id', 'The id of the interaction.')

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

export const createInteractionV1 = asNewer(createInteraction, '/v1/interactions')
export const getInteractionV1 = asNewer(getInteraction, '/v1/interactions/{id}')
export const deleteInteractionV1 = asNewer(deleteInteraction, '/v1/interactions/{id}')
