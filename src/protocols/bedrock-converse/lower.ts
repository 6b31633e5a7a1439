// Translates a chat request to Bedrock's Converse API.

import type { ChatRequest, Json, JsonObject } from '../../conversation/request.ts'
import { traitsOf } from '../claude/models.ts'
import { thinkingOf } from '../claude/thinking.ts'
import { isObject } from '../json.ts'
import {
  outputBoundOf,
  passedOn,
  refuse,
  unknownLabels,
  type Warn,
  warnInto,
  warnOfUnknown,
} from '../lowering.ts'
import type { LoweredRequest, Target, Warning } from '../protocol.ts'
import { toolNamesOf } from '../wire-names.ts'
import { type Family, familyOf } from './models.ts'
import { toolNameRule } from './names.ts'
import { type BedrockQuirks, defaultQuirks, isClaude } from './schema.ts'
import { toolingOf } from './tools.ts'
import { conversationOf, lostItsThinking, type Turn } from './turns.ts'

/**
 * Bedrock's own fields, passed on unchanged. `serviceTier` and `performanceConfig` have prices of their own, and
 * guardrails are billed and the operator's decision.
 */
const ownFields = new Set([
  'additionalModelRequestFields',
  'additionalModelResponseFieldPaths',
  'outputConfig',
  'promptVariables',
  'requestMetadata',
  'thinking',
])

/** Of Claude's own answer: Converse says that a stop sequence ended it, but not which. */
const stopSequencePath = '/stop_sequence'

/** Model-specific fields beside Converse's: sampling and thinking, but no other output limit. */
const modelFields = new Set([
  'anthropic_beta',
  'inferenceConfig',
  'k',
  'output_config',
  'p',
  'reasoningConfig',
  'reasoning_config',
  'reasoning_effort',
  'thinking',
  'topK',
  'top_k',
])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, logprobs and media that
 * Bedrock cannot take, `invalid_request` for a conversation it would refuse. What is dropped is named in `warnings`.
 */
export function lower(request: ChatRequest, target: Target<BedrockQuirks>): LoweredRequest {
  const { sampling } = request
  refuse({
    n: (sampling.n ?? 1) > 1,
    logprobs: sampling.logprobs === true,
    top_logprobs: (sampling.topLogprobs ?? 0) > 0,
  })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const family = familyOf(target.model)
  const names = toolNamesOf(request, toolNameRule)
  const { system, turns } = conversationOf(request, names, target.model, warn)
  const tooling = toolingOf(request, turns, names, target.model, family, warn)
  const thinking = thinkingFields(request, target, quirks, family, turns, tooling.forced, warn)
  const {
    additionalModelRequestFields: given,
    additionalModelResponseFieldPaths: paths,
    thinking: _read,
    ...own
  } = passedOn(request.rest, ownFields, warn)
  const sampled = samplingOf(request, family, target.model, thinking.on, warn)
  const extra = { ...thinking.fields, ...sampled.extra, ...modelFieldsOf(given, warn) }
  const maxTokens = outputBoundOf(request, target, warn) ?? thinking.maxTokens
  const inference = { ...(maxTokens === undefined ? {} : { maxTokens }), ...sampled.inference }
  const namesStop = isClaude(target.model) && 'stopSequences' in inference
  const answerFields = [...(Array.isArray(paths) ? paths : []), ...(namesStop ? [stopSequencePath] : [])]
  const marks = family.caches ? turns : turns.map(unmarkTurn)
  const body: JsonObject = {
    messages: marks.map(({ role, content }) => ({ role, content })),
    ...(system.length === 0 ? {} : { system: family.caches ? [...system] : withoutMarks(system) }),
    ...(Object.keys(inference).length === 0 ? {} : { inferenceConfig: inference }),
    ...(tooling.config === undefined ? {} : { toolConfig: tooling.config }),
    ...(Object.keys(extra).length === 0 ? {} : { additionalModelRequestFields: extra }),
    ...(answerFields.length === 0 ? {} : { additionalModelResponseFieldPaths: [...new Set(answerFields)] }),
    ...(tooling.output === undefined ? {} : { outputConfig: tooling.output }),
    ...own,
    ...(quirks.guardrailConfig === undefined ? {} : { guardrailConfig: quirks.guardrailConfig }),
  }
  warnOfUnknown(unknownLabels(request), warn)
  const method = request.stream ? 'converse-stream' : 'converse'
  // A colon and the slashes of an ARN must be escaped, or the signature is for another path.
  const path = `/model/${encodeURIComponent(target.model)}/${method}`
  return { path, headers: {}, body, warnings, toolNames: names.clientNames() }
}

