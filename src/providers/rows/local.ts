// Inference servers that an operator runs, and the simulated provider inside this executable.

import type { OptionalField } from '../../protocols/openai/parameters.ts'
import { bearer, noFixedAddress, openaiCompatible, type Provider } from '../provider.ts'

// What the registry must know of the simulated provider; the rest is loaded with the first call to it.

/** The efforts that it knows, weakest first. */
export const simulatedEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/**
 * Parameters that have no effect here, unlike at a real model; the answer has a warning for each. Sampling parameters
 * are honoured in that every token has probability 1: the answer is the same at every temperature and seed.
 */
const simulatorIgnores = [
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'audio',
  'prediction',
  'user',
  'safety_identifier',
  'prompt_cache_retention',
  'prompt_cache_options',
  'service_tier',
  'metadata',
  'store',
  'verbosity',
] as const satisfies readonly OptionalField[]

const ollama: Provider = {
  id: 'ollama',
  name: 'Ollama',
  // Its own protocol: its chat-completions endpoint ignores the context size and silently cuts long prompts.
  protocol: 'ollama',
  baseUrl: 'http://127.0.0.1:11434',
  auth: { kind: 'none' },
  quirks: {},
  // Embeddings it serves as OpenAI does, under that API's version.
  embeddings: { path: '/v1/embeddings', tokens: false },
  onDisconnect: 'cancel',
  costFrom: 'rates',
  clientBody: 'translated',
  transport: 'http',
  local: true,
  headers: {},
}

const llamacpp = openaiCompatible({
  id: 'llamacpp',
  name: 'llama.cpp server',
  baseUrl: 'http://127.0.0.1:8080/v1',
  auth: { kind: 'none' },
  local: true,
  quirks: {
    effortFields: ['reasoning_effort', 'chat_template_kwargs'],
    reasoningEcho: 'reasoning_content',
    thinkTags: true,
  },
})

const vllm = openaiCompatible({
  id: 'vllm',
  name: 'vLLM',
  baseUrl: 'http://127.0.0.1:8000/v1',
  auth: { kind: 'none' },
  local: true,
  quirks: {
    prefill: 'template',
    effortFields: ['reasoning_effort', 'chat_template_kwargs'],
    reasoningEcho: 'reasoning_content',
    thinkTags: true,
  },
})

const lmstudio = openaiCompatible({
  id: 'lmstudio',
  name: 'LM Studio',
  baseUrl: 'http://127.0.0.1:1234/v1',
  auth: { kind: 'none' },
  local: true,
  // Since version 0.3.6; tells embedding models apart and how much fits (LM Studio's "REST API v0").
  modelList: '/api/v0/models',
  quirks: { thinkTags: true },
})

const gpustack = openaiCompatible({
  id: 'gpustack',
  name: 'GPUStack',
  // http://<server>/v1
  baseUrl: noFixedAddress,
  auth: bearer('GPUSTACK_API_KEY'),
  quirks: {
    effortFields: ['reasoning_effort', 'enable_thinking'],
    reasoningEcho: 'reasoning_content',
    thinkTags: true,
  },
})

const sim = openaiCompatible({
  id: 'sim',
  name: 'Simulator',
  baseUrl: 'builtin:sim',
  auth: { kind: 'none' },
  transport: 'builtin',
  // Some of its models fail on purpose.
  testModel: 'echo',
  decisions: true,
  quirks: {
    developerRole: true,
    allowedTools: true,
    efforts: simulatedEfforts,
    drops: simulatorIgnores,
    passes: ['sim'],
  },
})

export const localProviders: readonly Provider[] = [ollama, llamacpp, vllm, lmstudio, gpustack, sim]
