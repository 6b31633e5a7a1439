// The parameters of a request. Those that OpenAI's protocols share are lowered in ../../openai.

import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  ResponseFormat,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import {
  lowerRest as lowerSharedRest,
  lowerSampling as lowerSharedSampling,
  parametersOf,
  refuseUnsupported as refuseShared,
  shownTools,
} from '../../openai/parameters.ts'
import type { LoweredFields, ParameterTarget } from '../../openai/parameter-target.ts'
import { lowerReasoning as lowerSharedReasoning } from '../../openai/reasoning.ts'
import type { Target } from '../../protocol.ts'
import { type ResponsesQuirks, unknownFields } from './quirks.ts'
import { searchBound, searchTools } from './web-search.ts'

type ResponsesTarget = Target<ResponsesQuirks>

/** Throws GatewayError `unsupported_parameter` for parameters that would change the format of the answer. */
export function refuseUnsupported(request: ChatRequest, target: ResponsesTarget): void {
  refuseShared(request, parameterTarget(target))
  const { modalities } = request.rest
  if (Array.isArray(modalities) && modalities.some((modality) => modality !== 'text')) {
    throw new GatewayError('unsupported_parameter', {
      message: `The model ${target.model} at ${target.provider} answers in text alone.`,
      param: 'modalities',
      provider: target.provider,
    })
  }
}

/** The target, with the quirks for the names of parameters. */
function parameterTarget(target: ResponsesTarget): ParameterTarget {
  const { refusedWhileReasoning, efforts, drops, passes, logprobs } = target.quirks
  return {
    ...target,
    quirks: {
      refusedWhileReasoning,
      efforts,
      passes,
      effortFields: ['reasoning_effort'],
      seedField: 'seed',
      drops: [...unknownFields, ...drops],
      refuses: logprobs ? ['n'] : ['n', 'logprobs'],
    },
  }
}

export function lowerSampling(request: ChatRequest, target: ResponsesTarget): LoweredFields {
  const { logprobs: _logprobs, topLogprobs, n: _n, ...sampling } = request.sampling
  const lowered = lowerSharedSampling({ ...request, sampling }, parameterTarget(target))
  const { verbosity: _verbosity, ...fields } = lowered.fields
  return {
    fields: {
      ...fields,
      ...(topLogprobs !== undefined && wantsLogprobs(request) ? { top_logprobs: topLogprobs } : {}),
    },
    warnings: lowered.warnings,
  }
}

export function lowerBound({ maxOutputTokens: tokens }: ChatRequest, target: ResponsesTarget): LoweredFields {
  if (tokens === undefined) return { fields: {}, warnings: [] }
  const { leastOutputTokens: least } = target.quirks
  if (tokens >= least) return { fields: { max_output_tokens: tokens }, warnings: [] }
  const message = `${target.provider} takes no bound below ${least} tokens: ${least} was sent instead of ${tokens}.`
  return { fields: { max_output_tokens: least }, warnings: [{ param: 'max_tokens', message }] }
}

/**
 * The `include` field. Models that do not reason refuse a request for reasoning, so it is only made if the catalog or
 * the client says that this one does.
 */
export function lowerInclude(request: ChatRequest, target: ResponsesTarget): JsonObject {
  const include = [
    ...(target.quirks.encryptedReasoning && reasons(request, target) ? ['reasoning.encrypted_content'] : []),
    ...(wantsLogprobs(request) ? ['message.output_text.logprobs'] : []),
  ]
  return include.length === 0 ? {} : { include }
}

function reasons({ reasoning }: ChatRequest, target: ResponsesTarget): boolean {
  if (doesNotReason(target)) return false
  if (target.reasoning || reasoning === undefined) return target.reasoning
  return (
    reasoning.enabled === true || reasoning.maxTokens !== undefined || (reasoning.effort ?? 'none') !== 'none'
  )
}

/** Whether the catalog says that the model does not reason. Of a model it does not know, the client may know more. */
function doesNotReason({ reasoning, efforts }: ResponsesTarget): boolean {
  return !reasoning && efforts !== undefined && Object.keys(efforts).length === 0
}

