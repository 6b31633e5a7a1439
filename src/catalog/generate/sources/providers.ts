// The providers of the bundled catalog, their names in each source, and facts about all models of a provider.

import type { PriceSpec } from '../../row.ts'

/** Price factors of the models whose names match, by service tier. */
interface ServiceTierRule {
  readonly models: RegExp
  readonly factors: Readonly<Record<string, string>>
}

export interface CoveredProvider {
  readonly id: string
  /** Its name in @pydantic/genai-prices and in @earendil-works/pi-ai; '' where that source does not cover it. */
  readonly genai: string
  readonly pi: string
  /**
   * Whether models that only genai-prices lists are sold. It keeps prices of former models, so for hosts of open
   * models, which change within months, only models in the newer source are sold.
   */
  readonly sellsGenaiOnly: boolean
  /** Names of genai-prices that are no model of a chat or embeddings API, or not of this provider. */
  readonly skip: RegExp | undefined
  /** Models whose one-hour cache write costs twice their input, which no source states. */
  readonly doubleHourWrite: RegExp | undefined
  /**
   * Tier boundaries of genai-prices that are off by a token compared to the provider's page: its value and the right
   * one. A tier applies above its boundary.
   */
  readonly tierBoundaries: Readonly<Record<number, number>> | undefined
  /** Models whose page has one input price for text, images, video and audio, which no source states. */
  readonly audioAtTextRate: RegExp | undefined
  /** Prices of other service tiers, as factors of the standard rates; a missing tier has no known price. */
  readonly serviceTiers: readonly ServiceTierRule[]
  /** By model: the fee of a request that depends on how much is searched. */
  readonly requestFees:
    Readonly<Record<string, Pick<PriceSpec, 'per_request' | 'per_request_by_search_context'>>> | undefined
  /** USD for each search of the models whose names match, which no source states. */
  readonly searchFees: readonly { readonly models: RegExp; readonly usd: string }[]
  /** USD per call of its own tools, the same for all its models; for models that only pi lists, which has no fees. */
  readonly fees: Readonly<Record<string, string>> | undefined
  /** It charges the cost that it reports with each answer; the rates are only for holds and estimates. */
  readonly reportsCost: boolean
  /** The parameter set of its models, and of its reasoning models. */
  readonly parameters: string
  readonly reasoningParameters: string
}

const plain = {
  genai: '',
  pi: '',
  sellsGenaiOnly: false,
  skip: undefined,
  doubleHourWrite: undefined,
  tierBoundaries: undefined,
  audioAtTextRate: undefined,
  serviceTiers: [],
  requestFees: undefined,
  searchFees: [],
  fees: undefined,
  reportsCost: false,
  parameters: 'openai-compatible',
  reasoningParameters: 'openai-compatible-reasoning',
} as const

// "Prompts with >272K input tokens are priced at 2x input and 1.5x output for the full session": 272,000 tokens still
// pay the base rate. https://developers.openai.com/api/docs/models/gpt-5.4
const openaiBoundaries = { 271_999: 272_000 }

// https://developers.openai.com/api/docs/pricing: flex costs what the Batch API costs, half the standard rates; priority
// costs more by a factor that differs between models (the same as those that Vercel lists as `-fast`).
const snapshot = String.raw`(-\d{4}-\d\d-\d\d)?$`
const openaiServiceTiers: readonly ServiceTierRule[] = [
  {
    models: new RegExp(
      `^(gpt-5(\\.[1-6])?(-(mini|nano|sol|terra|luna))?|gpt-6(\\.1)?-(astra|sol|luna)|o3|o4-mini)${snapshot}`,
    ),
    factors: { flex: '0.5' },
  },
  {
    models: new RegExp(
      `^(gpt-5(\\.[124])?|gpt-5\\.3-codex|gpt-5\\.4-mini|gpt-5\\.6-(sol|terra|luna)|gpt-6(\\.1)?-(astra|sol|luna)|gpt-4\\.1-nano)${snapshot}`,
    ),
    factors: { priority: '2' },
  },
  { models: new RegExp(`^gpt-5\\.5${snapshot}`), factors: { priority: '2.5' } },
  { models: new RegExp(`^gpt-5-mini${snapshot}`), factors: { priority: '1.8' } },
  { models: new RegExp(`^(gpt-4\\.1(-mini)?|o3)${snapshot}`), factors: { priority: '1.75' } },
  { models: /^gpt-4o$/, factors: { priority: '1.7' } },
]

