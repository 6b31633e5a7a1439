// The documentation of the gateway's MCP server.

import { ofAnyRequest, ofBody, ofCaller } from '../docs/openapi-errors.ts'
import type { Operation } from '../docs/operation.ts'

const message = {
  'application/json': { schema: { type: 'object', description: 'A message of JSON-RPC 2.0.' } },
}

export const mcp: Operation = {
  id: 'callMcp',
  tag: 'Service',
  summary: 'The gateway as an MCP server',
  description: `Streamable HTTP, without sessions: give a client this address and the key as \`Authorization: Bearer\`. Tools: \`chat\` (charged like any call), \`list_models\`, \`estimate\`, \`credits\` and \`web_search\`. Programs that speak to servers by standard input start \`weir mcp serve\` instead.`,
  security: 'key',
  body: message,
  answers: {
    '200': { description: 'The answer, whole or as an event stream.', content: message },
    '202': { description: 'A notification, which has no answer.' },
  },
  errors: [...ofAnyRequest, ...ofCaller, ...ofBody, 'origin_not_allowed'],
}
