// Where addresses may be in the body of a chat completion or embeddings request.

import { parts } from '../../request/addresses.ts'
import { gatewayPlaces } from '../../request/gateway-fields.ts'

const link = parts({ url: 'address', detail: 'words' }, { text: 'address' })

const contentPart = parts({
  type: 'words',
  text: 'words',
  refusal: 'words',
  thinking: 'words',
  signature: 'words',
  image_url: link,
  video_url: link,
  input_audio: parts({ data: 'data', format: 'words' }),
  file: parts({ file_data: 'data', file_url: 'address', file_id: 'reference', filename: 'words' }),
  cache_control: 'words',
})

const message = parts({
  role: 'words',
  name: 'words',
  content: contentPart,
  refusal: 'words',
  tool_calls: 'words',
  function_call: 'words',
  tool_call_id: 'words',
  reasoning: 'words',
  reasoning_content: 'words',
  reasoning_details: 'words',
  // What an earlier answer read: nothing reads it again.
  annotations: 'words',
  web_search_calls: 'words',
  mcp_calls: 'words',
  citations: 'words',
  search_results: 'words',
  images: parts({ type: 'words', image_url: link }),
  cache_control: 'words',
})

/** Labels and sampling parameters of chat completions and embeddings. */
const words = Object.fromEntries(
  [
    'model',
    'stop',
    'functions',
    'function_call',
    'tool_choice',
    'response_format',
    'reasoning',
    'reasoning_effort',
    'modalities',
    'prediction',
    'logit_bias',
    'user',
    'safety_identifier',
    'prompt_cache_key',
    'prompt_cache_retention',
    'service_tier',
    'metadata',
    'verbosity',
    // Schemas and grammars for servers of open models.
    'guided_json',
    'structured_outputs',
    'json_schema',
    'grammar',
  ].map((field) => [field, 'words' as const]),
)

export const addresses = parts({
  ...words,
  ...gatewayPlaces,
  messages: message,
  tools: parts({
    type: 'words',
    function: 'words',
    cache_control: 'words',
    server_label: 'words',
    server_name: 'words',
    server_url: 'address',
    authorization: 'words',
    headers: 'words',
    allowed_tools: 'words',
    require_approval: 'words',
  }),
})

export const embeddingAddresses = parts({
  ...words,
  ...gatewayPlaces,
  input: 'words',
  encoding_format: 'words',
})
