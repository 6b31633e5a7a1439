// The parameters of a request by the names that OpenAI's protocols share, and which providers take which.

import { z } from 'zod'
import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  Labels,
  Reasoning,
  ResponseFormat,
  Sampling,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { rootObjectOf } from '../claude/tools.ts'
import { asksNothing, joinWarnings, noWarnings, type Warning, withoutUndefined } from '../lowering.ts'
import { hasNoFields } from '../lenient.ts'
import type { Target } from '../protocol.ts'

// Where a ChatRequest holds the parameters that a provider may not know, by their names in chat completions. They are
// sent in this order.

const samplingFields = {
  temperature: 'temperature',
  top_p: 'topP',
  top_k: 'topK',
  min_p: 'minP',
  frequency_penalty: 'frequencyPenalty',
  presence_penalty: 'presencePenalty',
  repetition_penalty: 'repetitionPenalty',
  seed: 'seed',
  stop: 'stop',
  logit_bias: 'logitBias',
} as const satisfies Readonly<Record<string, keyof Sampling>>

/** What the answer is made of depends on these: a request with one that is not supported is refused. */
const shapingFields = {
  logprobs: 'logprobs',
  top_logprobs: 'topLogprobs',
  n: 'n',
} as const satisfies Readonly<Record<string, keyof Sampling>>

const requestFields = {
  tools: 'tools',
  tool_choice: 'toolChoice',
  parallel_tool_calls: 'parallelToolCalls',
  response_format: 'responseFormat',
  reasoning: 'reasoning',
} as const satisfies Readonly<Record<string, keyof ChatRequest>>

const labelFields = {
  user: 'user',
  safety_identifier: 'safetyIdentifier',
  prompt_cache_key: 'promptCacheKey',
  service_tier: 'serviceTier',
  metadata: 'metadata',
  store: 'store',
  verbosity: 'verbosity',
} as const satisfies Readonly<Record<string, keyof Labels>>

/** The conversation has no word for these: they travel in `rest`. */
const restFields = [
  'modalities',
  'audio',
  'prediction',
  'prompt_cache_retention',
  'prompt_cache_options',
] as const

/** Where a ChatRequest holds a parameter, and under which name. */
export interface ParameterPlace {
  readonly in: 'sampling' | 'labels' | 'rest' | 'request'
  readonly as: string
}

function placesIn(
  holder: ParameterPlace['in'],
  names: Readonly<Record<string, string>>,
): [string, ParameterPlace][] {
  return Object.entries(names).map(([param, as]) => [param, { in: holder, as }])
}

export const parameterPlaces: ReadonlyMap<string, ParameterPlace> = new Map([
  ...placesIn('sampling', { ...samplingFields, ...shapingFields }),
  ...placesIn('request', requestFields),
  ...placesIn('labels', labelFields),
  ...placesIn('rest', Object.fromEntries(restFields.map((param) => [param, param]))),
])

/** Optional request fields that a provider may not know. They are named as the client knows them. */
export type OptionalField = ModeledField | (typeof restFields)[number]

/** Those that the conversation has words for. */
type ModeledField = keyof typeof samplingFields | keyof typeof labelFields | 'parallel_tool_calls'

/**
 * Parameters that a server may be said to ignore. `max_tokens` is not on the list: what a call may cost follows from it.
 */
export type IgnorableParameter = OptionalField | keyof typeof shapingFields | keyof typeof requestFields

export const ignorableParameters = [...parameterPlaces.keys()] as readonly IgnorableParameter[]

/** How the effort of reasoning is sent. Several may be sent together. */
type EffortField =
  /** `reasoning_effort: "low"`. */
  | 'reasoning_effort'
  /** `reasoning: {effort | max_tokens | enabled, exclude}`. */
  | 'reasoning'
  /** `thinking: {type: "enabled" | "disabled"}`. */
  | 'thinking'
  /** `enable_thinking: true`, with `thinking_budget` in tokens. */
  | 'enable_thinking'
  /** `chat_template_kwargs: {enable_thinking: true}`, which inference servers hand to the model's template. */
  | 'chat_template_kwargs'

