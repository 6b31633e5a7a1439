// Providers on the internet that speak chat completions, each a row. Facts come from recorded exchanges where there
// are any, else from the providers' documentation.
//
// `onDisconnect`: `drain` marks those that go on generating, and billing, after their client has left.

import { openaiOnly, type OpenAIChatQuirks } from '../protocols/openai-chat/quirks.ts'
import type { ResponsesQuirks } from '../protocols/openai-responses/quirks.ts'
import { alsoDrops, bearer, keyHeader, openaiCompatible, toBeConfigured } from './openai-compatible.ts'
import type { Dialect } from './provider.ts'

/** OpenAI's own dialect, which Azure serves as well. */
const openaiQuirks: Partial<OpenAIChatQuirks> = {
  maxTokensField: 'max_completion_tokens',
  developerRole: true,
  refusedWhileReasoning: [
    'temperature',
    'top_p',
    'frequency_penalty',
    'presence_penalty',
    'logit_bias',
    'stop',
    'logprobs',
  ],
  allowedTools: true,
  refusalParts: true,
  // Other tiers than the standard one have other prices, which the catalog does not know: half, or twice as much.
  drops: ['top_k', 'min_p', 'repetition_penalty', 'service_tier'],
}

/** Models that reason speak the Responses protocol: in chat completions their reasoning is lost between tool calls. */
function reasonInResponses(models: RegExp, quirks: Partial<ResponsesQuirks> = {}): readonly Dialect[] {
  return [
    {
      models,
      protocol: 'openai-responses',
      quirks: { alwaysReasons: true, drops: ['service_tier'], ...quirks },
      passthrough: 'repair',
    },
  ]
}

/** OpenAI's models that reason, but for the first two, for chat models and for those that search: chat only. */
const openaiReasoners = /^(?!o1-mini|o1-preview|.*-(chat|search)\b)(o\d|gpt-[5-9]|codex-)/

/** Sampling parameters outside OpenAI's protocol, which providers that check their input refuse. */
const foreignSampling = ['top_k', 'min_p', 'repetition_penalty'] as const

/** What providers that answer in text alone have no field for: those that do not refuse it ignore it. */
const spokenOutput = ['modalities', 'audio'] as const

/** What those have no field for that know neither OpenAI's newer parameters nor the open models'. */
const beyondPlainChat = [...foreignSampling, ...spokenOutput, 'prediction'] as const

const openai = openaiCompatible({
  id: 'openai',
  name: 'OpenAI',
  baseUrl: 'https://api.openai.com/v1',
  auth: bearer('OPENAI_API_KEY'),
  quirks: openaiQuirks,
  embeddings: { format: 'base64' },
  dialects: reasonInResponses(openaiReasoners),
})

const azure = openaiCompatible({
  id: 'azure',
  name: 'Azure OpenAI',
  // https://<resource>.openai.azure.com/openai/v1
  baseUrl: toBeConfigured,
  auth: keyHeader('api-key', 'AZURE_OPENAI_API_KEY', 'AZURE_API_KEY'),
  quirks: openaiQuirks,
  embeddings: { format: 'base64' },
  // OpenAI cannot read what Azure encrypted, nor the other way round.
  dialects: reasonInResponses(openaiReasoners, { reasoningFormat: 'azure-openai-responses-v1' }),
})

const groq = openaiCompatible({
  id: 'groq',
  name: 'Groq',
  baseUrl: 'https://api.groq.com/openai/v1',
  auth: bearer('GROQ_API_KEY'),
  onDisconnect: 'drain',
  quirks: {
    maxTokensField: 'max_completion_tokens',
    efforts: ['none', 'low', 'medium', 'high'],
    thinkTags: true,
    messageNames: false,
    // The penalties it takes without a word, and by its own reference no model of it supports them.
    drops: alsoDrops(...beyondPlainChat, 'frequency_penalty', 'presence_penalty', 'logit_bias'),
    refuses: ['n', 'logprobs'],
  },
})

