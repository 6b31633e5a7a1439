// Providers on the internet that speak chat completions, each a row. Facts come from recorded exchanges where there
// are any, else from the providers' documentation.
//
// `passes`: fields of a provider's own that its reference lists without a price of their own.
//
// `onDisconnect`: `drain` marks those that go on generating, and billing, after a disconnect.

import { type OpenAIChatQuirks, openaiOnly } from '../../protocols/openai-chat/outbound/quirks.ts'
import type { ResponsesQuirks } from '../../protocols/openai-responses/outbound/quirks.ts'
import { alsoDrops, bearer, type Dialect, keyHeader, noFixedAddress, openaiCompatible } from '../provider.ts'

// Hosts of open models. They run common inference servers and accept the parameters of those (the default of
// `quirks.passes`).

/** Sampling parameters outside OpenAI's protocol, which providers that check their input refuse. */
const openModelSampling = ['top_k', 'min_p', 'repetition_penalty'] as const

/** Parameters for other output than text, which providers without such output refuse or ignore. */
const audioOutput = ['modalities', 'audio'] as const

const together = openaiCompatible({
  id: 'together',
  name: 'Together AI',
  baseUrl: 'https://api.together.xyz/v1',
  auth: bearer('TOGETHER_API_KEY'),
  quirks: { thinkTags: true, drops: alsoDrops(...audioOutput, 'prediction') },
})

const fireworks = openaiCompatible({
  id: 'fireworks',
  name: 'Fireworks AI',
  baseUrl: 'https://api.fireworks.ai/inference/v1',
  auth: bearer('FIREWORKS_API_KEY'),
  decisions: true,
  quirks: { thinkTags: true, reasoningEcho: 'reasoning_content', drops: alsoDrops(...audioOutput) },
})

const huggingface = openaiCompatible({
  id: 'huggingface',
  name: 'Hugging Face',
  baseUrl: 'https://router.huggingface.co/v1',
  auth: bearer('HF_TOKEN', 'HUGGINGFACE_API_KEY'),
  onDisconnect: 'drain',
  quirks: { thinkTags: true },
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
      ...audioOutput,
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
  quirks: { thinkTags: true, drops: alsoDrops(...openModelSampling) },
})

const cloudflare = openaiCompatible({
  id: 'cloudflare',
  name: 'Cloudflare Workers AI',
  // https://api.cloudflare.com/client/v4/accounts/<account>/ai/v1
  baseUrl: noFixedAddress,
  auth: bearer('CLOUDFLARE_API_TOKEN', 'CLOUDFLARE_API_KEY'),
  quirks: { thinkTags: true, textParts: false },
})

const databricks = openaiCompatible({
  id: 'databricks',
  name: 'Databricks',
  // https://<workspace>/serving-endpoints
  baseUrl: noFixedAddress,
  auth: bearer('DATABRICKS_TOKEN'),
})

const openModelHosts = [
  together,
  fireworks,
  huggingface,
  nvidia,
  sambanova,
  deepinfra,
  nebius,
  novita,
  hyperbolic,
  github,
  cloudflare,
  databricks,
]

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
  customTools: true,
  refusalParts: true,
  cacheBreakpoints: true,
  // Tiers have prices of their own, half or twice as much: one is asked for where the catalog knows it.
  drops: ['top_k', 'min_p', 'repetition_penalty', 'service_tier'],
  passes: [],
  webSearch: 'openai',
}

/** Models that reason speak the Responses protocol: in chat completions their reasoning is lost between tool calls. */
function reasonInResponses(models: RegExp, quirks: Partial<ResponsesQuirks> = {}): readonly Dialect[] {
  return [
    {
      models,
      protocol: 'openai-responses',
      quirks: { alwaysReasons: true, drops: ['service_tier'], ...quirks },
      clientBody: 'translated',
    },
  ]
}