/** Which parameters are sent, and under which names. */
export interface ParameterQuirks {
  /** Parameters that reasoning models refuse or ignore: dropped with a warning, `logprobs` refused. */
  readonly refusedWhileReasoning: readonly (OptionalField | 'logprobs')[]
  readonly effortFields: readonly EffortField[]
  /** The named efforts that are understood, weakest first; another is replaced by the nearest. */
  readonly efforts: readonly string[]
  readonly seedField: 'seed' | 'random_seed'
  readonly drops: readonly OptionalField[]
  /**
   * Fields of the client's body without a place in the conversation that are passed on unchanged. Each is known to
   * change neither the price of a token nor their number; every other field is dropped with a warning.
   */
  readonly passes: readonly string[]
  /** Fields without which the answer would not be what was asked for: refused with `unsupported_parameter`. */
  readonly refuses: readonly ('n' | 'logprobs')[]
}

export interface MessageQuirks {
  /** Whether the role `developer` is known; else it becomes `system`. */
  readonly developerRole: boolean
  /** Whether `tool_choice: {type: "allowed_tools"}` is known; else only the allowed tools are declared. */
  readonly allowedTools: boolean
  /** Fields of the body that every request to this provider needs, whatever the client says of them. */
  readonly bodyExtras: JsonObject
}

/** How counters are read. */
/**
 * Which reasoning of earlier turns the model is shown (platform.openai.com/docs/api-reference/responses): only providers of
 * the Responses protocol have it, and it is among the fields that no other has a word for.
 */
export const reasoningContext = 'reasoning.context'

export interface UsageQuirks {
  /**
   * Where reasoning tokens are counted: inside `completion_tokens`, or beside them. `inside-unless-larger`: inside,
   * but a count that exceeds the completion proves that it is beside (Vercel, for some models it resells).
   */
  readonly reasoningTokens: 'inside' | 'beside' | 'inside-unless-larger'
  /** Which counter leaves out what `total_tokens` has beyond both: it becomes the total less the other. */
  readonly totalCorrects: 'prompt' | 'completion'
  /** Where the provider reports what the call cost, if it does. */
  readonly reportedCost: 'none' | 'usage.cost' | 'usage.cost_in_usd_ticks'
}

// The parameters of a request beside its messages, by the names that OpenAI's protocols share: what a provider has no word
// for is named.

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
  if (hasNoFields(rest)) return nothingLowered
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
  // A tier without a price here is not asked for: a call would cost more than is charged.
  const why =
    name === 'service_tier' ? 'its price of that tier is not known here' : `${who} does not support it`
  return { param: name, message: `'${name}' was left out: ${why}.` }
}

/** Sampling and labels. `temperature: 1` is the default and never refused, so it stays. */
export function lowerSampling(request: ChatRequest, target: ParameterTarget): LoweredFields {
  const { sampling, labels } = request
  const lowered = new OptionalFields(request, target)
  for (const name of samplingNames) lowered.add(name, sampling[samplingFields[name]])
  // Without tools it says nothing, and OpenAI refuses it.
  if (request.tools.length > 0) lowered.add('parallel_tool_calls', request.parallelToolCalls)
  for (const name of labelNames) lowered.add(name, labels[labelFields[name]])
  const { fields } = lowered
  if (sampling.n !== undefined && sampling.n !== 1) fields.n = sampling.n
  if (sampling.logprobs !== undefined) fields.logprobs = sampling.logprobs
  if (sampling.topLogprobs !== undefined) fields.top_logprobs = sampling.topLogprobs
  return lowered
}

