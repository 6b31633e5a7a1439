// Tools, tool choice and structured output, which on older models is emulated by a tool.

import { argumentsSchema, rootObjectOf } from '../../claude/root-object.ts'
import type { ChatRequest, FunctionTool, Json, JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject, nonEmpty } from '../../json.ts'
import type { Warn } from '../../lowering.ts'
import { closedSchema, warnOfDescribed } from '../../claude/closed-schema.ts'
import type { ModelTraits } from '../../claude/models.ts'
import { cacheControl } from './schema.ts'
import { answerTool } from '../../claude/names.ts'
import type { Turn } from './turns.ts'
import { searchTools } from '../../claude/web-search.ts'

export interface Tooling {
  readonly tools: readonly JsonObject[]
  readonly choice: JsonObject | undefined
  /** `output_config.format`, where the model knows it. */
  readonly format: JsonObject | undefined
  /** Whether the model must call a tool. */
  readonly forced: boolean
}

/** The tools and choice to send. Throws `invalid_request` if the choice names an unknown tool. */
export function toolingOf(
  request: ChatRequest,
  turns: readonly Turn[],
  traits: ModelTraits,
  warn: Warn,
): Tooling {
  const format = formatOf(request, traits, warn)
  const answer = format === undefined ? answerToolOf(request) : undefined
  const offered = offeredTools(request)
  const declared = [
    ...offered.map((tool) => toolOf(tool, traits, warn)),
    ...providerTools(request.rest.tools),
    ...searchTools(request),
    ...(answer === undefined ? [] : [answer]),
  ]
  if (declared.length === 0) return { ...historyTools(turns), format, forced: false }

  const wanted = choiceOf(request, declared, answer !== undefined)
  const forced = wanted?.type === 'any' || wanted?.type === 'tool'
  if (forced && traits.thinkingOff === 'never') {
    warn('tool_choice', 'This model always thinks and cannot be made to call a tool; it decides by itself.')
    return { tools: declared, choice: parallel(request, { type: 'auto' }), format, forced: false }
  }
  return { tools: declared, choice: parallel(request, wanted), format, forced }
}

// ---- tools ------------------------------------------------------------------------------------------------

/** All tools, or those that the choice allows. */
function offeredTools(request: ChatRequest): readonly FunctionTool[] {
  const choice = request.toolChoice
  if (choice?.kind !== 'allowed') return request.tools
  const allowed = request.tools.filter((tool) => choice.names.includes(tool.name))
  if (allowed.length === 0) {
    throw new GatewayError('invalid_request', {
      message: 'tool_choice allows no tool of this request.',
      param: 'tool_choice',
    })
  }
  return allowed
}

function toolOf(tool: FunctionTool, traits: ModelTraits, warn: Warn): JsonObject {
  const strict = tool.strict === true ? strictSchema(tool, traits, warn) : undefined
  return {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    input_schema: strict ?? argumentsSchema(tool, warn),
    ...(strict === undefined ? {} : { strict: true }),
    ...cacheControl(tool.cache),
  }
}

/** The argument schema of a strict tool, if the model supports strict tools and this schema. */
function strictSchema(tool: FunctionTool, traits: ModelTraits, warn: Warn): JsonObject | undefined {
  const { schema, merged } = rootObjectOf(tool.parameters)
  const asked = tool.parameters === undefined ? { ...schema, additionalProperties: false } : schema
  const closed = traits.schema === 'native' && !merged ? closedSchema(asked) : undefined
  if (closed === undefined) {
    warn('tools', `This model cannot be held to the schema of ${tool.name}: it is not strict.`)
    return undefined
  }
  warnOfDescribed(closed, 'tools', warn)
  return closed.schema
}

/** Types of tools that Anthropic runs or defines: most have a date in their name. */
const providerToolType = /_\d{8}$|^mcp_toolset$|^tool_search_tool_/

/** Tools that Anthropic runs or defines, as the client sent them. */
function providerTools(rest: Json | undefined): JsonObject[] {
  if (!Array.isArray(rest)) return []
  return rest.filter(isObject).filter((tool) => providerToolType.test(nonEmpty(tool.type) ?? ''))
}

/** The API requires declarations for all tools called in the history, even if none may be called now. */
function historyTools(turns: readonly Turn[]): Pick<Tooling, 'tools' | 'choice'> {
  const calls = turns.flatMap((turn) => turn.content.filter((block) => block.type === 'tool_use'))
  const names = [...new Set(calls.map((block) => block.name))]
  if (names.length === 0) return { tools: [], choice: undefined }
  return {
    tools: names.map((name) => ({ name: name!, input_schema: { type: 'object', properties: {} } })),
    choice: { type: 'none' },
  }
}

// ---- choice -----------------------------------------------------------------------------------------------

function choiceOf(
  request: ChatRequest,
  declared: readonly JsonObject[],
  answers: boolean,
): JsonObject | undefined {
  const choice = request.toolChoice
  switch (choice?.kind) {
    case 'function':
      if (!declared.some((tool) => tool.name === choice.name)) {
        throw new GatewayError('invalid_request', {
          message: `tool_choice names ${JSON.stringify(choice.name)}, which is not among the tools.`,
          param: 'tool_choice',
        })
      }
      return { type: 'tool', name: choice.name }
    case 'required':
      return { type: 'any' }
    case 'allowed':
      return choice.mode === 'required' || answers ? { type: 'any' } : { type: 'auto' }
    case 'none':
      return answers ? theAnswer : { type: 'none' }
    case 'auto':
    case undefined:
      if (answers) return declared.length === 1 ? theAnswer : { type: 'any' }
      return choice === undefined ? undefined : { type: 'auto' }
    default:
      return choice satisfies never
  }
}

/** Not in parallel: two calls would be two texts, one after the other. */
const theAnswer: JsonObject = { type: 'tool', name: answerTool, disable_parallel_tool_use: true }

/** `parallel_tool_calls: false` is a property of the choice, which is created if necessary. */
function parallel(request: ChatRequest, choice: JsonObject | undefined): JsonObject | undefined {
  if (request.parallelToolCalls !== false || choice?.type === 'none') return choice
  return { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true }
}

// ---- the answer's shape -----------------------------------------------------------------------------------

function formatOf(request: ChatRequest, traits: ModelTraits, warn: Warn): JsonObject | undefined {
  const format = request.responseFormat
  if (format?.kind !== 'json-schema' || traits.schema !== 'native') return undefined
  const closed = closedSchema(format.schema)
  if (closed === undefined) return undefined
  warnOfDescribed(closed, 'response_format', warn)
  return { type: 'json_schema', schema: closed.schema }
}

/** The tool that carries the answer, for a schema that the model does not support natively. */
function answerToolOf(request: ChatRequest): JsonObject | undefined {
  const format = request.responseFormat
  if (format === undefined || format.kind === 'text') return undefined
  const asked = format.kind === 'json-schema' ? format : undefined
  const description = 'Gives the final answer to the user. The arguments are the answer.'
  return {
    name: answerTool,
    description: asked?.description === undefined ? description : `${description} ${asked.description}`,
    // Without a schema (JSON mode) any object is accepted.
    input_schema: { ...(asked?.schema ?? { additionalProperties: true }), type: 'object' },
  }
}
