// What a chat request may hold and a text completion may not.

/** Fields of chat completions that a text completion does not have. */
export const chatOnly = [
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'web_search_options',
  'functions',
  'function_call',
  'response_format',
  'modalities',
  'audio',
  'prediction',
  'logprobs',
  'top_logprobs',
] as const