const samplingNames = Object.keys(samplingFields) as readonly (keyof typeof samplingFields)[]
const labelNames = Object.keys(labelFields) as readonly (keyof typeof labelFields)[]

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

  add(name: ModeledField, value: unknown): void {
    if (value === undefined) return
    const { model, provider, quirks } = this.#target
    if (name === 'service_tier' && this.#target.serviceTier !== undefined) {
      this.fields[name] = this.#target.serviceTier
      return
    }
    const byModel = this.#refused.includes(name) && value !== 1
    if (quirks.drops.includes(name) || byModel) {
      const who = byModel ? `the model ${model}` : `the provider ${provider}`
      if (!asksNothing(name, value)) (this.#warnings ??= []).push(leftOut(name, who))
    } else this.fields[name === 'seed' ? quirks.seedField : name] = value as Json
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
  return tools.filter((tool) => toolChoice.names.includes(tool.name))
}

/** Keywords that OpenAI refuses at the root of a tool's schema, which must be a plain object. */
const refusedAtRoot = ['anyOf', 'oneOf', 'allOf', '$ref', 'not', 'enum'] as const

/**
 * The request with an object at the root of each tool's schema. What one object cannot say of alternatives, the description
 * does; a function that was to be strict is not, since the model cannot be held to it.
 */
export function withRootObjects(request: ChatRequest): {
  readonly request: ChatRequest
  readonly warnings: readonly Warning[]
} {
  const { tools } = request
  if (!tools.some(hasRefusedRoot)) return { request, warnings: noWarnings }
  const strict = tools.filter((tool) => hasRefusedRoot(tool) && tool.strict === true && isCut(tool))
  return {
    request: { ...request, tools: tools.map((tool) => (hasRefusedRoot(tool) ? withRootObject(tool) : tool)) },
    warnings: strict.map(({ name }) => ({
      param: 'tools',
      message: `The schema of ${name} has alternatives at its root, to which the model cannot be held: it is not strict.`,
    })),
  }
}

function hasRefusedRoot({ parameters }: FunctionTool): boolean {
  if (parameters === undefined) return false
  for (const keyword of refusedAtRoot) if (keyword in parameters) return true
  return false
}

/** Whether its schema says more than one object can. */
function isCut({ parameters = {} }: FunctionTool): boolean {
  return ['anyOf', 'oneOf', 'not', 'enum'].some((keyword) => keyword in parameters)
}

function withRootObject(tool: FunctionTool): FunctionTool {
  const { not, enum: values, ...schema } = rootObjectOf(tool.parameters).schema
  const { anyOf, oneOf } = tool.parameters!
  const cut = withoutUndefined({ anyOf, oneOf, not, enum: values })
  if (!isCut(tool)) return { ...tool, parameters: schema }
  const { strictByDefault: _, ...own } = tool
  const rule = `The arguments must also match this JSON Schema: ${JSON.stringify(cut)}`
  const said = tool.description === undefined ? rule : `${tool.description}\n\n${rule}`
  return {
    ...own,
    parameters: schema,
    // A long one would make more of the prompt than is held for.
    description: rule.length > longestRule ? tool.description : said,
    strict: tool.strict === undefined ? undefined : false,
  }
}

/** Characters of a schema that a description repeats. */
const longestRule = 2_000

/** A tool's parameters. Several providers refuse a function without any; an empty object says the same. */
export function parametersOf({ parameters, strict }: FunctionTool): JsonObject {
  if (parameters !== undefined) return asObject(parameters)
  return { type: 'object', properties: {}, ...(strict === true ? { additionalProperties: false } : {}) }
}

/** OpenAI refuses a schema without a type, and an object without `properties`; other protocols' clients omit both. */
function asObject(parameters: JsonObject): JsonObject {
  const { type = 'object', properties } = parameters
  if (type !== 'object' || (properties !== undefined && 'type' in parameters)) return parameters
  return { ...parameters, type, properties: properties ?? {} }
}

// The schema of an answer, which both protocols name and describe alike.

type SchemaFormat = Extract<ResponseFormat, { kind: 'json-schema' }>

export function wireSchema({ name, description, schema, strict }: SchemaFormat): JsonObject {
  return {
    name,
    ...(description === undefined ? {} : { description }),
    schema,
    ...(strict === undefined ? {} : { strict }),
  }
}

/** What a client wrote of it; without a schema any object is meant. */
export function readSchema(sent: {
  readonly name: string
  readonly description?: string | null | undefined
  readonly schema?: object | null | undefined
  readonly strict?: boolean | null | undefined
}): SchemaFormat {
  return {
    kind: 'json-schema',
    name: sent.name,
    description: sent.description ?? undefined,
    schema: (sent.schema ?? {}) as JsonObject,
    strict: sent.strict ?? undefined,
  }
}

// How hard a model is to think, as clients of OpenAI's protocols say it.

export const reasoningEffort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])

// How hard to think, under every name that providers of OpenAI's protocols read.

/** How hard to think, under every name the provider reads. */
export function lowerReasoning(request: ChatRequest, target: ParameterTarget): LoweredFields {
  const { reasoning } = request
  const { effortFields } = target.quirks
  if (reasoning === undefined) return nothingLowered
  if (target.efforts && Object.keys(target.efforts).length === 0) return notReasoning(reasoning, target)
  if (effortFields.length === 0) {
    const message = `'reasoning' was left out: the provider ${target.provider} has no setting for it.`
    return { fields: {}, warnings: [{ param: 'reasoning', message }] }
  }
  const lowered = effortFields.map((field) => effortField(field, reasoning, target))
  return {
    fields: Object.assign({}, ...lowered.map((one) => one.fields)) as JsonObject,
    warnings: [...lowered.flatMap((one) => one.warnings), ...unsupportedReasoning(reasoning, target)],
  }
}