/** OpenAI's reasoning models, except the first two, chat models and search models, which only have chat completions. */
const openaiReasoners = /^(?!o1-mini|o1-preview|.*-(chat|search)\b)(o\d|gpt-[5-9]|codex-)/

/** Parameters missing at providers that support neither OpenAI's newer parameters nor those of open models. */
const beyondPlainChat = [...openModelSampling, ...audioOutput, 'prediction'] as const

const openai = openaiCompatible({
  id: 'openai',
  firstParty: true,
  name: 'OpenAI',
  baseUrl: 'https://api.openai.com/v1',
  auth: bearer('OPENAI_API_KEY'),
  quirks: openaiQuirks,
  decisions: true,
  embeddings: { format: 'base64' },
  dialects: reasonInResponses(openaiReasoners, { webSearch: 'openai' }),
})

const azure = openaiCompatible({
  id: 'azure',
  nameInTraces: 'azure.ai.openai',
  name: 'Azure OpenAI',
  // https://<resource>.openai.azure.com/openai/v1
  baseUrl: noFixedAddress,
  auth: keyHeader('api-key', 'AZURE_OPENAI_API_KEY', 'AZURE_API_KEY'),
  quirks: openaiQuirks,
  embeddings: { format: 'base64' },
  // OpenAI cannot read what Azure encrypted, nor the reverse.
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
    // "Assistant message prefilling": its guide.
    prefill: 'as-it-is',
    passes: ['reasoning_format', 'include_reasoning', 'disable_tool_validation', 'citation_options'],
    // It accepts the penalties silently, but according to its reference no model supports them.
    drops: alsoDrops(...beyondPlainChat, 'frequency_penalty', 'presence_penalty', 'logit_bias'),
    refuses: ['n', 'logprobs'],
  },
})

const deepseek = openaiCompatible({
  id: 'deepseek',
  firstParty: true,
  name: 'DeepSeek',
  baseUrl: 'https://api.deepseek.com/v1',
  auth: bearer('DEEPSEEK_API_KEY'),
  quirks: {
    effortFields: ['thinking', 'reasoning_effort'],
    passes: ['thinking'],
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
  nameInTraces: 'mistral_ai',
  firstParty: true,
  name: 'Mistral',
  baseUrl: 'https://api.mistral.ai/v1',
  auth: bearer('MISTRAL_API_KEY'),
  embeddings: { dimensionsField: 'output_dimension', tokens: false, user: false },
  onDisconnect: 'drain',
  quirks: {
    efforts: ['none', 'high'],
    passes: ['safe_prompt', 'prompt_mode'],
    reasoningEcho: 'thinking-parts',
    toolCallIds: 'nine',
    requiredToolChoice: 'any',
    seedField: 'random_seed',
    prefill: 'prefix',
    messageNames: false,
    streamOptions: false,
    fileParts: 'document_url',
    thinkTags: true,
    // Voxtral counts the audio of a prompt beside `prompt_tokens`; the total has it.
    totalCorrects: 'prompt',
    drops: alsoDrops(...openModelSampling, ...audioOutput, 'logit_bias', 'user'),
    refuses: ['logprobs'],
  },
})

const xai = openaiCompatible({
  id: 'xai',
  nameInTraces: 'x_ai',
  firstParty: true,
  name: 'xAI',
  baseUrl: 'https://api.x.ai/v1',
  auth: bearer('XAI_API_KEY'),
  quirks: {
    efforts: ['low', 'high'],
    // `search_parameters` has a fee for each source.
    passes: [],
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
    phases: false,
    reportedCost: 'usage.cost_in_usd_ticks',
    reasoningFormat: 'xai-responses-v1',
    summaries: false,
    leastOutputTokens: 1,
    toolResultMedia: false,
    logprobs: false,
    // https://docs.x.ai/docs/guides/function-calling: of tools that clients run, functions alone.
    clientTools: 'functions',
    webSearch: 'xai',
  }),
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
    passes: ['clear_thinking', 'disable_reasoning', 'reasoning_format'],
    drops: alsoDrops(
      ...openModelSampling,
      ...audioOutput,
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
    // Older accounts get the cost only on request.
    bodyExtras: { usage: { include: true } },
    // Its charge is in the answer, but a hold for the standard tier must cover it.
    drops: ['store', 'service_tier'],
    // `plugins` search and read files for a fee, `models` and `preset` choose others than the one that is priced.
    passes: ['include_reasoning', 'structured_outputs', 'top_a', 'transforms'],
    refuses: ['n'],
  },
})

