// Differences between providers that speak the Responses protocol. A provider row sets what deviates.

import type { ReasoningFormat } from '../../../conversation/request.ts'
import type { MessageQuirks, OptionalField, ParameterQuirks, UsageQuirks } from '../../openai/parameters.ts'

/** The quirks that the protocol shares with chat completions keep their names. */
export interface ResponsesQuirks
  extends
    Pick<ParameterQuirks, 'refusedWhileReasoning' | 'efforts' | 'drops' | 'passes'>,
    MessageQuirks,
    UsageQuirks {
  // ---- the request ----
  /** Whether every model of this provider reasons, also where the catalog does not say so. */
  readonly alwaysReasons: boolean
  /** Whether encrypted reasoning is requested, which a stateless client must send back. */
  readonly encryptedReasoning: boolean
  /**
   * The format of this provider's reasoning. Only the provider that encrypted reasoning can read it, so details of
   * another format are not sent.
   */
  readonly reasoningFormat: ReasoningFormat
  /** Whether a summary of the reasoning may be requested; xAI always sends one. */
  readonly summaries: boolean
  /** The minimum of `max_output_tokens`: OpenAI refuses less than 16. */
  readonly leastOutputTokens: number
  /** Whether a tool result may hold images and files; otherwise they follow the results in a user message. */
  readonly toolResultMedia: boolean
  /** Whether the `phase` of the assistant's messages is sent back. */
  readonly phases: boolean
  /** Whether answers may carry log probabilities. */
  readonly logprobs: boolean
  /**
   * Whether it knows the tools that clients run beside functions (custom tools, shells, patches, namespaces, the search
   * among tools) and the items that declare them; otherwise each is a function.
   */
  readonly clientTools: 'all' | 'functions'
  /** Which provider's `web_search` tool it has, if any: their fields differ. */
  readonly webSearch: 'none' | 'openai' | 'xai'
}

/** Parameters of chat completions that the protocol has no field for. */
export const unknownFields = [
  'top_k',
  'min_p',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'seed',
  'stop',
  'logit_bias',
  // Every request has `store: false`: the gateway's users share one account at the provider.
  'store',
] as const satisfies readonly OptionalField[]

/** OpenAI itself. */
export const defaultQuirks: ResponsesQuirks = {
  developerRole: true,
  refusedWhileReasoning: ['temperature', 'top_p', 'logprobs'],
  efforts: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'],
  // But for tiers that the catalog has a price for.
  drops: ['service_tier'],
  passes: [],
  bodyExtras: {},
  allowedTools: true,
  reasoningTokens: 'inside',
  totalCorrects: 'completion',
  reportedCost: 'none',
  alwaysReasons: false,
  encryptedReasoning: true,
  reasoningFormat: 'openai-responses-v1',
  summaries: true,
  leastOutputTokens: 16,
  toolResultMedia: true,
  phases: true,
  logprobs: true,
  clientTools: 'all',
  webSearch: 'none',
}

/** The parameters that a provider with these quirks is not sent. */
export function ignoredFields(quirks: ResponsesQuirks, reasoning: boolean): readonly string[] {
  return [
    ...unknownFields,
    ...quirks.drops,
    ...(reasoning || quirks.alwaysReasons ? quirks.refusedWhileReasoning : []),
    ...(quirks.logprobs ? [] : ['logprobs']),
  ]
}