/** For a model that does not reason, or as hard as it likes: providers refuse the parameter with 400. */
function notReasoning(reasoning: Reasoning, { model }: ParameterTarget): LoweredFields {
  if (switchOf(reasoning) === false) return nothingLowered
  const message = `'reasoning' was left out: ${model} cannot be told how hard to reason.`
  return { fields: {}, warnings: [{ param: 'reasoning', message }] }
}

/** What is asked of the reasoning that none of the provider's fields can say. */
function unsupportedReasoning(
  reasoning: Reasoning,
  { provider, quirks }: ParameterTarget,
): readonly Warning[] {
  if (switchOf(reasoning) === false) return []
  const says = (...fields: readonly EffortField[]) =>
    fields.some((field) => quirks.effortFields.includes(field))
  const budgeted = reasoning.maxTokens !== undefined && says('enable_thinking')
  const amount = reasoning.effort !== undefined || reasoning.maxTokens !== undefined
  return [
    ...(amount && !budgeted && !says('reasoning_effort', 'reasoning')
      ? [{ param: 'reasoning', message: `${provider} can be told whether to think, not how much.` }]
      : []),
    ...(reasoning.exclude === true && !says('reasoning')
      ? [{ param: 'reasoning.exclude', message: `${provider} shows the reasoning there is.` }]
      : []),
  ]
}

function effortField(field: EffortField, reasoning: Reasoning, target: ParameterTarget): LoweredFields {
  const on = switchOf(reasoning)
  const plain = (fields: JsonObject): LoweredFields => ({ fields, warnings: [] })
  switch (field) {
    case 'reasoning_effort':
      return namedEffort(reasoning, target)
    case 'reasoning': {
      const effort = reasoning.effort === 'max' ? 'xhigh' : reasoning.effort
      // The two exclude each other; a budget is the more exact wish.
      const amount: JsonObject =
        reasoning.maxTokens !== undefined
          ? { max_tokens: reasoning.maxTokens }
          : effort !== undefined
            ? { effort }
            : {}
      return plain({
        reasoning: {
          ...amount,
          ...(reasoning.enabled === undefined ? {} : { enabled: reasoning.enabled }),
          ...(reasoning.exclude === undefined ? {} : { exclude: reasoning.exclude }),
        },
      })
    }
    case 'thinking':
      return plain(on === undefined ? {} : { thinking: { type: on ? 'enabled' : 'disabled' } })
    case 'enable_thinking': {
      const budget: JsonObject =
        on === true && reasoning.maxTokens !== undefined ? { thinking_budget: reasoning.maxTokens } : {}
      return plain(on === undefined ? {} : { enable_thinking: on, ...budget })
    }
    case 'chat_template_kwargs':
      return plain(on === undefined ? {} : { chat_template_kwargs: { enable_thinking: on } })
  }
}

/** Whether the model shall think at all; undefined when the client left that to it. */
function switchOf(reasoning: Reasoning): boolean | undefined {
  if (reasoning.effort === 'none' || reasoning.enabled === false) return false
  return reasoning.effort !== undefined || reasoning.maxTokens !== undefined ? true : reasoning.enabled
}

/** All efforts there are, weakest first. */
const scale = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

function namedEffort(reasoning: Reasoning, target: ParameterTarget): LoweredFields {
  const wanted =
    switchOf(reasoning) === false ? 'none' : (reasoning.effort ?? effortOfBudget(reasoning.maxTokens))
  if (wanted === undefined) return nothingLowered
  const understood = target.efforts ? Object.keys(target.efforts) : target.quirks.efforts
  // A provider that switches thinking off by another field needs no word for it here.
  if (wanted === 'none' && !understood.includes('none') && target.quirks.effortFields.length > 1)
    return nothingLowered
  const effort = nearestEffort(wanted, understood)
  const exact = effort === wanted && reasoning.maxTokens === undefined
  const message =
    reasoning.maxTokens === undefined
      ? `The effort '${wanted}' was sent as '${effort}', the nearest that ${target.efforts ? target.model : target.provider} has.`
      : `A reasoning budget was sent as the effort '${effort}': ${target.provider} takes no number of tokens.`
  return {
    fields: { reasoning_effort: target.efforts?.[effort] ?? effort },
    warnings: exact ? [] : [{ param: 'reasoning', message }],
  }
}

