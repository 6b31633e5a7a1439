// The request of generateContent for a chat request.

import type { ChatRequest, FunctionTool, JsonObject, Message } from '../../../conversation/request.ts'
import { rootObjectOf } from '../../claude/root-object.ts'
import { isObject } from '../../json.ts'
import { outputBoundOf, unknownLabels, type Warn, warnInto, warnOfUnknown } from '../../lowering.ts'
import type { LoweredRequest, Target, Warning } from '../../protocol.ts'
import { type NameRule, toolNamesOf, type WireNames } from '../../wire-names.ts'
import { formatInWords, generationConfigOf, schemaWarning } from './generation-config.ts'
import { type SubsetBudget, subsetBudget, toSubset } from '../schema-subset.ts'
import { type GeminiQuirks, type Traits, traitsFor } from './quirks.ts'
import { turnsOf } from './turns.ts'

/** "Must start with a letter or an underscore", says the API. */
const toolNameRule: NameRule = { longest: 64, forbidden: /[^a-zA-Z0-9_.:-]/g, opening: /^[a-zA-Z_]/ }

export function lower(asked: ChatRequest, target: Target<GeminiQuirks>): LoweredRequest {
  const warnings: Warning[] = []
  const traits = traitsFor(target)
  const { quirks, rememberedSignature } = target
  const warn = warnInto(warnings)
  const request = { ...asked, maxOutputTokens: outputBoundOf(asked, target, warn) }
  const names = toolNamesOf(request, toolNameRule)
  const { systemInstruction, contents } = turnsOf(withFormatInWords(request, traits), {
    traits,
    quirks,
    rememberedSignature,
    names,
    warn,
  })
  const config = generationConfigOf(request, traits, target.reasoning, warnings)
  const body: JsonObject = {
    contents,
    ...(systemInstruction === undefined ? {} : { systemInstruction }),
    ...toolsOf(request, names, traits, warnings),
    ...(Object.keys(config).length === 0 ? {} : { generationConfig: config }),
  }
  warnOfIgnored(request, warn)
  const method = request.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const model = encodeURIComponent(target.model.replace(/^models\//, ''))
  const path = `${quirks.modelsPath}/${model}:${method}`
  return { path, headers: {}, body, warnings, toolNames: names.clientNames() }
}

/** The messages, with the answer format as a last instruction if it cannot be set otherwise. */
function withFormatInWords(request: ChatRequest, traits: Traits): readonly Message[] {
  const text = formatInWords(request, traits)
  if (text === undefined) return request.messages
  return [...request.messages, { role: 'system', content: [{ kind: 'text', text, cache: undefined }] }]
}

// ---- tools --------------------------------------------------------------------------------------------------

function toolsOf(request: ChatRequest, names: WireNames, traits: Traits, warnings: Warning[]): JsonObject {
  const choice = request.toolChoice
  // Gemini restricts names only if it forces a call; if the model may choose, the others are not declared.
  const declared =
    choice?.kind === 'allowed' && choice.mode === 'auto'
      ? request.tools.filter((tool) => choice.names.includes(tool.name))
      : request.tools
  // A format together with functions is refused even if none may be called.
  const formatted = request.responseFormat !== undefined && request.responseFormat.kind !== 'text'
  const withheld = formatted && choice?.kind === 'none' && !traits.formatsBesideTools
  // Nothing else keeps Gemini from searching.
  if (request.webSearch !== undefined) return choice?.kind === 'none' ? {} : { tools: [{ googleSearch: {} }] }
  if (declared.length === 0 || withheld) return {}
  if (declared.some((tool) => tool.strict === true)) {
    warnings.push({
      param: 'tools.strict',
      message: 'The provider does not enforce schemas of tools; dropped.',
    })
  }
  const budget = subsetBudget()
  const functionDeclarations = declared.map((tool) => ({
    name: names.of(tool.name),
    ...declarationOf(tool, traits, budget, warnings),
  }))
  const mode = callingMode(request, names)
  return {
    tools: [{ functionDeclarations }],
    ...(mode === undefined ? {} : { toolConfig: { functionCallingConfig: mode } }),
  }
}

/** A function's description and parameters. */
function declarationOf(
  tool: FunctionTool,
  traits: Traits,
  budget: SubsetBudget,
  warnings: Warning[],
): JsonObject {
  const declaration: JsonObject = tool.description === undefined ? {} : { description: tool.description }
  if (tool.parameters === undefined || Object.keys(tool.parameters).length === 0) return declaration
  if (traits.schema === 'json-schema') return { ...declaration, parametersJsonSchema: tool.parameters }
  // Gemini requires an object without alternatives at the root.
  const root = rootObjectOf(tool.parameters)
  const { schema, dropped } = toSubset(root.schema, budget)
  const lost = root.merged ? [...dropped, 'alternatives at the root'] : dropped
  // The subset has no object without members.
  if (isObject(schema['properties']) && Object.keys(schema['properties']).length === 0) return declaration
  warnings.push(...schemaWarning(`tools.${tool.name}.parameters`, lost))
  return { ...declaration, parameters: schema }
}

function callingMode(request: ChatRequest, names: WireNames): JsonObject | undefined {
  const choice = request.toolChoice
  switch (choice?.kind) {
    case undefined:
    case 'auto':
      return undefined
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'function':
      return { mode: 'ANY', allowedFunctionNames: [names.of(choice.name)] }
    case 'allowed':
      return choice.mode === 'required'
        ? { mode: 'ANY', allowedFunctionNames: choice.names.map((name) => names.of(name)) }
        : undefined
  }
}

// ---- what the provider has no word for ------------------------------------------------------------------------

/** Fields of the client's body that are used here. */
const readFromRest: readonly string[] = ['modalities', 'audio']

function warnOfIgnored(request: ChatRequest, warn: Warn): void {
  const { sampling, rest } = request
  const unread = Object.entries(rest).filter(([name]) => !readFromRest.includes(name))
  warnOfUnknown(
    {
      min_p: sampling.minP,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
      // Gemini always may call several functions at once.
      parallel_tool_calls: request.tools.length > 0 ? request.parallelToolCalls : undefined,
      ...unknownLabels(request),
      ...Object.fromEntries(unread),
    },
    warn,
  )
}
