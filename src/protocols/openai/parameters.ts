// The parameters of a request beside its messages, by the names that OpenAI's protocols share: what a provider has no word
// for is named.

import type { ChatRequest, FunctionTool, Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { asksNothing } from '../lowering.ts'
import type { Warning } from '../protocol.ts'
import type { LoweredFields, ParameterTarget } from './parameter-target.ts'
import { type MessageQuirks, type OptionalField, restFields } from './quirks.ts'
import { switchOf } from './reasoning.ts'

/** Throws GatewayError `unsupported_parameter` for what would change the shape of the answer. */
export function refuseUnsupported(request: ChatRequest, target: ParameterTarget): void {
  const { sampling } = request
  const asked = {
    n: (sampling.n ?? 1) > 1,
    logprobs: sampling.logprobs === true || sampling.topLogprobs !== undefined,
  }
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
  const { drops, passes } = target.quirks
  const fields: JsonObject = {}
  const warnings: Warning[] = []
  for (const name in rest) {
    const value = rest[name]!
    const inRest = isRestField(name)
    if (inRest ? !drops.includes(name) : passes.includes(name)) fields[name] = value
    else if (inRest && !asksNothing(name, value))
      warnings.push(leftOut(name, `the provider ${target.provider}`))
    else if (!inRest) warnings.push(unpriced(name, target.provider))
  }
  return { fields, warnings }
}

function isRestField(name: string): name is (typeof restFields)[number] {
  return (restFields as readonly string[]).includes(name)
}

/** The warning for a field that is not known to be free of charge. */
function unpriced(name: string, provider: string): Warning {
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
  const { quirks } = target
  const optional: Readonly<Record<ModeledField, Json | undefined>> = {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    repetition_penalty: sampling.repetitionPenalty,
    seed: sampling.seed,
    stop: sampling.stop === undefined ? undefined : [...sampling.stop],
    logit_bias: sampling.logitBias === undefined ? undefined : { ...sampling.logitBias },
    // Without tools it says nothing, and OpenAI refuses it.
    parallel_tool_calls: request.tools.length === 0 ? undefined : request.parallelToolCalls,
    user: labels.user,
    safety_identifier: labels.safetyIdentifier,
    prompt_cache_key: labels.promptCacheKey,
    service_tier: labels.serviceTier,
    metadata: labels.metadata === undefined ? undefined : { ...labels.metadata },
    store: labels.store,
    verbosity: labels.verbosity,
  }
  const refused = refusedByModel(request, target)
  const fields: JsonObject = {}
  const warnings: Warning[] = []
  for (const key in optional) {
    const name = key as ModeledField
    const value = optional[name]
    if (value === undefined) continue
    const byModel = refused.includes(name) && value !== 1
    if (quirks.drops.includes(name) || byModel) {
      const who = byModel ? `the model ${target.model}` : `the provider ${target.provider}`
      if (!asksNothing(name, value)) warnings.push(leftOut(name, who))
    } else fields[name === 'seed' ? quirks.seedField : name] = value
  }
  if (sampling.n !== undefined && sampling.n !== 1) fields.n = sampling.n
  if (sampling.logprobs !== undefined) fields.logprobs = sampling.logprobs
  if (sampling.topLogprobs !== undefined) fields.top_logprobs = sampling.topLogprobs
  return { fields, warnings }
}

/** With reasoning switched off such a model samples like any other. */
function refusedByModel(
  request: ChatRequest,
  target: ParameterTarget,
): readonly (OptionalField | 'logprobs')[] {
  const off = request.reasoning !== undefined && switchOf(request.reasoning) === false
  return target.reasoning && !off ? target.quirks.refusedWhileReasoning : []
}

// ---- tools --------------------------------------------------------------------------------------------------

/** All tools; where a provider has no way to say which are allowed now, only those. */
export function shownTools(
  { tools, toolChoice }: ChatRequest,
  { allowedTools }: Pick<MessageQuirks, 'allowedTools'>,
): readonly FunctionTool[] {
  if (toolChoice?.kind !== 'allowed' || allowedTools) return tools
  return tools.filter((tool) => toolChoice.names.includes(tool.name))
}

/** A tool's parameters. Several providers refuse a function without any; an empty object says the same. */
export function parametersOf({ parameters, strict }: FunctionTool): JsonObject {
  if (parameters !== undefined) return parameters
  return { type: 'object', properties: {}, ...(strict === true ? { additionalProperties: false } : {}) }
}