const deepseek = openaiCompatible({
  id: 'deepseek',
  name: 'DeepSeek',
  baseUrl: 'https://api.deepseek.com/v1',
  auth: bearer('DEEPSEEK_API_KEY'),
  quirks: {
    effortFields: ['thinking', 'reasoning_effort'],
    efforts: ['low', 'medium', 'high', 'max'],
    reasoningEcho: 'reasoning_content',
    echoRequired: true,
    jsonSchema: false,
    // A list of parts is a 400 or 422: "invalid type: sequence, expected a string".
    textParts: false,
    fileParts: 'none',
    // Its own guide: while a model thinks these raise no error and have no effect.
    refusedWhileReasoning: ['temperature', 'top_p', 'frequency_penalty', 'presence_penalty'],
    drops: alsoDrops(...beyondPlainChat, 'seed', 'logit_bias', 'parallel_tool_calls'),
    refuses: ['n'],
  },
})

const mistral = openaiCompatible({
  id: 'mistral',
  name: 'Mistral',
  baseUrl: 'https://api.mistral.ai/v1',
  auth: bearer('MISTRAL_API_KEY'),
  embeddings: { dimensionsField: 'output_dimension', tokens: false, user: false },
  onDisconnect: 'drain',
  quirks: {
    efforts: ['none', 'high'],
    reasoningEcho: 'thinking-parts',
    toolCallIds: 'nine',
    requiredToolChoice: 'any',
    seedField: 'random_seed',
    messageNames: false,
    streamOptions: false,
    fileParts: 'document_url',
    thinkTags: true,
    // Voxtral counts the audio of a prompt beside `prompt_tokens`; the total has it.
    totalCorrects: 'prompt',
    drops: alsoDrops(...foreignSampling, ...spokenOutput, 'logit_bias', 'user'),
    refuses: ['logprobs'],
  },
})

const xai = openaiCompatible({
  id: 'xai',
  name: 'xAI',
  baseUrl: 'https://api.x.ai/v1',
  auth: bearer('XAI_API_KEY'),
  quirks: {
    efforts: ['low', 'high'],
    reasoningEcho: 'reasoning_content',
    reasoningTokens: 'beside',
    reportedCost: 'usage.cost_in_usd_ticks',
    refusedWhileReasoning: ['frequency_penalty', 'presence_penalty', 'stop'],
    drops: alsoDrops(...beyondPlainChat, 'logit_bias'),
  },
  dialects: reasonInResponses(/^grok-(?!.*non-reasoning)([4-9]|build|code|latest)/, {
    developerRole: false,
    refusedWhileReasoning: [],
    efforts: ['low', 'medium', 'high'],
    drops: openaiOnly,
    allowedTools: false,
    reportedCost: 'usage.cost_in_usd_ticks',
    reasoningFormat: 'xai-responses-v1',
    summaries: false,
    leastOutputTokens: 1,
    toolResultMedia: false,
    logprobs: false,
  }),
})

const together = openaiCompatible({
  id: 'together',
  name: 'Together AI',
  baseUrl: 'https://api.together.xyz/v1',
  auth: bearer('TOGETHER_API_KEY'),
  quirks: { thinkTags: true, drops: alsoDrops(...spokenOutput, 'prediction') },
})

const fireworks = openaiCompatible({
  id: 'fireworks',
  name: 'Fireworks AI',
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  auth: bearer('FIREWORKS_API_KEY'),
  quirks: { thinkTags: true, reasoningEcho: 'reasoning_content', drops: alsoDrops(...spokenOutput) },
})

