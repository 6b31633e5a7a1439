// Where addresses may be in the body of a message.

import { parts, type Place } from '../../request/addresses.ts'
import { gatewayFields } from './schema.ts'

/** Blocks inside blocks: tool results, documents with parts. */
const nested: { [member: string]: Place } = {}
const block = parts(nested)
Object.assign(nested, {
  type: 'words',
  text: 'words',
  title: 'words',
  context: 'words',
  thinking: 'words',
  signature: 'words',
  data: 'words',
  id: 'words',
  name: 'words',
  tool_use_id: 'words',
  // What a tool was called with, and the address of a found page: nothing fetches these again.
  input: 'words',
  citations: 'words',
  url: 'words',
  encrypted_content: 'words',
  page_age: 'words',
  cache_control: 'words',
  content: block,
  // Of a `container_upload`.
  file_id: 'reference',
  // Of a search result it is a text.
  source: parts({
    type: 'words',
    media_type: 'words',
    data: 'words',
    url: 'address',
    file_id: 'reference',
    content: block,
  }),
} satisfies { [member: string]: Place })

const words = Object.fromEntries(
  [
    ...gatewayFields,
    'model',
    'betas',
    'tool_choice',
    'thinking',
    'output_config',
    'output_format',
    'stop_sequences',
    'metadata',
    'service_tier',
  ].map((field) => [field, 'words' as const]),
)

export const addresses = parts({
  ...words,
  messages: parts({ role: 'words', content: block }),
  system: block,
  tools: parts({
    type: 'words',
    name: 'words',
    description: 'words',
    input_schema: 'words',
    input_examples: 'words',
    cache_control: 'words',
    mcp_server_name: 'words',
    default_config: 'words',
    configs: 'words',
  }),
  mcp_servers: parts({
    type: 'words',
    name: 'words',
    url: 'address',
    authorization_token: 'words',
    tool_configuration: 'words',
  }),
})
