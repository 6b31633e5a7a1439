// The documentation of Gemini's protocol: its operations and examples.

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
import { ofAnyRequest, ofModel, ofPaidChat } from '../docs/openapi-errors.ts'
import { callHeaders, json, type Operation, type Parameter, schemaOf, text } from '../docs/operation.ts'

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
    costDetails: {
      input: '0.0000035',
      cache_read: '0',
      cache_write: '0',
      output: '0.000004',
      reasoning: '0',
      tools: '0',
      total: '0.0000075',
    },
  },
  modelVersion: 'sim/echo',
  responseId: 'req_01a1fcaa216272aa8d5548c4e8af6c09',
}

const model = {
  name: 'models/sim/echo',
  displayName: 'Echo',
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
}

const modelParameter: Parameter = {
  name: 'model',
  in: 'path',
  required: true,
  description: 'An id of the catalog; a name without a provider is Google’s own: `gemini/` stands before it.',
  schema: { type: 'string' },
  example: 'sim/echo',
}

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

export const callGeminiV1: Operation = {
  ...callGemini,
  id: 'callGeminiV1',
  path: '/v1/models/{model}:{method}',
  description: 'The same under the path that newer client libraries of Google’s call.',
}

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
