// The request parameters that families of models honour: what `supported_parameters` lists, by the name of a set.

const common = ['max_tokens', 'max_completion_tokens', 'stop', 'stream', 'tools', 'tool_choice']
const sampling = ['temperature', 'top_p']
const structured = ['response_format', 'structured_outputs']
const thinking = ['reasoning', 'reasoning_effort']
const openai = [...common, 'parallel_tool_calls', 'seed', 'n', ...structured, 'user', 'metadata', 'store']
const penalties = ['frequency_penalty', 'presence_penalty', 'logit_bias', 'logprobs', 'top_logprobs']

const parameterSets: Readonly<Record<string, readonly string[]>> = {
  openai: [...openai, ...sampling, ...penalties],
  'openai-reasoning': [...openai, ...thinking, 'verbosity'],
  'openai-compatible': [
    ...common,
    ...sampling,
    'seed',
    'response_format',
    'frequency_penalty',
    'presence_penalty',
  ],
  'openai-compatible-reasoning': [...common, ...sampling, 'seed', 'response_format', ...thinking],
  anthropic: [...common, 'parallel_tool_calls', ...sampling, 'top_k', ...structured],
  'anthropic-reasoning': [...common, 'parallel_tool_calls', ...sampling, 'top_k', ...structured, ...thinking],
  gemini: [
    ...common,
    ...sampling,
    'top_k',
    'seed',
    'n',
    ...structured,
    'frequency_penalty',
    'presence_penalty',
  ],
  'gemini-reasoning': [...common, ...sampling, 'top_k', 'seed', 'n', ...structured, ...thinking],
  cohere: [
    ...common,
    ...sampling,
    'top_k',
    'seed',
    ...structured,
    'frequency_penalty',
    'presence_penalty',
    'logprobs',
  ],
  bedrock: [...common, ...sampling],
  simulator: [
    ...common,
    ...sampling,
    'top_k',
    'min_p',
    'seed',
    'n',
    'logprobs',
    'top_logprobs',
    'parallel_tool_calls',
    ...structured,
    ...thinking,
    'prompt_cache_key',
  ],
  embeddings: ['input', 'encoding_format', 'dimensions', 'user'],
}

const noSampling = '-no-sampling'

/** The name of the same set without what a model refuses that does not take temperature. */
export function withoutSampling(set: string): string {
  return `${set}${noSampling}`
}

/** The parameters of a set's name, or the list itself. A row without either gets what every server honours. */
export function parametersOf(set: string | readonly string[] | undefined): readonly string[] {
  if (typeof set !== 'string' && set !== undefined) return set
  const name = set ?? 'openai-compatible'
  if (!name.endsWith(noSampling)) return parameterSets[name] ?? []
  const full = parameterSets[name.slice(0, -noSampling.length)] ?? []
  return full.filter((parameter) => ![...sampling, 'top_k'].includes(parameter))
}
