// What providers that speak the Responses protocol do differently, as data: a provider row sets what deviates.

import type { ReasoningFormat } from '../../../conversation/request.ts'
import type { MessageQuirks, OptionalField, ParameterQuirks, UsageQuirks } from '../../openai/quirks.ts'

/** The quirks that the protocol shares with chat completions keep their names. */
export interface ResponsesQuirks
  extends
    Pick<ParameterQuirks, 'refusedWhileReasoning' | 'efforts' | 'drops' | 'passes'>,
    MessageQuirks,
    UsageQuirks {
  // ---- the request ----
  /** Whether every model spoken to in this way reasons, also those of which the catalog does not know it. */
  readonly alwaysReasons: boolean
  /** Whether reasoning models are asked for their encrypted reasoning, which a stateless client must send back. */
  readonly encryptedReasoning: boolean
  /**
   * Whose reasoning this is. What is encrypted can only be read by the one who encrypted it, so reasoning of another
   * format never goes back here.
   */
  readonly reasoningFormat: ReasoningFormat
  /** Whether a summary of the reasoning may be requested; xAI always sends one. */
  readonly summaries: boolean
  /** The least `max_output_tokens` that is accepted: OpenAI refuses less than 16. */
  readonly leastOutputTokens: number
  /** Whether a tool result may hold images and files; else they follow the results as the user's. */
  readonly toolResultMedia: boolean
  /** Whether answers may carry log probabilities. */
  readonly logprobs: boolean
  /** Whose `web_search` tool it has, if any: they take different fields. */
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
  // Another tier has another price than the catalog knows.
  drops: ['service_tier'],
  passes: [],
  bodyExtras: {},
  allowedTools: true,
  reasoningTokens: 'inside',
  totalCorrects: 'none',
  reportedCost: 'none',
  alwaysReasons: false,
  encryptedReasoning: true,
  reasoningFormat: 'openai-responses-v1',
  summaries: true,
  leastOutputTokens: 16,
  toolResultMedia: true,
  logprobs: true,
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