// https://docs.perplexity.ai/getting-started/pricing: USD per request by search context. Holds are for the highest; the
// answer says which one applies.
const sonarFees = {
  per_request: '0.012',
  per_request_by_search_context: { low: '0.005', medium: '0.008', high: '0.012' },
}
const sonarProFees = {
  per_request: '0.014',
  per_request_by_search_context: { low: '0.006', medium: '0.01', high: '0.014' },
}

// https://ai.google.dev/gemini-api/docs/pricing (read 2026-10-07): Pro, and the Flash models from 3.5 on, have one input
// price; the Flash models before them price audio apart.
const oneGeminiPrice =
  /^gemini-(2\.5|3|3\.1)-(pro|computer-use)|^gemini-pro-latest$|^gemini-3\.[5-9]-flash|^gemini-4/

// https://ai.google.dev/gemini-api/docs/pricing (read 2026-10-07), the same at Vertex: 14 USD per 1,000 search queries from
// Gemini 3 on, 35 USD per 1,000 grounded prompts before. What Google gives free each day is the operator's.
const googleSearchFees = [
  {
    models: /^gemini-(2\.0-flash|2\.5-(pro|flash)|2\.5-flash-lite)(-latest|-preview-09-2025)?$/,
    usd: '0.035',
  },
  {
    models: /^gemini-([3-9](\.\d+)?-(pro|flash|flash-lite)(-preview)?|4-\w+|(pro|flash|flash-lite)-latest)$/,
    usd: '0.014',
  },
]

// https://docs.x.ai/developers/pricing.md (read 2026-11-22): 5 USD per 1,000 web searches, for models of the Responses
// API.
const xaiSearchFees = [{ models: /^grok-(?!.*non-reasoning)([4-9]|latest)/, usd: '0.005' }]

// Speech, images, moderation, OCR and live sessions have their own APIs; fine-tunes and synthetic names are no ids.
const otherApis =
  /realtime|transcribe|whisper|tts|image|moderation|ocr|voice|live|native-audio|omni|^ft[:.]|\.ft-|:|\*/

