// What providers that speak chat completions do differently, as data: a provider row sets what deviates.

import type { JsonObject } from '../../../conversation/request.ts'
import { inferenceServerFields } from './passed-fields.ts'

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

/** How a provider is told how hard to think. Several may be sent together. */
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

export interface OpenAIChatQuirks {
  // ---- the request ----
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens'
  /** Whether the role `developer` is known; else it becomes `system`. */
  readonly developerRole: boolean
  /**
   * What models that reason refuse (OpenAI's with a 400) or ignore (DeepSeek's, in silence): dropped with a warning,
   * `logprobs` refused.
   */
  readonly refusedWhileReasoning: readonly (OptionalField | 'logprobs')[]
  readonly effortFields: readonly EffortField[]
  /** The named efforts that are understood, weakest first; another is replaced by the nearest. */
  readonly efforts: readonly string[]
  /** How earlier reasoning goes back to the provider. `thinking-parts`: as parts of the content (Mistral). */
  readonly reasoningEcho: 'none' | 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'thinking-parts'
  /**
   * Whether an assistant turn with tool calls must carry its reasoning while the model thinks: a client that
   * dropped it would get a 400, an empty string is accepted.
   */
  readonly echoRequired: boolean
  /** `nine`: exactly nine letters and digits (Mistral answers anything else with code 3280). */
  readonly toolCallIds: 'any' | 'nine'
  /** The word for "call some tool". */
  readonly requiredToolChoice: 'required' | 'any'
  /** Whether `tool_choice: {type: "allowed_tools"}` is known; else only the allowed tools are declared. */
  readonly allowedTools: boolean
  readonly seedField: 'seed' | 'random_seed'
  /** Whether user and assistant must alternate: turns of the same role are merged. */
  readonly alternatingRoles: boolean
  /** Whether messages may carry `name`. */
  readonly messageNames: boolean
  /** Whether `stream_options.include_usage` is known; where not, usage comes unasked. */
  readonly streamOptions: boolean
  /** Whether `response_format: json_schema` is known; else the schema is put into the prompt. */
  readonly jsonSchema: boolean
  /** Whether `cache_control` marks are understood; else they are left out. */
  readonly cacheControl: boolean
  /** Whether a tool call may carry `extra_content` with Gemini's thought signature (Google's own endpoint). */
  readonly thoughtSignatures: boolean
  /** Whether text may come in parts; else all of a message's is one text, unless something else stands beside it. */
  readonly textParts: boolean
  /** Whether a refusal goes back as a part of its own kind; else as text. */
  readonly refusalParts: boolean
  /** How a file is carried; `none` refuses it. */
  readonly fileParts: 'file' | 'file-or-url' | 'document_url' | 'file_url' | 'none'
  /** Fields that are dropped with a warning. */
  readonly drops: readonly OptionalField[]
  /**
   * Fields of the client's body without a word in the conversation that go on as they are. Of each it is known that it
   * changes neither the price of a token nor how many there may be; every other one is dropped with a warning.
   */
  readonly passes: readonly string[]
  /** Fields of the body that every request to this provider needs, whatever the client says of them. */
  readonly bodyExtras: JsonObject
  /** Fields without which the answer would not be what was asked for: refused with `unsupported_parameter`. */
  readonly refuses: readonly ('n' | 'logprobs')[]

  // ---- the answer ----
  /** Whether an answer's text may open with `<think>…</think>`: the model's reasoning. */
  readonly thinkTags: boolean
  /** Whether the text cites by number (`[2]`) from a list of sources beside the choices. */
  readonly numberedCitations: boolean

  // ---- the counters ----
  /**
   * Where reasoning tokens are counted: inside `completion_tokens`, or beside them. `inside-unless-larger`: inside,
   * but a count that exceeds the completion proves that it is beside (Vercel, for some models it resells).
   */
  readonly reasoningTokens: 'inside' | 'beside' | 'inside-unless-larger'
  /** Which counter leaves something out that `total_tokens` has: it becomes the total less the other. */
  readonly totalCorrects: 'none' | 'prompt' | 'completion'
  /** Where the provider tells what the call cost, if it does. */
  readonly reportedCost: 'none' | 'usage.cost' | 'usage.cost_in_usd_ticks'
}

/** The quirk that decides what becomes of sources beside the choices. */
export type CitationQuirks = Pick<OpenAIChatQuirks, 'numberedCitations'>

/** Those of the optional fields that the conversation has no word for: they travel in `rest`. */
export const wordlessFields = [
  'modalities',
  'audio',
  'prediction',
  'prompt_cache_retention',
] as const satisfies readonly OptionalField[]

/** OpenAI's own extras, which other providers refuse as unknown fields. */
export const openaiOnly = [
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'service_tier',
  'metadata',
  'store',
  'verbosity',
] as const satisfies readonly OptionalField[]

/** A server that speaks plain chat completions and is lenient about sampling: the common denominator. */
export const defaultQuirks: OpenAIChatQuirks = {
  maxTokensField: 'max_tokens',
  developerRole: false,
  refusedWhileReasoning: [],
  effortFields: ['reasoning_effort'],
  efforts: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'],
  reasoningEcho: 'none',
  echoRequired: false,
  toolCallIds: 'any',
  requiredToolChoice: 'required',
  allowedTools: false,
  seedField: 'seed',
  alternatingRoles: false,
  messageNames: true,
  streamOptions: true,
  jsonSchema: true,
  cacheControl: false,
  thoughtSignatures: false,
  textParts: true,
  refusalParts: false,
  fileParts: 'file',
  drops: openaiOnly,
  passes: inferenceServerFields,
  bodyExtras: {},
  refuses: [],
  thinkTags: false,
  numberedCitations: false,
  reasoningTokens: 'inside',
  totalCorrects: 'none',
  reportedCost: 'none',
}

/** The parameters that a provider with these quirks is not sent. */
export function ignoredFields(quirks: OpenAIChatQuirks, reasoning: boolean): readonly string[] {
  return [
    ...quirks.drops,
    ...quirks.refuses,
    ...(reasoning ? quirks.refusedWhileReasoning : []),
    ...(quirks.effortFields.length === 0 ? ['reasoning'] : []),
    ...(quirks.jsonSchema ? [] : ['structured_outputs']),
  ]
}
