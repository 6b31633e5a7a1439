// Tools, tool choice and structured output, which some models emulate by a tool.

import type { ChatRequest, FunctionTool, JsonObject } from '../../conversation/request.ts'
import { closedSchema, warnOfDescribed } from '../claude/closed-schema.ts'
import { traitsOf } from '../claude/models.ts'
import { answerTool } from '../claude/names.ts'
import { argumentsSchema } from '../claude/root-object.ts'
import { isBlank, allowedFunctions, type ToolOffer, toolOffer, type Warn } from '../lowering.ts'
import type { WireNames } from '../wire-names.ts'
import { cachePoint } from './content.ts'
import type { Family } from './models.ts'
import { isClaude } from './schema.ts'
import { toolsCalled, type Turn } from './turns.ts'

export interface Tooling {
  /** `toolConfig`; undefined where nothing is to be declared. */
  readonly config: JsonObject | undefined
  /** `outputConfig`, if the model takes an answer schema as a parameter. */
  readonly output: JsonObject | undefined
  /** Whether the model must call a tool. */
  readonly forced: boolean
}

export function toolingOf(
  request: ChatRequest,
  turns: readonly Turn[],
  names: WireNames,
  model: string,
  { caches, forces }: Family,
  warn: Warn,
): Tooling {
  const offer = toolOffer(request)
  const output = structuredFormat(request, model, warn)
  const answer = output === undefined ? answerToolOf(request) : undefined
  const called = toolsCalled(turns)
  if (request.parallelToolCalls === false && request.tools.length > 0) {
    warn('parallel_tool_calls', 'The provider may always call several tools at once; dropped.')
  }
  if (request.tools.some((tool) => tool.strict === true)) {
    warn('tools.strict', 'The provider does not enforce schemas of tools; dropped.')
  }
  // There is no `none`: tools are left out, unless calls in the history require their declarations.
  const withheld = offer.choice === 'none' && called.length === 0
  // A model that cannot be forced to call this tool gets no other.
  const declared = withheld ? [] : forces === 'any' ? allowedFunctions(offer) : offer.tools
  if (offer.choice === 'none' && !withheld && offer.tools.length > 0) {
    warn(
      'tool_choice',
      'The history calls tools, so the provider must be shown them; the model might call one.',
    )
  }
  const known = new Set(declared.map((tool) => names.of(tool.name)))
  const specs = [
    ...declared.flatMap((tool) => [
      specOf(tool, names, model, warn),
      ...(caches ? cachePoint(tool.cache) : []),
    ]),
    ...called
      .filter((name) => !known.has(name))
      .map((name) => ({ toolSpec: { name, inputSchema: { json: { type: 'object', properties: {} } } } })),
    ...(answer === undefined ? [] : [answer]),
  ]
  if (specs.length === 0) return { config: undefined, output, forced: false }
  const wanted = choiceOf(offer, declared.length, answer !== undefined, names)
  const choice = forcedChoice(wanted, forces)
  if (wanted !== undefined && choice === undefined) {
    const param = answer === undefined ? 'tool_choice' : 'response_format'
    warn(param, 'This model cannot be made to call a tool; it decides by itself.')
  }
  return {
    config: { tools: specs, ...(choice === undefined ? {} : { toolChoice: choice }) },
    output,
    forced: choice !== undefined,
  }
}

function specOf(tool: FunctionTool, names: WireNames, model: string, warn: Warn): JsonObject {
  const { name, description, parameters } = tool
  const schema = isClaude(model)
    ? argumentsSchema(tool, warn)
    : { type: 'object', ...(parameters ?? { properties: {} }) }
  return {
    toolSpec: {
      name: names.of(name),
      // An empty description is refused.
      ...(description === undefined || isBlank(description) ? {} : { description }),
      inputSchema: { json: schema },
    },
  }
}

/** undefined lets the model choose, which is Bedrock's default. */
function choiceOf(
  { choice, only }: ToolOffer,
  declared: number,
  answers: boolean,
  names: WireNames,
): JsonObject | undefined {
  if (answers) return declared === 0 || choice === 'none' ? { tool: { name: answerTool } } : { any: {} }
  if (choice !== 'required' || declared === 0) return undefined
  return only === undefined ? { any: {} } : { tool: { name: names.of(only) } }
}

/** The choice in the model's terms; undefined if it has none. */
function forcedChoice(choice: JsonObject | undefined, forces: Family['forces']): JsonObject | undefined {
  if (choice === undefined || forces === 'nothing') return undefined
  return forces === 'any' ? { any: {} } : choice
}

function structuredFormat(
  { responseFormat: format }: ChatRequest,
  model: string,
  warn: Warn,
): JsonObject | undefined {
  if (format?.kind !== 'json-schema') return undefined
  if (isClaude(model) && traitsOf(model, false, {}).schema !== 'native') return undefined
  // Bedrock's requirements on schemas are the same for every model with native structured output.
  const closed = closedSchema(format.schema)
  if (closed === undefined) return undefined
  warnOfDescribed(closed, 'response_format', warn)
  const { name, description } = format
  return {
    textFormat: {
      type: 'json_schema',
      structure: {
        jsonSchema: {
          name,
          schema: JSON.stringify(closed.schema),
          ...(description === undefined ? {} : { description }),
        },
      },
    },
  }
}

/** The tool that carries the answer, for a schema that the model does not support natively. */
function answerToolOf({ responseFormat: format }: ChatRequest): JsonObject | undefined {
  if (format === undefined || format.kind === 'text') return undefined
  const asked = format.kind === 'json-schema' ? format : undefined
  const description = 'Gives the final answer to the user. The arguments are the answer.'
  return {
    toolSpec: {
      name: answerTool,
      description: asked?.description === undefined ? description : `${description} ${asked.description}`,
      inputSchema: { json: { ...(asked?.schema ?? { additionalProperties: true }), type: 'object' } },
    },
  }
}