const perplexity = openaiCompatible({
  id: 'perplexity',
  firstParty: true,
  name: 'Perplexity',
  baseUrl: 'https://api.perplexity.ai',
  auth: bearer('PERPLEXITY_API_KEY'),
  onDisconnect: 'drain',
  // Its fee for each request depends on how much it searched: only its own figure is exact.
  costFrom: 'reported',
  quirks: {
    efforts: ['minimal', 'low', 'medium', 'high'],
    // `search_type: "pro"` and a larger search context have higher fees.
    passes: [
      'disable_search',
      'enable_search_classifier',
      'language_preference',
      'last_updated_after_filter',
      'last_updated_before_filter',
      'return_images',
      'return_related_questions',
      'search_after_date_filter',
      'search_before_date_filter',
      'search_domain_filter',
      'search_mode',
      'search_recency_filter',
    ],
    alternatingRoles: true,
    numberedCitations: true,
    webSearch: 'perplexity',
    fileParts: 'file_url',
    thinkTags: true,
    reportedCost: 'usage.cost',
    drops: alsoDrops(
      ...audioOutput,
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
  firstParty: true,
  name: 'Z.ai',
  baseUrl: 'https://api.z.ai/api/paas/v4',
  auth: bearer('ZAI_API_KEY'),
  quirks: {
    effortFields: ['thinking', 'reasoning_effort'],
    efforts: ['low', 'medium', 'high'],
    passes: ['do_sample', 'request_id', 'thinking', 'tool_stream', 'user_id'],
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
  firstParty: true,
  name: 'Alibaba Cloud Model Studio',
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  auth: bearer('DASHSCOPE_API_KEY'),
  onDisconnect: 'drain',
  quirks: {
    effortFields: ['enable_thinking'],
    // `enable_search`, `search_options` and `enable_code_interpreter` have fees.
    passes: ['enable_thinking', 'preserve_thinking', 'thinking_budget', 'tool_stream', 'translation_options'],
    cacheControl: true,
    // "Partial mode": its guide to text generation.
    prefill: 'partial',
    drops: alsoDrops('min_p', 'frequency_penalty', 'logit_bias', 'prediction', 'user'),
  },
})

const moonshot = openaiCompatible({
  id: 'moonshot',
  firstParty: true,
  name: 'Moonshot AI',
  baseUrl: 'https://api.moonshot.ai/v1',
  auth: bearer('MOONSHOT_API_KEY'),
  quirks: {
    effortFields: ['thinking'],
    passes: ['thinking'],
    reasoningEcho: 'reasoning_content',
    echoRequired: true,
    // "Partial mode": its guide.
    prefill: 'partial',
    drops: alsoDrops(...beyondPlainChat, 'seed', 'logit_bias', 'parallel_tool_calls'),
    refuses: ['logprobs'],
  },
})

const vercel = openaiCompatible({
  id: 'vercel',
  name: 'Vercel AI Gateway',
  baseUrl: 'https://ai-gateway.vercel.sh/v1',
  auth: bearer('AI_GATEWAY_API_KEY'),
  costFrom: 'reported',
  quirks: {
    effortFields: ['reasoning'],
    // `providerOptions` choose other models than the one that is priced, and tools with fees.
    passes: [],
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
  cerebras,
  openrouter,
  perplexity,
  zai,
  alibaba,
  moonshot,
  vercel,
  ...openModelHosts,
]
