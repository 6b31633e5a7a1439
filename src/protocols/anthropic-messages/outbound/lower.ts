// Translates a chat request to Anthropic's Messages API.

import type { ChatRequest, Json, JsonObject } from '../../../conversation/request.ts'
import { entryOf, isObject } from '../../json.ts'
import {
  asksNothing,
  withoutUndefined,
  isBlank,
  outputBoundOf,
  refuse,
  unknownLabels,
  type Warn,
  warnInto,
  warnOfCitations,
} from '../../lowering.ts'
import type { LoweredRequest, Target, Warning } from '../../protocol.ts'
import { betaHeader } from './betas.ts'
import { type ModelTraits, traitsOf } from '../../claude/models.ts'
import { isPricedApart, isTiered, passedFields } from './own-fields.ts'
import { type AnthropicQuirks, defaultQuirks } from './quirks.ts'
import { type Thinking, thinkingOf } from '../../claude/thinking.ts'
import { toolingOf } from './tools.ts'
import { conversationOf, lostItsThinking, type Turn } from './turns.ts'

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, logprobs and media that Claude
 * does not accept, `invalid_request` for a conversation that the API would refuse. `warnings` name what was dropped or
 * changed.
 */
export function lower(request: ChatRequest, target: Target<AnthropicQuirks>): LoweredRequest {
  const { rest, sampling } = request
  refuse({
    n: (sampling.n ?? 1) > 1,
    logprobs: sampling.logprobs === true,
    top_logprobs: (sampling.topLogprobs ?? 0) > 0,
  })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const traits = traitsOf(target.model, target.reasoning, quirks.traits)

  warnOfCitations(request, warn)
  const carried = { compaction: 'context_management' in rest, searches: request.webSearch !== undefined }
  const { system, turns } = conversationOf(request.messages, carried, traits, warn)
  const tooling = toolingOf(request, turns, traits, warn)
  const maxTokens = maxTokensOf(request, target, quirks, warn)
  const thinking = thinkingOf({
    reasoning: request.reasoning,
    native: rest.thinking,
    traits,
    maxTokens,
    forced: tooling.forced,
    lost: lostItsThinking(turns),
    warn,
  })
  const path = request.stream ? quirks.streamPath : quirks.path
  const modelInPath = path.includes('{model}')
  const body: JsonObject = {
    ...passedOn(rest, warn),
    ...(modelInPath ? {} : { model: target.model }),
    ...(quirks.versionIn === 'body' ? { anthropic_version: quirks.version } : {}),
    max_tokens: maxTokens,
    ...(system === undefined ? {} : { system }),
    messages: turns.map(({ role, content }) => ({ role, content })),
    ...(tooling.tools.length === 0 ? {} : { tools: [...tooling.tools] }),
    ...(tooling.choice === undefined ? {} : { tool_choice: tooling.choice }),
    ...(thinking.field === undefined ? {} : { thinking: thinking.field }),
    ...outputConfig(rest.output_config, tooling.format, thinking.effort),
    ...samplingOf(request, traits, thinking, warn),
    ...labelsOf(request, rest, warn),
    ...(request.stream && quirks.streamIn === 'body' ? { stream: true } : {}),
  }
  return {
    path: path.replaceAll('{model}', encodeURIComponent(target.model)),
    headers: headersOf(quirks, rest, turns),
    body,
    warnings,
  }
}

/** The protocol requires max_tokens: the client's, else the model's maximum, else one every model supports. */
function maxTokensOf(
  request: ChatRequest,
  target: Target<AnthropicQuirks>,
  quirks: AnthropicQuirks,
  warn: Warn,
): number {
  const asked = request.maxOutputTokens
  const most = target.maxOutputTokens
  if (asked === undefined) {
    if (most !== undefined) return most
    const budget = request.reasoning?.maxTokens ?? 0
    warn(
      'max_tokens',
      `The provider demands a limit and none is known: ${budget + quirks.defaultMaxTokens} is sent.`,
    )
    return budget + quirks.defaultMaxTokens
  }
  return outputBoundOf(request, target, warn) ?? asked
}

// ---- sampling and labels ----------------------------------------------------------------------------------

function samplingOf(request: ChatRequest, traits: ModelTraits, thinking: Thinking, warn: Warn): JsonObject {
  const { sampling } = request
  const unknown = {
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    repetition_penalty: sampling.repetitionPenalty,
    logit_bias: sampling.logitBias,
    min_p: sampling.minP,
  }
  warnOfForeign(unknown, warn)
  return { ...distribution(request, traits, thinking, warn), ...stopsOf(request, warn) }
}