/** The nearest supported effort; of two the weaker, which costs less, but never none for some. */
function nearestEffort(wanted: string, understood: readonly string[]): string {
  const place = scale.indexOf(wanted)
  const distance = (effort: string) => Math.abs(scale.indexOf(effort) - place)
  const candidates = wanted === 'none' ? understood : understood.filter((effort) => effort !== 'none')
  return candidates.reduce(
    (best, effort) => (distance(effort) < distance(best) ? effort : best),
    candidates[0] ?? wanted,
  )
}

/** The effort whose usual spending is nearest to a budget of this many tokens. */
function effortOfBudget(maxTokens: number | undefined): Reasoning['effort'] {
  if (maxTokens === undefined) return undefined
  if (maxTokens <= 2048) return 'low'
  return maxTokens <= 8192 ? 'medium' : 'high'
}

// Input and result of lowering the parameters of a request.

export type ParameterTarget = Target<ParameterQuirks>

/** Fields of the body, and what was left out of it. */
export interface LoweredFields {
  readonly fields: JsonObject
  readonly warnings: readonly Warning[]
}

/** For a request that sets none of the parameters. */
export const nothingLowered: LoweredFields = { fields: {}, warnings: [] }

// Request parameters that some servers ignore.

/** A request on its way to a provider. */
export interface OutgoingRequest {
  readonly request: ChatRequest
  /** What was left out of it. */
  readonly warnings: readonly Warning[]
}

/**
 * The request without what the server of this name ignores: each parameter is left out with a warning. Throws GatewayError
 * `unsupported_parameter` for those that change what the answer is made of.
 */
export function withoutIgnored(
  asked: OutgoingRequest,
  ignored: readonly IgnorableParameter[] | undefined,
  provider: string,
): OutgoingRequest {
  if (ignored === undefined || ignored.length === 0) return asked
  const warnings: Warning[] = []
  let kept = asked.request
  for (const param of ignored) {
    const place = parameterPlaces.get(param)!
    if (!asks(param, holderOf(kept, place)[place.as])) continue
    const message = `The provider ${provider} ignores '${param}'.`
    // Without it the answer would not be what was asked for.
    if (param in shapingFields) throw new GatewayError('unsupported_parameter', { message, param, provider })
    warnings.push({ param, message: `'${param}' was left out: the provider ${provider} ignores it.` })
    kept = without(kept, place)
  }
  return { request: kept, warnings: joinWarnings(asked.warnings, warnings) }
}

/**
 * The request for answers of these kinds alone: speech and pictures have rates of their own, so a model is asked for
 * none that the catalog does not sell it with.
 */
export function withPricedOutput(asked: OutgoingRequest, sold: readonly string[]): OutgoingRequest {
  const { modalities } = asked.request.rest
  return Array.isArray(modalities) ? withSoldOutput(asked, modalities, sold) : asked
}

function withSoldOutput(
  asked: OutgoingRequest,
  modalities: readonly Json[],
  sold: readonly string[],
): OutgoingRequest {
  const { request } = asked
  const kept = modalities.filter((kind) => typeof kind === 'string' && sold.includes(kind.toLowerCase()))
  if (kept.length === modalities.length) return asked
  const { modalities: _, audio, ...others } = request.rest
  const rest: JsonObject = {
    ...others,
    ...(kept.length === 0 ? {} : { modalities: kept }),
    ...(audio === undefined || !sold.includes('audio') ? {} : { audio }),
  }
  const message = `The model is sold with answers of ${sold.join(' and ')}; the others were left out.`
  return {
    request: { ...request, rest },
    warnings: joinWarnings(asked.warnings, [{ param: 'modalities', message }]),
  }
}

function asks(param: IgnorableParameter, value: unknown): boolean {
  if (param === 'n') return value !== undefined && value !== 1
  if (param === 'logprobs') return value === true
  if (param === 'tools') return Array.isArray(value) && value.length > 0
  return !asksNothing(param, value)
}

function holderOf(request: ChatRequest, { in: holder }: ParameterPlace): Readonly<Record<string, unknown>> {
  return (holder === 'request' ? request : request[holder]) as Readonly<Record<string, unknown>>
}

function without(request: ChatRequest, place: ParameterPlace): ChatRequest {
  const { in: holder, as } = place
  // A choice among tools that are not shown would be refused.
  if (as === 'tools') return { ...request, tools: [], toolChoice: undefined }
  if (holder === 'request') return { ...request, [as]: undefined }
  const { [as]: _, ...others } = holderOf(request, place)
  return { ...request, [holder]: others }
}