/** The client's model-specific fields; those that might lift a limit or cost more are dropped with a warning. */
function modelFieldsOf(given: Json | undefined, warn: Warn): JsonObject {
  if (!isObject(given)) return {}
  const fields: JsonObject = {}
  for (const [name, value] of Object.entries(given)) {
    const param = `additionalModelRequestFields.${name}`
    if (!modelFields.has(name)) warn(param, 'It could change the price or the length of the answer; dropped.')
    else if (name === 'inferenceConfig') Object.assign(fields, novaConfig(value, param, warn))
    else fields[name] = value
  }
  return fields
}

/** Nova's own sampling; its bound is Converse's. */
function novaConfig(value: Json, param: string, warn: Warn): JsonObject {
  const { topK, ...others }: JsonObject = isObject(value) ? value : {}
  for (const name of Object.keys(others)) warn(`${param}.${name}`, 'Only topK may stand here; dropped.')
  return topK === undefined ? {} : { inferenceConfig: { topK } }
}

function unmarkTurn(turn: Turn): Turn {
  return { ...turn, content: withoutMarks(turn.content) }
}

function withoutMarks(blocks: readonly JsonObject[]): JsonObject[] {
  return blocks.filter((block) => !('cachePoint' in block))
}

interface ThinkingFields {
  readonly fields: JsonObject
  /** The max_tokens that a thinking budget requires, if the client set none. */
  readonly maxTokens: number | undefined
  readonly on: boolean
}

function thinkingFields(
  request: ChatRequest,
  target: Target<BedrockQuirks>,
  quirks: BedrockQuirks,
  family: Family,
  turns: readonly Turn[],
  forced: boolean,
  warn: Warn,
): ThinkingFields {
  const { reasoning } = request
  if (isClaude(target.model)) {
    const most = target.maxOutputTokens ?? quirks.defaultMaxTokens
    const maxTokens = Math.min(
      request.maxOutputTokens ?? most,
      target.maxOutputTokens ?? Number.POSITIVE_INFINITY,
    )
    const { field, effort, on } = thinkingOf({
      reasoning,
      native: request.rest.thinking,
      traits: traitsOf(target.model, target.reasoning, {}),
      maxTokens,
      forced,
      lost: lostItsThinking(turns),
      warn,
    })
    const bounded = isObject(field) && 'budget_tokens' in field
    return {
      fields: {
        ...(field === undefined ? {} : { thinking: field }),
        ...(effort === undefined ? {} : { output_config: { effort } }),
      },
      maxTokens: bounded ? maxTokens : undefined,
      on,
    }
  }
  const nothing: ThinkingFields = { fields: {}, maxTokens: undefined, on: false }
  if (reasoning === undefined) return nothing
  const off = reasoning.effort === 'none' || reasoning.enabled === false || reasoning.maxTokens === 0
  if (family.effort === undefined) {
    if (!off) warn('reasoning', 'How hard this model thinks cannot be set.')
    return nothing
  }
  if (!off && reasoning.maxTokens !== undefined) {
    warn('reasoning.max_tokens', 'This model takes no budget; it decides by itself how much to think.')
  }
  return { ...nothing, fields: family.effort(off ? 'none' : reasoning.effort) ?? {} }
}

function samplingOf(
  { sampling }: ChatRequest,
  family: Family,
  model: string,
  thinks: boolean,
  warn: Warn,
): { readonly inference: JsonObject; readonly extra: JsonObject } {
  warnOfUnknown(
    {
      seed: sampling.seed,
      min_p: sampling.minP,
      frequency_penalty: sampling.frequencyPenalty,
      presence_penalty: sampling.presencePenalty,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
    },
    warn,
  )
  const allowed = isClaude(model) ? traitsOf(model, false, {}).sampling : 'both'
  const keep = (param: string, value: number | undefined, forbidden: boolean): number | undefined => {
    if (value === undefined || !forbidden) return value
    warn(param, 'This model cannot be given this here.')
    return undefined
  }
  const none = allowed === 'neither'
  const asked = sampling.temperature
  const clamped = asked === undefined ? undefined : Math.min(Math.max(asked, 0), 1)
  if (clamped !== asked) warn('temperature', `The provider takes 0 to 1; ${clamped} is sent.`)
  const temperature = keep('temperature', clamped, none || (thinks && clamped !== 1))
  const topP = keep(
    'top_p',
    sampling.topP,
    none || (thinks && (sampling.topP ?? 1) < 0.95) || (allowed === 'one' && temperature !== undefined),
  )
  const topK = keep('top_k', sampling.topK, none || thinks || family.topK === undefined)
  const stops = (sampling.stop ?? []).filter((stop) => stop.trim() !== '')
  if (stops.length < (sampling.stop?.length ?? 0)) {
    warn('stop', 'The provider refuses stop sequences of white space; they are left out.')
  }
  return {
    inference: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(stops.length === 0 ? {} : { stopSequences: stops }),
    },
    extra: topK === undefined ? {} : (family.topK?.(topK) ?? {}),
  }
}
