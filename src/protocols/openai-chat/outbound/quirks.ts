// Fields of chat completions that the conversation has no word for and that go on to a provider as the client wrote
// them: an allow-list, because a field nobody here knows may have a price (a search, a faster tier) or lift the bound
// of the answer that the hold was computed from. Each provider row adds its own in `quirks.passes`.

import type { MessageQuirks, OptionalField, ParameterQuirks, UsageQuirks } from '../../openai/parameters.ts'

/**
 * What inference servers take beside OpenAI's parameters: sampling, stopping, decoding into a grammar, the template.
 * Sources: the request parameters of vLLM, SGLang, llama.cpp, LM Studio and TGI. None of them adds an answer or more
 * tokens than `max_tokens`; `best_of`, `use_beam_search` and the other names for a bound are missing on purpose.
 */
const inferenceServerFields = [
  'add_generation_prompt',
  'allowed_token_ids',
  'bad_words',
  'cache_prompt',
  'cache_salt',
  'chat_template_kwargs',
  'continue_final_message',
  'documents',
  'dry_allowed_length',
  'dry_base',
  'dry_multiplier',
  'dry_penalty_last_n',
  'dry_sequence_breakers',
  'dynatemp_exponent',
  'dynatemp_range',
  'ebnf',
  'enable_thinking',
  'grammar',
  'guided_choice',
  'guided_decoding_backend',
  'guided_grammar',
  'guided_json',
  'guided_regex',
  'guided_whitespace_pattern',
  'id_slot',
  'ignore_eos',
  'include_reasoning',
  'include_stop_str_in_output',
  'json_schema',
  'length_penalty',
  'min_keep',
  'min_tokens',
  'mirostat',
  'mirostat_eta',
  'mirostat_tau',
  'no_repeat_ngram_size',
  'no_stop_trim',
  'reasoning_format',
  'regex',
  'repeat_last_n',
  'repeat_penalty',
  'return_progress',
  'return_token_ids',
  'return_tokens_as_token_ids',
  'samplers',
  'separate_reasoning',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'stop_regex',
  'stop_token_ids',
  'stream_reasoning',
  'structural_tag',
  'structured_outputs',
  'tfs_z',
  'thinking',
  'thinking_budget',
  'thinking_forced_open',
  'timings_per_token',
  'top_a',
  'top_n_sigma',
  'truncate_prompt_tokens',
  'typical_p',
  'xtc_probability',
  'xtc_threshold',
] as const

// How providers of chat completions differ, as data: provider rows set the deviations.

export interface OpenAIChatQuirks extends ParameterQuirks, MessageQuirks, UsageQuirks {
  // ---- the request ----
  readonly maxTokensField: 'max_tokens' | 'max_completion_tokens'
  /** How earlier reasoning is returned to the provider. `thinking-parts`: as content parts (Mistral). */
  readonly reasoningEcho: 'none' | 'reasoning_content' | 'reasoning' | 'reasoning_details' | 'thinking-parts'
  /**
   * Whether an assistant turn with tool calls must carry its reasoning while the model thinks: a client that
   * dropped it would get a 400, an empty string is accepted.
   */
  readonly echoRequired: boolean
  /** `nine`: exactly nine letters and digits (Mistral answers anything else with code 3280). */
  readonly toolCallIds: 'any' | 'nine'
  /** Whether it knows custom tools, whose argument is a text; otherwise they are functions. */
  readonly customTools: boolean
  /** The word for "call some tool". */
  readonly requiredToolChoice: 'required' | 'any'
  /** Whether user and assistant must alternate: consecutive turns of a role are merged. */
  readonly alternatingRoles: boolean
  /**
   * How a model is made to go on with a last message of its own: `as-it-is`, by a field of the message (`prefix`, after
   * which the answer repeats it, or `partial`), or by the template (vLLM). `none`: it begins a new answer.
   */
  readonly prefill: 'none' | 'as-it-is' | 'prefix' | 'partial' | 'template'
  /** Whether messages may carry `name`. */
  readonly messageNames: boolean
  /** Whether `stream_options.include_usage` is supported; otherwise usage is always sent. */
  readonly streamOptions: boolean
  /** Whether `response_format: json_schema` is supported; otherwise the schema goes into the prompt. */
  readonly jsonSchema: boolean
  /** Whether `cache_control` marks are supported; otherwise they are left out. */
  readonly cacheControl: boolean
  /** Whether OpenAI's `prompt_cache_breakpoint` is. */
  readonly cacheBreakpoints: boolean
  /** Whether a tool call may carry `extra_content` with Gemini's thought signature (Google's own endpoint). */
  readonly thoughtSignatures: boolean
  /** Whether text may be in parts; otherwise a message's text is joined, unless it has other parts. */
  readonly textParts: boolean
  /** Whether a refusal is returned as a refusal part; otherwise as text. */
  readonly refusalParts: boolean
  /** How a file is carried; `none` refuses it. */
  readonly fileParts: 'file' | 'file-or-url' | 'document_url' | 'file_url' | 'none'
  /** Which models search by themselves, and by whose fields they are configured. */
  readonly webSearch: 'none' | 'openai' | 'perplexity'

  // ---- the answer ----
  /** Whether an answer's text may open with `<think>…</think>`: the model's reasoning. */
  readonly thinkTags: boolean
  /** Whether the text cites by number (`[2]`) from a list of sources. */
  readonly numberedCitations: boolean
}

/** The quirk that decides about the list of sources. */
export type CitationQuirks = Pick<OpenAIChatQuirks, 'numberedCitations'>

/** OpenAI's own parameters, which other providers refuse as unknown. */
export const openaiOnly = [
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'prompt_cache_options',
  'service_tier',
  'metadata',
  'store',
  'verbosity',
] as const satisfies readonly OptionalField[]

/** The common denominator: a server of plain chat completions that is lenient about sampling. */
export const defaultQuirks: OpenAIChatQuirks = {
  maxTokensField: 'max_tokens',
  developerRole: false,
  refusedWhileReasoning: [],
  effortFields: ['reasoning_effort'],
  efforts: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'],
  reasoningEcho: 'none',
  echoRequired: false,
  toolCallIds: 'any',
  customTools: false,
  requiredToolChoice: 'required',
  allowedTools: false,
  seedField: 'seed',
  alternatingRoles: false,
  prefill: 'none',
  messageNames: true,
  streamOptions: true,
  jsonSchema: true,
  cacheControl: false,
  cacheBreakpoints: false,
  thoughtSignatures: false,
  textParts: true,
  refusalParts: false,
  fileParts: 'file',
  webSearch: 'none',
  drops: openaiOnly,
  passes: inferenceServerFields,
  bodyExtras: {},
  refuses: [],
  thinkTags: false,
  numberedCitations: false,
  reasoningTokens: 'inside',
  totalCorrects: 'completion',
  reportedCost: 'none',
}

/** The parameters that are not sent to a provider with these quirks. */
export function ignoredFields(quirks: OpenAIChatQuirks, reasoning: boolean): readonly string[] {
  return [
    ...quirks.drops,
    ...quirks.refuses,
    ...(reasoning ? quirks.refusedWhileReasoning : []),
    ...(quirks.effortFields.length === 0 ? ['reasoning'] : []),
    ...(quirks.jsonSchema ? [] : ['structured_outputs']),
  ]
}