function wantsLogprobs({ sampling }: ChatRequest): boolean {
  return sampling.logprobs ?? sampling.topLogprobs !== undefined
}

/**
 * The effort, and whether reasoning is shown. A summary is requested only if the client asks to see the reasoning:
 * OpenAI refuses the whole request if the organisation has not verified its identity.
 */
export function lowerReasoning(request: ChatRequest, target: ResponsesTarget): LoweredFields {
  const { reasoning } = request
  if (reasoning === undefined) return { fields: {}, warnings: [] }
  const { fields, warnings } = lowerSharedReasoning(request, parameterTarget(target))
  const shown =
    target.quirks.summaries &&
    !doesNotReason(target) &&
    (reasoning.enabled === true || reasoning.exclude === false)
  const wanted: JsonObject = {
    ...(fields.reasoning_effort === undefined ? {} : { effort: fields.reasoning_effort }),
    ...(shown && reasoning.exclude !== true ? { summary: reasoning.summary ?? 'auto' } : {}),
  }
  return {
    fields: Object.keys(wanted).length === 0 ? {} : { reasoning: wanted },
    // A summary that was not requested cannot be prevented, but is not shown.
    warnings: warnings.filter(({ param }) => !target.quirks.summaries || param !== 'reasoning.exclude'),
  }
}

/** The format of the text and its verbosity. */
export function lowerText(request: ChatRequest, target: ResponsesTarget): JsonObject {
  const { verbosity } = request.labels
  const text: JsonObject = {
    ...formatOf(request.responseFormat),
    ...(verbosity === undefined || target.quirks.drops.includes('verbosity') ? {} : { verbosity }),
  }
  return Object.keys(text).length === 0 ? {} : { text }
}

function formatOf(format: ResponseFormat | undefined): JsonObject {
  switch (format?.kind) {
    case undefined:
    case 'text':
      return {}
    case 'json-object':
      return { format: { type: 'json_object' } }
    case 'json-schema': {
      const { name, description, schema, strict } = format
      return {
        format: {
          type: 'json_schema',
          name,
          ...(description === undefined ? {} : { description }),
          schema,
          ...(strict === undefined ? {} : { strict }),
        },
      }
    }
  }
}

// ---- tools ------------------------------------------------------------------------------------------------

export function lowerTools(request: ChatRequest, quirks: ResponsesQuirks): JsonObject {
  const tools = [...shownTools(request, quirks).map(lowerTool), ...searchTools(request, quirks)]
  if (tools.length === 0) return {}
  const choice = lowerToolChoice(request, quirks)
  return {
    tools,
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...searchBound(request, quirks),
  }
}

function lowerTool(tool: FunctionTool): JsonObject {
  return {
    type: 'function',
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    parameters: parametersOf(tool),
    // Here a function is strict by default; in chat completions it is not.
    ...(tool.strictByDefault === true ? {} : { strict: tool.strict ?? false }),
  }
}

function lowerToolChoice({ toolChoice }: ChatRequest, quirks: ResponsesQuirks): Json | undefined {
  switch (toolChoice?.kind) {
    case undefined:
      return undefined
    case 'auto':
    case 'none':
    case 'required':
      return toolChoice.kind
    case 'function':
      return { type: 'function', name: toolChoice.name }
    case 'allowed': {
      if (!quirks.allowedTools) return toolChoice.mode
      const tools = toolChoice.names.map((name): JsonObject => ({ type: 'function', name }))
      return { type: 'allowed_tools', mode: toolChoice.mode, tools }
    }
  }
}

// ---- everything else --------------------------------------------------------------------------------------

/** Fields of chat completions that providers of this protocol refuse as unknown. */
const chatOnly = ['audio', 'modalities', 'prediction'] as const

/** Unknown fields of the client, passed on or dropped: see `lowerRest` of openai/parameters.ts. */
export function lowerRest(rest: JsonObject, target: ResponsesTarget): LoweredFields {
  const shared = parameterTarget(target)
  const drops = [...shared.quirks.drops, ...chatOnly]
  return lowerSharedRest(rest, { ...shared, quirks: { ...shared.quirks, drops } })
}
