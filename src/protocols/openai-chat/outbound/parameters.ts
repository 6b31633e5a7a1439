// Tools and answer format, in the dialect of a provider's row.

import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  ResponseFormat,
} from '../../../conversation/request.ts'
import { type LoweredFields, nothingLowered } from '../../openai/parameter-target.ts'
import { parametersOf, shownTools } from '../../openai/parameters.ts'
import type { Target } from '../../protocol.ts'
import { markOf } from './messages.ts'
import type { OpenAIChatQuirks } from './quirks.ts'

type ChatTarget = Target<OpenAIChatQuirks>

const noFields: JsonObject = {}

export function lowerTools(request: ChatRequest, quirks: OpenAIChatQuirks): JsonObject {
  const tools = shownTools(request, quirks)
  return tools.length === 0 ? noFields : toolFields(tools, lowerToolChoice(request, quirks), quirks)
}

function toolFields(
  tools: readonly FunctionTool[],
  choice: Json | undefined,
  quirks: OpenAIChatQuirks,
): JsonObject {
  const lowered = tools.map((tool) => lowerTool(tool, quirks))
  return choice === undefined ? { tools: lowered } : { tools: lowered, tool_choice: choice }
}

function lowerTool(tool: FunctionTool, quirks: OpenAIChatQuirks): JsonObject {
  return {
    type: 'function',
    function: {
      name: tool.name,
      ...(tool.description === undefined ? {} : { description: tool.description }),
      parameters: parametersOf(tool),
      ...(tool.strict === undefined ? {} : { strict: tool.strict }),
    },
    ...markOf(tool.cache, quirks),
  }
}

function lowerToolChoice(request: ChatRequest, quirks: OpenAIChatQuirks): Json | undefined {
  const choice = request.toolChoice
  switch (choice?.kind) {
    case undefined:
      return undefined
    case 'auto':
    case 'none':
      return choice.kind
    case 'required':
      return quirks.requiredToolChoice
    case 'function':
      return { type: 'function', function: { name: choice.name } }
    case 'allowed': {
      if (!quirks.allowedTools) return choice.mode === 'required' ? quirks.requiredToolChoice : 'auto'
      const tools = choice.names.map((name): JsonObject => ({ type: 'function', function: { name } }))
      return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools } }
    }
  }
}

// ---- response format --------------------------------------------------------------------------------------

type LoweredFormat = LoweredFields & { readonly instruction: string | undefined }

const anyFormat: LoweredFormat = { ...nothingLowered, instruction: undefined }

/** The response format, and the instruction that replaces a schema if the provider supports none. */
export function lowerResponseFormat(format: ResponseFormat | undefined, target: ChatTarget): LoweredFormat {
  switch (format?.kind) {
    case undefined:
    case 'text':
      return anyFormat
    case 'json-object':
      return { ...anyFormat, fields: { response_format: { type: 'json_object' } } }
    case 'json-schema': {
      const { name, description, schema, strict } = format
      if (target.quirks.jsonSchema) {
        const described: JsonObject = description === undefined ? {} : { description }
        const bound: JsonObject = strict === undefined ? {} : { strict }
        const json_schema = { name, ...described, schema, ...bound }
        return { ...anyFormat, fields: { response_format: { type: 'json_schema', json_schema } } }
      }
      const message = `${target.provider} takes no JSON schema: it was written into the prompt and binds less.`
      return {
        fields: { response_format: { type: 'json_object' } },
        warnings: [{ param: 'response_format', message }],
        instruction: `Answer with a single JSON object that conforms to this JSON Schema: ${JSON.stringify(schema)}`,
      }
    }
  }
}