export const coveredProviders: readonly CoveredProvider[] = [
  {
    ...plain,
    id: 'openai',
    genai: 'openai',
    pi: 'openai',
    sellsGenaiOnly: true,
    // Completion-only and open-weight models, and effort levels that other gateways write as names.
    skip: new RegExp(
      `${otherApis.source}|^(ada|babbage|curie|davinci|text-(ada|curie|davinci).*)$|instruct|gpt-oss|35-|-high$|^gpt-3.5-0301$|^computer-use$|^codex-mini$|deep-research`,
    ),
    fees: { web_search: '0.01', file_search: '0.0025' },
    tierBoundaries: openaiBoundaries,
    serviceTiers: openaiServiceTiers,
    parameters: 'openai',
    reasoningParameters: 'openai-reasoning',
  },
  {
    ...plain,
    id: 'azure',
    genai: 'azure',
    pi: 'azure',
    parameters: 'openai',
    reasoningParameters: 'openai-reasoning',
  },
  {
    ...plain,
    id: 'anthropic',
    genai: 'anthropic',
    pi: 'anthropic',
    sellsGenaiOnly: true,
    skip: /^claude-v1$|^claude-2|^claude-3-(5-sonnet|sonnet|haiku)$/,
    doubleHourWrite: /./,
    fees: { web_search: '0.01' },
    parameters: 'anthropic',
    reasoningParameters: 'anthropic-reasoning',
  },
  {
    ...plain,
    id: 'gemini',
    genai: 'google',
    pi: 'google',
    sellsGenaiOnly: true,
    skip: new RegExp(
      `${otherApis.source}|^claude|^anthropic|^gemini-(flash|pro)-1|^gemini-(pro|1\\.)|-maas$|^gemma`,
    ),
    audioAtTextRate: oneGeminiPrice,
    searchFees: googleSearchFees,
    parameters: 'gemini',
    reasoningParameters: 'gemini-reasoning',
  },
  {
    ...plain,
    id: 'vertex',
    genai: 'google',
    pi: 'google-vertex',
    audioAtTextRate: oneGeminiPrice,
    searchFees: googleSearchFees,
    parameters: 'gemini',
    reasoningParameters: 'gemini-reasoning',
  },
  {
    ...plain,
    id: 'mistral',
    genai: 'mistral',
    pi: 'mistral',
    sellsGenaiOnly: true,
    skip: new RegExp(
      `${otherApis.source}|^(codestral|devstral-small|mixtral|mistral-(7b|large|small-(24b|3)|nemo|saba|tiny|medium-2312)|ministral-[38]b$|magistral-(small|medium)$|pixtral)`,
    ),
  },
  {
    ...plain,
    id: 'xai',
    genai: 'x-ai',
    pi: 'xai',
    sellsGenaiOnly: true,
    skip: /\/|voice|^grok-2|^grok-beta/,
    searchFees: xaiSearchFees,
  },
  { ...plain, id: 'deepseek', genai: 'deepseek', pi: 'deepseek' },
  {
    ...plain,
    id: 'cohere',
    genai: 'cohere',
    sellsGenaiOnly: true,
    skip: /^command(-light|-r|-r-plus|-a|-r7b)?$/,
    parameters: 'cohere',
    reasoningParameters: 'cohere',
  },
  {
    ...plain,
    id: 'perplexity',
    genai: 'perplexity',
    sellsGenaiOnly: true,
    skip: /^llama|^r1-|sonar-pro-search/,
    requestFees: {
      sonar: sonarFees,
      'sonar-reasoning': sonarFees,
      'sonar-pro': sonarProFees,
      'sonar-reasoning-pro': sonarProFees,
    },
    reportsCost: true,
  },
  { ...plain, id: 'moonshot', genai: 'moonshotai', pi: 'moonshotai', sellsGenaiOnly: true },
  { ...plain, id: 'groq', genai: 'groq', pi: 'groq' },
  { ...plain, id: 'cerebras', genai: 'cerebras', pi: 'cerebras' },
  { ...plain, id: 'together', genai: 'together', pi: 'together' },
  { ...plain, id: 'fireworks', genai: 'fireworks', pi: 'fireworks' },
  { ...plain, id: 'zai', genai: 'zai', pi: 'zai' },
  // The router charges the price of whichever host serves the call; genai-prices lists the hosts, not the router.
  { ...plain, id: 'huggingface', pi: 'huggingface' },
  // Only free trials are listed, none of them with a price.
  { ...plain, id: 'nvidia', pi: 'nvidia' },
  {
    ...plain,
    id: 'bedrock',
    tierBoundaries: openaiBoundaries,
    genai: 'aws',
    pi: 'amazon-bedrock',
    doubleHourWrite: /anthropic\.claude/,
    parameters: 'bedrock',
    reasoningParameters: 'bedrock',
  },
  { ...plain, id: 'cloudflare', genai: 'cloudflare', pi: 'cloudflare-workers-ai' },
  // The newer source is enough if the reported cost is charged.
  { ...plain, id: 'openrouter', pi: 'openrouter', reportsCost: true },
  { ...plain, id: 'vercel', pi: 'vercel-ai-gateway', reportsCost: true },
]

// Served over sessions or for speech only, whatever list they are in.
export const notForChat = /realtime|-live-|transcribe|-tts/
