// Hosts that speak protocols of their own: Cohere, and the clouds of Amazon and Google.

import type { AnthropicQuirks } from '../../protocols/anthropic-messages/outbound/quirks.ts'
import type { GeminiQuirks } from '../../protocols/gemini/outbound/quirks.ts'
import { type Auth, bearer, noFixedAddress, type Provider } from '../provider.ts'

const usual = {
  quirks: {},
  onDisconnect: 'cancel',
  costFrom: 'rates',
  clientBody: 'translated',
  transport: 'http',
  local: false,
  headers: {},
} as const satisfies Partial<Provider>

const cohere: Provider = {
  ...usual,
  id: 'cohere',
  firstParty: true,
  name: 'Cohere',
  protocol: 'cohere',
  baseUrl: 'https://api.cohere.com/v2',
  auth: bearer('COHERE_API_KEY', 'CO_API_KEY'),
}

const amazon: Auth = {
  kind: 'aws',
  service: 'bedrock',
  env: ['AWS_BEARER_TOKEN_BEDROCK'],
  parts: ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
  optional: ['AWS_SESSION_TOKEN'],
}

const bedrock: Provider = {
  ...usual,
  id: 'bedrock',
  nameInTraces: 'aws.bedrock',
  name: 'Amazon Bedrock',
  protocol: 'bedrock-converse',
  baseUrl: noFixedAddress,
  regional: {
    template: 'https://bedrock-runtime.{region}.amazonaws.com',
    env: ['AWS_REGION', 'AWS_DEFAULT_REGION'],
  },
  auth: amazon,
  // Bedrock continues to generate, and bill, after a disconnect.
  onDisconnect: 'drain',
}

/** Claude at Bedrock in its own protocol, for features that Converse lacks. */
const bedrockClaude: Provider = {
  ...bedrock,
  id: 'bedrockclaude',
  nameInTraces: 'aws.bedrock',
  name: 'Claude on Amazon Bedrock',
  protocol: 'anthropic-messages',
  quirks: {
    path: '/model/{model}/invoke',
    streamPath: '/model/{model}/invoke-with-response-stream',
    version: 'bedrock-2023-05-31',
    versionIn: 'body',
    streamIn: 'path',
    framing: 'aws-event-stream',
    readsUrls: false,
    takesBetas: false,
  } satisfies Partial<AnthropicQuirks>,
}

const google: Auth = {
  kind: 'google',
  env: ['GOOGLE_ACCESS_TOKEN'],
  scope: 'https://www.googleapis.com/auth/cloud-platform',
  files: ['GOOGLE_APPLICATION_CREDENTIALS'],
}

const vertex: Provider = {
  ...usual,
  id: 'vertex',
  nameInTraces: 'gcp.vertex_ai',
  name: 'Google Vertex AI',
  protocol: 'gemini',
  // https://<location>-aiplatform.googleapis.com/v1/projects/<project>/locations/<location>
  baseUrl: noFixedAddress,
  auth: google,
  quirks: { modelsPath: '/publishers/google/models', webSearch: true } satisfies Partial<GeminiQuirks>,
  onDisconnect: 'drain',
}

const vertexClaude: Provider = {
  ...vertex,
  id: 'vertexclaude',
  nameInTraces: 'gcp.vertex_ai',
  name: 'Claude on Google Vertex AI',
  protocol: 'anthropic-messages',
  quirks: {
    path: '/publishers/anthropic/models/{model}:rawPredict',
    streamPath: '/publishers/anthropic/models/{model}:streamRawPredict',
    version: 'vertex-2023-10-16',
    versionIn: 'body',
    readsUrls: false,
    takesBetas: false,
  } satisfies Partial<AnthropicQuirks>,
}

export const cloudProviders: readonly Provider[] = [cohere, bedrock, bedrockClaude, vertex, vertexClaude]
