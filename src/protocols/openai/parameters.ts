// The parameters of a request beside its messages, by the names that OpenAI's protocols share: what a provider has no word
// for is named.

import type { ChatRequest, FunctionTool, Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { asksNothing } from '../lowering.ts'
import { noWarnings } from '../lowered-request.ts'
import type { Warning } from '../protocol.ts'
import { type LoweredFields, nothingLowered, type ParameterTarget } from './parameter-target.ts'
import { type MessageQuirks, type OptionalField, restFields } from './quirks.ts'
import { switchOf } from './reasoning.ts'

/** Throws GatewayError `unsupported_parameter` for what would change the shape of the answer. */
export function refuseUnsupported(request: ChatRequest, target: ParameterTarget): void {
  const { sampling } = request
  const n = (sampling.n ?? 1) > 1
  const logprobs = sampling.logprobs === true || sampling.topLogprobs !== undefined
  if (n || logprobs) refuseAsked({ n, logprobs }, request, target)
}

function refuseAsked(
  asked: Readonly<Record<'n' | 'logprobs', boolean>>,
  request: ChatRequest,
  target: ParameterTarget,
): void {
  const refused = target.quirks.refuses.find((field) => asked[field])
  const unreasonable = asked.logprobs && refusedByModel(request, target).includes('logprobs')
  const param = refused ?? (unreasonable ? 'logprobs' : undefined)
  if (param === undefined) return
  throw new GatewayError('unsupported_parameter', {
    message: `The model ${target.model} at ${target.provider} does not support '${param}'.`,
    param,
    provider: target.provider,
  })
}

/** The client's own fields: those known to change neither price nor length are passed on, others warned of. */
export function lowerRest(rest: JsonObject, target: ParameterTarget): LoweredFields {
  for (const _ in rest) return lowerFields(rest, target)
  return nothingLowered
}

function lowerFields(rest: JsonObject, target: ParameterTarget): LoweredFields {
  const { drops, passes } = target.quirks
  const fields: JsonObject = {}
  const warnings: Warning[] = []
  for (const name in rest) {
    const value = rest[name]!
    const inRest = isRestField(name)
    if (inRest ? !drops.includes(name) : passes.includes(name)) fields[name] = value
    else if (inRest && !asksNothing(name, value))
      warnings.push(leftOut(name, `the provider ${target.provider}`))
    else if (!inRest) warnings.push(unpricedWarning(name, target.provider))
  }
  return { fields, warnings }
}

function isRestField(name: string): name is (typeof restFields)[number] {
  return (restFields as readonly string[]).includes(name)
}

/** The warning for a field that is not known to be free of charge. */
function unpricedWarning(name: string, provider: string): Warning {
  const message = `'${name}' was left out: it is not among the fields that ${provider} is sent, which change no price.`
  return { param: name, message }
}

function leftOut(name: string, who: string): Warning {
  // Providers with tiers do not get it either: a call would cost more than is charged.
  const why =
    name === 'service_tier' ? 'the prices here are those of the standard tier' : `${who} does not support it`
  return { param: name, message: `'${name}' was left out: ${why}.` }
}

/** Those of the optional parameters that the conversation has words for; the others are in `rest`. */
type ModeledField = Exclude<OptionalField, (typeof restFields)[number]>

/** Sampling and labels. `temperature: 1` is the default and never refused, so it stays. */
export function lowerSampling(request: ChatRequest, target: ParameterTarget): LoweredFields {
  const { sampling, labels } = request
  const lowered = new OptionalFields(request, target)
  lowered.add('temperature', sampling.temperature)
  lowered.add('top_p', sampling.topP)
  lowered.add('top_k', sampling.topK)
  lowered.add('min_p', sampling.minP)
  lowered.add('frequency_penalty', sampling.frequencyPenalty)
  lowered.add('presence_penalty', sampling.presencePenalty)
  lowered.add('repetition_penalty', sampling.repetitionPenalty)
  lowered.add('seed', sampling.seed)
  lowered.add('stop', sampling.stop && [...sampling.stop])
  lowered.add('logit_bias', sampling.logitBias && { ...sampling.logitBias })
  // Without tools it says nothing, and OpenAI refuses it.
  if (request.tools.length > 0) lowered.add('parallel_tool_calls', request.parallelToolCalls)
  lowered.add('user', labels.user)
  lowered.add('safety_identifier', labels.safetyIdentifier)
  lowered.add('prompt_cache_key', labels.promptCacheKey)
  lowered.add('service_tier', labels.serviceTier)
  lowered.add('metadata', labels.metadata && { ...labels.metadata })
  lowered.add('store', labels.store)
  lowered.add('verbosity', labels.verbosity)
  const { fields } = lowered
  if (sampling.n !== undefined && sampling.n !== 1) fields.n = sampling.n
  if (sampling.logprobs !== undefined) fields.logprobs = sampling.logprobs
  if (sampling.topLogprobs !== undefined) fields.top_logprobs = sampling.topLogprobs
  return lowered
}

/** The optional parameters of one request that the provider and the model take. */
class OptionalFields implements LoweredFields {
  readonly fields: JsonObject = {}
  #warnings: Warning[] | undefined
  readonly #target: ParameterTarget
  readonly #refused: readonly string[]

  constructor(request: ChatRequest, target: ParameterTarget) {
    this.#target = target
    this.#refused = refusedByModel(request, target)
  }

  get warnings(): readonly Warning[] {
    return this.#warnings ?? noWarnings
  }

  add(name: ModeledField, value: Json | undefined): void {
    if (value === undefined) return
    const { model, provider, quirks } = this.#target
    const byModel = this.#refused.includes(name) && value !== 1
    if (quirks.drops.includes(name) || byModel) {
      const who = byModel ? `the model ${model}` : `the provider ${provider}`
      if (!asksNothing(name, value)) (this.#warnings ??= []).push(leftOut(name, who))
    } else this.fields[name === 'seed' ? quirks.seedField : name] = value
  }
}

const none: readonly never[] = []

/** With reasoning switched off such a model samples like any other. */
function refusedByModel(
  request: ChatRequest,
  target: ParameterTarget,
): readonly (OptionalField | 'logprobs')[] {
  const off = request.reasoning !== undefined && switchOf(request.reasoning) === false
  return target.reasoning && !off ? target.quirks.refusedWhileReasoning : none
}

// ---- tools --------------------------------------------------------------------------------------------------

/** All tools; where a provider has no way to say which are allowed now, only those. */
export function shownTools(
  { tools, toolChoice }: ChatRequest,
  { allowedTools }: Pick<MessageQuirks, 'allowedTools'>,
): readonly FunctionTool[] {
  if (toolChoice?.kind !== 'allowed' || allowedTools) return tools
  return functionsNamed(tools, toolChoice.names)
}

function functionsNamed(tools: readonly FunctionTool[], names: readonly string[]): readonly FunctionTool[] {
  return tools.filter((tool) => names.includes(tool.name))
}

/** A tool's parameters. Several providers refuse a function without any; an empty object says the same. */
export function parametersOf({ parameters, strict }: FunctionTool): JsonObject {
  if (parameters !== undefined) return asObject(parameters)
  return { type: 'object', properties: {}, ...(strict === true ? { additionalProperties: false } : {}) }
}

/** A schema made of others has its type from them. */
const composing = ['$ref', 'allOf', 'anyOf', 'oneOf']

/** OpenAI refuses a schema without a type, and an object without `properties`; other protocols' clients omit both. */
function asObject(parameters: JsonObject): JsonObject {
  const { type = 'object', properties } = parameters
  if (type !== 'object' || (properties !== undefined && 'type' in parameters)) return parameters
  if (composing.some((keyword) => keyword in parameters)) return parameters
  return { ...parameters, type, properties: properties ?? {} }
}
