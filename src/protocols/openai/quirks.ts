// What providers that speak one of OpenAI's protocols do differently in any of them, as data.

import type { JsonObject } from '../../conversation/request.ts'

/** Optional request fields that a provider may not know. They are named as the client knows them. */
export type OptionalField =
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'frequency_penalty'
  | 'presence_penalty'
  | 'repetition_penalty'
  | 'seed'
  | 'stop'
  | 'logit_bias'
  | 'parallel_tool_calls'
  | 'user'
  | 'safety_identifier'
  | 'prompt_cache_key'
  | 'service_tier'
  | 'metadata'
  | 'store'
  | 'verbosity'
  | 'modalities'
  | 'audio'
  | 'prediction'
  | 'prompt_cache_retention'

/** How the effort of reasoning is sent. Several may be sent together. */
export type EffortField =
  /** `reasoning_effort: "low"`. */
  | 'reasoning_effort'
  /** `reasoning: {effort | max_tokens | enabled, exclude}`. */
  | 'reasoning'
  /** `thinking: {type: "enabled" | "disabled"}`. */
  | 'thinking'
  /** `enable_thinking: true`, with `thinking_budget` in tokens. */
  | 'enable_thinking'
  /** `chat_template_kwargs: {enable_thinking: true}`, which inference servers hand to the model's template. */
  | 'chat_template_kwargs'

/** Those of the optional fields that the conversation has no word for: they travel in `rest`. */
export const restFields = [
  'modalities',
  'audio',
  'prediction',
  'prompt_cache_retention',
] as const satisfies readonly OptionalField[]

/** Which parameters are sent, and under which names. */
export interface ParameterQuirks {
  /** Parameters that reasoning models refuse or ignore: dropped with a warning, `logprobs` refused. */
  readonly refusedWhileReasoning: readonly (OptionalField | 'logprobs')[]
  readonly effortFields: readonly EffortField[]
  /** The named efforts that are understood, weakest first; another is replaced by the nearest. */
  readonly efforts: readonly string[]
  readonly seedField: 'seed' | 'random_seed'
  readonly drops: readonly OptionalField[]
  /**
   * Fields of the client's body without a place in the conversation that are passed on unchanged. Each is known to
   * change neither the price of a token nor their number; every other field is dropped with a warning.
   */
  readonly passes: readonly string[]
  /** Fields without which the answer would not be what was asked for: refused with `unsupported_parameter`. */
  readonly refuses: readonly ('n' | 'logprobs')[]
}

export interface MessageQuirks {
  /** Whether the role `developer` is known; else it becomes `system`. */
  readonly developerRole: boolean
  /** Whether `tool_choice: {type: "allowed_tools"}` is known; else only the allowed tools are declared. */
  readonly allowedTools: boolean
  /** Fields of the body that every request to this provider needs, whatever the client says of them. */
  readonly bodyExtras: JsonObject
}

/** How counters are read. */
export interface UsageQuirks {
  /**
   * Where reasoning tokens are counted: inside `completion_tokens`, or beside them. `inside-unless-larger`: inside,
   * but a count that exceeds the completion proves that it is beside (Vercel, for some models it resells).
   */
  readonly reasoningTokens: 'inside' | 'beside' | 'inside-unless-larger'
  /** Which counter leaves out what `total_tokens` has beyond both: it becomes the total less the other. */
  readonly totalCorrects: 'prompt' | 'completion'
  /** Where the provider reports what the call cost, if it does. */
  readonly reportedCost: 'none' | 'usage.cost' | 'usage.cost_in_usd_ticks'
}