function warnOfForeign(values: Readonly<Record<string, unknown>>, warn: Warn): void {
  for (const [param, value] of Object.entries(values)) {
    if (!asksNothing(param, value)) warn(param, "This model's provider does not know it.")
  }
}

function distribution(request: ChatRequest, traits: ModelTraits, thinking: Thinking, warn: Warn): JsonObject {
  const { temperature, topP, topK } = request.sampling
  const clamped = temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), 1)
  const asked: Record<string, number | undefined> = { temperature: clamped, top_p: topP, top_k: topK }
  const drop = (param: string, message: string) => {
    if (asked[param] !== undefined) warn(param, message)
    asked[param] = undefined
  }
  if (traits.sampling === 'neither') {
    for (const param of Object.keys(asked)) drop(param, 'This model takes no sampling parameters.')
  } else if (thinking.on) {
    const message = 'The model cannot be given this while it thinks.'
    if (clamped !== 1) drop('temperature', message)
    if (topP !== undefined && topP < 0.95) drop('top_p', message)
    drop('top_k', message)
  }
  if (traits.sampling === 'one' && asked.temperature !== undefined) {
    drop('top_p', 'This model takes temperature or top_p, not both.')
  }
  if (asked.temperature !== undefined && clamped !== temperature) {
    warn('temperature', `The provider takes 0 to 1; ${clamped} is sent.`)
  }
  return withoutUndefined(asked)
}

function stopsOf(request: ChatRequest, warn: Warn): JsonObject {
  const stops = request.sampling.stop ?? []
  const fit = stops.filter((stop) => !isBlank(stop))
  if (fit.length < stops.length)
    warn('stop', 'The provider refuses stop sequences of white space; they are left out.')
  return fit.length === 0 ? {} : { stop_sequences: fit }
}

/** OpenAI's service tiers in Anthropic's words. */
const serviceTiers: Readonly<Record<string, string>> = {
  auto: 'auto',
  default: 'standard_only',
  standard_only: 'standard_only',
}

function labelsOf(request: ChatRequest, rest: JsonObject, warn: Warn): JsonObject {
  const { user, safetyIdentifier, serviceTier } = request.labels
  const { prompt_cache_key, verbosity, store, metadata } = unknownLabels(request)
  warnOfForeign({ prompt_cache_key, verbosity, store, metadata }, warn)
  const tier = serviceTier === undefined ? undefined : entryOf(serviceTiers, serviceTier)
  if (serviceTier !== undefined && tier === undefined) warn('service_tier', 'The provider has no such tier.')
  const userId = user ?? safetyIdentifier
  return {
    ...(userId === undefined || 'metadata' in rest ? {} : { metadata: { user_id: userId } }),
    ...(tier === undefined ? {} : { service_tier: tier }),
  }
}

// ---- Anthropic's own fields -------------------------------------------------------------------------------

/** Fields of the client that are read elsewhere in this file, or by the gateway. */
const readFields = new Set(['thinking', 'output_config', 'tools', 'betas'])

function passedOn(rest: JsonObject, warn: Warn): JsonObject {
  const passed: JsonObject = {}
  for (const [field, value] of Object.entries(rest)) {
    if (passedFields.has(field)) passed[field] = value
    else if (isPricedApart(field, value)) warn(field, 'The prices here are those without it; dropped.')
    else if (!readFields.has(field) && !isTiered(field)) warnOfForeign({ [field]: value }, warn)
  }
  return passed
}

function outputConfig(
  native: Json | undefined,
  format: JsonObject | undefined,
  effort: string | undefined,
): JsonObject {
  const own = isObject(native) ? native : {}
  const config: JsonObject = {
    ...(format === undefined ? {} : { format }),
    ...(effort === undefined ? {} : { effort }),
    ...own,
  }
  return Object.keys(config).length === 0 ? {} : { output_config: config }
}

function headersOf(
  quirks: AnthropicQuirks,
  rest: JsonObject,
  turns: readonly Turn[],
): Record<string, string> {
  const files = usesFiles(turns) ? ['files-api-2025-04-14'] : []
  const asked = quirks.takesBetas ? rest.betas : undefined
  return {
    ...(quirks.versionIn === 'header' ? { 'anthropic-version': quirks.version } : {}),
    ...betaHeader([...quirks.betas, ...files], asked),
  }
}

/** Whether a block, or one inside a tool result, refers to a file uploaded to the provider. */
function usesFiles(turns: readonly Turn[]): boolean {
  const isFile = (block: Json): boolean =>
    isObject(block) &&
    ((isObject(block.source) && block.source.type === 'file') ||
      (Array.isArray(block.content) && block.content.some(isFile)))
  return turns.some((turn) => turn.content.some(isFile))
}