const cerebras = openaiCompatible({
  id: 'cerebras',
  name: 'Cerebras',
  baseUrl: 'https://api.cerebras.ai/v1',
  auth: bearer('CEREBRAS_API_KEY'),
  quirks: {
    maxTokensField: 'max_completion_tokens',
    efforts: ['none', 'low', 'medium', 'high'],
    reasoningEcho: 'reasoning',
    drops: alsoDrops(
      ...foreignSampling,
      ...spokenOutput,
      'frequency_penalty',
      'presence_penalty',
      'logit_bias',
    ),
    refuses: ['n'],
  },
})

const openrouter = openaiCompatible({
  id: 'openrouter',
  name: 'OpenRouter',
  baseUrl: 'https://openrouter.ai/api/v1',
  auth: bearer('OPENROUTER_API_KEY'),
  costFrom: 'reported',
  quirks: {
    effortFields: ['reasoning'],
    reasoningEcho: 'reasoning_details',
    cacheControl: true,
    fileParts: 'file-or-url',
    reportedCost: 'usage.cost',
    // Older accounts are told the cost only when they ask.
    bodyExtras: { usage: { include: true } },
    drops: ['store'],
    refuses: ['n'],
  },
})

const perplexity = openaiCompatible({
  id: 'perplexity',
  name: 'Perplexity',
  baseUrl: 'https://api.perplexity.ai',
  auth: bearer('PERPLEXITY_API_KEY'),
  onDisconnect: 'drain',
  // Its fee for each request depends on how much it searched: only its own figure is exact.
  costFrom: 'reported',
  quirks: {
    efforts: ['minimal', 'low', 'medium', 'high'],
    alternatingRoles: true,
    numberedCitations: true,
    fileParts: 'file_url',
    thinkTags: true,
    reportedCost: 'usage.cost',
    drops: alsoDrops(
      ...spokenOutput,
      'min_p',
      'repetition_penalty',
      'seed',
      'stop',
      'logit_bias',
      'parallel_tool_calls',
      'prediction',
      'user',
    ),
    refuses: ['n', 'logprobs'],
  },
})

const zai = openaiCompatible({
  id: 'zai',
  name: 'Z.ai',
  baseUrl: 'https://api.z.ai/api/paas/v4',
  auth: bearer('ZAI_API_KEY'),
  quirks: {
    effortFields: ['thinking', 'reasoning_effort'],
    efforts: ['low', 'medium', 'high'],
    reasoningEcho: 'reasoning_content',
    jsonSchema: false,
    drops: alsoDrops(
      ...beyondPlainChat,
      'frequency_penalty',
      'presence_penalty',
      'seed',
      'logit_bias',
      'parallel_tool_calls',
    ),
    refuses: ['n', 'logprobs'],
  },
})

const alibaba = openaiCompatible({
  id: 'alibaba',
  name: 'Alibaba Cloud Model Studio',
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  auth: bearer('DASHSCOPE_API_KEY'),
  onDisconnect: 'drain',
  quirks: {
    effortFields: ['enable_thinking'],
    cacheControl: true,
    drops: alsoDrops('min_p', 'frequency_penalty', 'logit_bias', 'prediction', 'user'),
  },
})

const huggingface = openaiCompatible({
  id: 'huggingface',
  name: 'Hugging Face',
  baseUrl: 'https://router.huggingface.co/v1',
  auth: bearer('HF_TOKEN', 'HUGGINGFACE_API_KEY'),
  onDisconnect: 'drain',
  quirks: { thinkTags: true },
})

const moonshot = openaiCompatible({
  id: 'moonshot',
  name: 'Moonshot AI',
  baseUrl: 'https://api.moonshot.ai/v1',
  auth: bearer('MOONSHOT_API_KEY'),
  quirks: {
    effortFields: ['thinking'],
    reasoningEcho: 'reasoning_content',
    echoRequired: true,
    drops: alsoDrops(...beyondPlainChat, 'seed', 'logit_bias', 'parallel_tool_calls'),
    refuses: ['logprobs'],
  },
})

