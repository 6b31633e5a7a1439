// Everything of a request beside its messages, in the dialect of a provider's row: what it has no word for is named.

import type {
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  Reasoning,
  ResponseFormat,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { asksNothing } from '../../lowering.ts'
import type { Target, Warning } from '../../protocol.ts'
import { type EffortField, type OpenAIChatQuirks, type OptionalField, wordlessFields } from './quirks.ts'
import { markOf } from './messages.ts'

type ChatTarget = Target<OpenAIChatQuirks>

/** Fields of the body, and what was left out of it. */
export interface Lowered {
  readonly fields: JsonObject
  readonly warnings: readonly Warning[]
}

/** Throws GatewayError `unsupported_parameter` for what would change the shape of the answer. */
export function refuseUnsupported(request: ChatRequest, target: ChatTarget): void {
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

/** The client's own fields: those that are known to change neither price nor bound; every other one is named. */
export function lowerRest(rest: JsonObject, target: ChatTarget): Lowered {
  const { drops, passes } = target.quirks
  const fields: JsonObject = {}
  const warnings: Warning[] = []
  for (const name in rest) {
    const value = rest[name]!
    const wordless = isWordless(name)
    if (wordless ? !drops.includes(name) : passes.includes(name)) fields[name] = value
    else if (wordless && !asksNothing(name, value))
      warnings.push(leftOut(name, `the provider ${target.provider}`))
    else if (!wordless) warnings.push(unpriced(name, target.provider))
  }
  return { fields, warnings }
}

function isWordless(name: string): name is (typeof wordlessFields)[number] {
  return (wordlessFields as readonly string[]).includes(name)
}

/** The warning for a field that nobody here knows to be free of charge. */
function unpriced(name: string, provider: string): Warning {
  const message = `'${name}' was left out: it is not among the fields that ${provider} is sent, which change no price.`
  return { param: name, message }
}

function leftOut(name: string, who: string): Warning {
  // Some that have tiers are not told either, lest a call cost what nobody is charged.
  const why =
    name === 'service_tier' ? 'the prices here are those of the standard tier' : `${who} does not support it`
  return { param: name, message: `'${name}' was left out: ${why}.` }
}

/** Those of the optional parameters that the conversation has words for; the others are in `rest`. */
type Worded = Exclude<OptionalField, (typeof wordlessFields)[number]>

/** Sampling and labels. `temperature: 1` is the default and never refused, so it stays. */
export function lowerSampling(request: ChatRequest, target: ChatTarget): Lowered {
  const { sampling, labels } = request
  const { quirks } = target
  const optional: Readonly<Record<Worded, Json | undefined>> = {
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
    const name = key as Worded
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
function refusedByModel(request: ChatRequest, target: ChatTarget): readonly (OptionalField | 'logprobs')[] {
  const off = request.reasoning !== undefined && switchOf(request.reasoning) === false
  return target.reasoning && !off ? target.quirks.refusedWhileReasoning : []
}

// ---- reasoning --------------------------------------------------------------------------------------------

/** How hard to think, under every name the provider reads. */
export function lowerReasoning(request: ChatRequest, target: ChatTarget): Lowered {
  const { reasoning } = request
  const { effortFields } = target.quirks
  if (reasoning === undefined) return { fields: {}, warnings: [] }
  if (target.efforts && Object.keys(target.efforts).length === 0) return notReasoning(reasoning, target)
  if (effortFields.length === 0) {
    const message = `'reasoning' was left out: the provider ${target.provider} has no setting for it.`
    return { fields: {}, warnings: [{ param: 'reasoning', message }] }
  }
  const lowered = effortFields.map((field) => effortField(field, reasoning, target))
  return {
    fields: Object.assign({}, ...lowered.map((one) => one.fields)) as JsonObject,
    warnings: [...lowered.flatMap((one) => one.warnings), ...unheardReasoning(reasoning, target)],
  }
}

/** For a model that does not reason, or as hard as it likes: providers refuse the parameter with 400. */
function notReasoning(reasoning: Reasoning, { model }: ChatTarget): Lowered {
  if (switchOf(reasoning) === false) return { fields: {}, warnings: [] }
  const message = `'reasoning' was left out: ${model} cannot be told how hard to reason.`
  return { fields: {}, warnings: [{ param: 'reasoning', message }] }
}

/** What is asked of the reasoning that none of the provider's fields can say. */
function unheardReasoning(reasoning: Reasoning, { provider, quirks }: ChatTarget): readonly Warning[] {
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

function effortField(
  field: OpenAIChatQuirks['effortFields'][number],
  reasoning: Reasoning,
  target: ChatTarget,
): Lowered {
  const on = switchOf(reasoning)
  const plain = (fields: JsonObject): Lowered => ({ fields, warnings: [] })
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

function namedEffort(reasoning: Reasoning, target: ChatTarget): Lowered {
  const wanted =
    switchOf(reasoning) === false ? 'none' : (reasoning.effort ?? effortOfBudget(reasoning.maxTokens))
  if (wanted === undefined) return { fields: {}, warnings: [] }
  const understood = target.efforts ? Object.keys(target.efforts) : target.quirks.efforts
  // A provider that switches thinking off by another field needs no word for it here.
  if (wanted === 'none' && !understood.includes('none') && target.quirks.effortFields.length > 1) {
    return { fields: {}, warnings: [] }
  }
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

/**
 * The nearest effort that is understood; of two as near the weaker, which costs less. Who asked for any thinking is
 * not given none.
 */
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

// ---- tools ------------------------------------------------------------------------------------------------

export function lowerTools(request: ChatRequest, quirks: OpenAIChatQuirks): JsonObject {
  const tools = shownTools(request, quirks)
  if (tools.length === 0) return {}
  const choice = lowerToolChoice(request, quirks)
  return {
    tools: tools.map((tool) => lowerTool(tool, quirks)),
    ...(choice === undefined ? {} : { tool_choice: choice }),
  }
}

/** All tools; where a provider cannot be told which are allowed now, only those. */
export function shownTools(
  { tools, toolChoice }: ChatRequest,
  { allowedTools }: Pick<OpenAIChatQuirks, 'allowedTools'>,
): readonly FunctionTool[] {
  if (toolChoice?.kind !== 'allowed' || allowedTools) return tools
  return tools.filter((tool) => toolChoice.names.includes(tool.name))
}

/** A tool's parameters. Several providers refuse a function without any; an empty object says the same. */
export function parametersOf({ parameters, strict }: FunctionTool): JsonObject {
  if (parameters !== undefined) return parameters
  return { type: 'object', properties: {}, ...(strict === true ? { additionalProperties: false } : {}) }
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

/** The response format, and the sentence that stands in for a schema where the provider takes none. */
export function lowerResponseFormat(
  format: ResponseFormat | undefined,
  target: ChatTarget,
): Lowered & { readonly instruction: string | undefined } {
  const plain = (fields: JsonObject) => ({ fields, warnings: [], instruction: undefined })
  switch (format?.kind) {
    case undefined:
    case 'text':
      return plain({})
    case 'json-object':
      return plain({ response_format: { type: 'json_object' } })
    case 'json-schema': {
      const { name, description, schema, strict } = format
      if (target.quirks.jsonSchema) {
        const described: JsonObject = description === undefined ? {} : { description }
        const bound: JsonObject = strict === undefined ? {} : { strict }
        return plain({
          response_format: { type: 'json_schema', json_schema: { name, ...described, schema, ...bound } },
        })
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