const nvidia = openaiCompatible({
  id: 'nvidia',
  name: 'NVIDIA NIM',
  baseUrl: 'https://integrate.api.nvidia.com/v1',
  auth: bearer('NVIDIA_API_KEY'),
  quirks: { thinkTags: true },
})

const sambanova = openaiCompatible({
  id: 'sambanova',
  name: 'SambaNova',
  baseUrl: 'https://api.sambanova.ai/v1',
  auth: bearer('SAMBANOVA_API_KEY'),
  onDisconnect: 'drain',
  quirks: {
    efforts: ['low', 'medium', 'high'],
    textParts: false,
    thinkTags: true,
    drops: alsoDrops(
      ...spokenOutput,
      'min_p',
      'frequency_penalty',
      'presence_penalty',
      'seed',
      'logit_bias',
      'prediction',
      'user',
    ),
    refuses: ['n', 'logprobs'],
  },
})

const deepinfra = openaiCompatible({
  id: 'deepinfra',
  name: 'DeepInfra',
  baseUrl: 'https://api.deepinfra.com/v1/openai',
  auth: bearer('DEEPINFRA_API_KEY', 'DEEPINFRA_TOKEN'),
  quirks: { thinkTags: true },
})

const nebius = openaiCompatible({
  id: 'nebius',
  name: 'Nebius Token Factory',
  baseUrl: 'https://api.tokenfactory.nebius.com/v1',
  auth: bearer('NEBIUS_API_KEY'),
  onDisconnect: 'drain',
  quirks: { thinkTags: true },
})

const novita = openaiCompatible({
  id: 'novita',
  name: 'Novita AI',
  baseUrl: 'https://api.novita.ai/openai/v1',
  auth: bearer('NOVITA_API_KEY'),
  quirks: { thinkTags: true },
})

const hyperbolic = openaiCompatible({
  id: 'hyperbolic',
  name: 'Hyperbolic',
  baseUrl: 'https://api.hyperbolic.xyz/v1',
  auth: bearer('HYPERBOLIC_API_KEY'),
  quirks: { thinkTags: true },
})

const github = openaiCompatible({
  id: 'github',
  name: 'GitHub Models',
  baseUrl: 'https://models.github.ai/inference',
  auth: bearer('GITHUB_TOKEN'),
  quirks: { thinkTags: true, drops: alsoDrops(...foreignSampling) },
})

const cloudflare = openaiCompatible({
  id: 'cloudflare',
  name: 'Cloudflare Workers AI',
  // https://api.cloudflare.com/client/v4/accounts/<account>/ai/v1
  baseUrl: toBeConfigured,
  auth: bearer('CLOUDFLARE_API_TOKEN', 'CLOUDFLARE_API_KEY'),
  quirks: { thinkTags: true, textParts: false },
})

const databricks = openaiCompatible({
  id: 'databricks',
  name: 'Databricks',
  // https://<workspace>/serving-endpoints
  baseUrl: toBeConfigured,
  auth: bearer('DATABRICKS_TOKEN'),
})

const vercel = openaiCompatible({
  id: 'vercel',
  name: 'Vercel AI Gateway',
  baseUrl: 'https://ai-gateway.vercel.sh/v1',
  auth: bearer('AI_GATEWAY_API_KEY'),
  costFrom: 'reported',
  quirks: {
    effortFields: ['reasoning'],
    reasoningEcho: 'reasoning_details',
    cacheControl: true,
    reasoningTokens: 'inside-unless-larger',
    reportedCost: 'usage.cost',
  },
})

export const hostedProviders = [
  openai,
  azure,
  groq,
  deepseek,
  mistral,
  xai,
  together,
  fireworks,
  cerebras,
  openrouter,
  perplexity,
  zai,
  alibaba,
  huggingface,
  moonshot,
  nvidia,
  sambanova,
  deepinfra,
  nebius,
  novita,
  hyperbolic,
  github,
  cloudflare,
  databricks,
  vercel,
]
