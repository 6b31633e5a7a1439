// Sampling, limits, formats and thinking as Gemini's generationConfig.

import type { ChatRequest, Json, JsonObject, Reasoning, Sampling } from '../../../conversation/request.ts'
import { isObject, present } from '../../json.ts'
import type { Warning } from '../../protocol.ts'
import { toSubset } from '../schema-subset.ts'
import type { ThinkingLevel, Traits } from './quirks.ts'

/** The most stop sequences Gemini takes. */
const maxStopSequences = 5

/** The generationConfig of a request; `warnings` name what Gemini has no setting for. */
export function generationConfigOf(
  request: ChatRequest,
  traits: Traits,
  reasons: boolean,
  warnings: Warning[],
): JsonObject {
  const { sampling } = request
  return present<JsonObject>({
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    seed: sampling.seed,
    stopSequences: stopSequencesOf(sampling.stop, warnings),
    maxOutputTokens: request.maxOutputTokens,
    candidateCount: sampling.n === undefined || sampling.n === 1 ? undefined : sampling.n,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    responseLogprobs: wantsLogprobs(sampling) ? true : undefined,
    logprobs: wantsLogprobs(sampling) ? sampling.topLogprobs : undefined,
    thinkingConfig: thinkingOf(request, traits, reasons, warnings),
    responseModalities: modalitiesOf(request.rest['modalities']),
    speechConfig: speechOf(request.rest['audio'], warnings),
    ...formatOf(request, traits, warnings),
  })
}

/** Alternatives to each token imply the tokens themselves. */
function wantsLogprobs({ logprobs, topLogprobs }: Sampling): boolean {
  return logprobs ?? (topLogprobs ?? 0) > 0
}

function stopSequencesOf(stop: readonly string[] | undefined, warnings: Warning[]): string[] | undefined {
  const fit = stop?.filter((each) => each !== '') ?? []
  if (fit.length < (stop?.length ?? 0)) {
    warnings.push({ param: 'stop', message: 'An empty stop sequence stops nothing; left out.' })
  }
  if (fit.length === 0) return undefined
  if (fit.length > maxStopSequences) {
    warnings.push({
      param: 'stop',
      message: `The provider takes ${maxStopSequences} stop sequences; the others were dropped.`,
    })
  }
  return fit.slice(0, maxStopSequences)
}

function formatOf(request: ChatRequest, traits: Traits, warnings: Warning[]): JsonObject {
  const format = request.responseFormat
  if (format === undefined || format.kind === 'text') return {}
  if (!traits.formatsBesideTools && offersTools(request)) {
    const message = 'The model has tools, so it cannot be held to this format; it is told of it.'
    warnings.push({ param: 'response_format', message })
    return {}
  }
  // A schema that says nothing is JSON mode.
  if (format.kind === 'json-object' || Object.keys(format.schema).length === 0) {
    return { responseMimeType: 'application/json' }
  }
  if (traits.schema === 'json-schema') {
    return { responseMimeType: 'application/json', responseJsonSchema: format.schema }
  }
  const { schema, dropped } = toSubset(format.schema)
  warnings.push(...schemaWarning('response_format', dropped))
  return { responseMimeType: 'application/json', responseSchema: schema }
}

/** Whether the model may call any tool. */
export function offersTools({ tools, toolChoice }: ChatRequest): boolean {
  return tools.length > 0 && toolChoice?.kind !== 'none'
}

/** An instruction for a format that the model cannot be held to; undefined if it can be, or none was requested. */
export function formatInWords(request: ChatRequest, traits: Traits): string | undefined {
  const format = request.responseFormat
  if (traits.formatsBesideTools || !offersTools(request)) return undefined
  if (format === undefined || format.kind === 'text') return undefined
  const answer = 'Unless you call a function, answer with JSON and nothing else, without a code fence'
  if (format.kind === 'json-object') return `${answer}.`
  return `${answer}. It must fit this JSON Schema:\n${JSON.stringify(format.schema)}`
}

/** The warning about keywords that an older model's schema does not support, if any. */
export function schemaWarning(param: string, dropped: readonly string[]): Warning[] {
  if (dropped.length === 0) return []
  return [{ param, message: `The model's schema has no ${dropped.join(', ')}; dropped.` }]
}

// ---- thinking -----------------------------------------------------------------------------------------------

type Effort = NonNullable<Reasoning['effort']>

/** Thinking tokens per effort, as Google's own chat-completions endpoint sets them for 2.5. */
const budgets: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
}

const levels: Readonly<Record<Effort, ThinkingLevel>> = {
  none: 'minimal',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

const levelOrder: readonly ThinkingLevel[] = ['minimal', 'low', 'medium', 'high']

function thinkingOf(
  { reasoning, maxOutputTokens }: ChatRequest,
  traits: Traits,
  reasons: boolean,
  warnings: Warning[],
): JsonObject | undefined {
  if (reasoning === undefined) return undefined
  const effort = reasoning.enabled === false ? 'none' : reasoning.effort
  const off = effort === 'none' || reasoning.maxTokens === 0
  if (traits.thinking === 'none' || !reasons) {
    if (!off) warnings.push({ param: 'reasoning', message: 'The model does not reason; dropped.' })
    return undefined
  }
  const includeThoughts = !off && reasoning.exclude !== true
  return {
    ...(includeThoughts ? { includeThoughts } : {}),
    ...(traits.thinking === 'level' && reasoning.maxTokens === undefined
      ? levelOf(effort, traits, warnings)
      : budgetOf(reasoning.maxTokens ?? budgetFor(effort, maxOutputTokens), traits, warnings)),
  }
}

function levelOf(effort: Effort | undefined, traits: Traits, warnings: Warning[]): JsonObject {
  if (effort === undefined) return {}
  const wanted = levelOrder.indexOf(levels[effort])
  // The next level up, so that nobody gets less reasoning than requested.
  const level = levelOrder.find((each, rank) => rank >= wanted && traits.levels.includes(each)) ?? 'high'
  if (effort === 'none') warnings.push(cannotStop(`its level is ${level}`))
  return { thinkingLevel: level }
}

/** Thinking tokens for an effort. On/off leaves them to the model, but some small ones do not think by default. */
function budgetFor(effort: Effort | undefined, maxOutputTokens: number | undefined): number | undefined {
  if (effort === undefined) return undefined
  if (effort === 'none' || maxOutputTokens === undefined) return budgets[effort]
  // Thoughts count as output: a fifth is kept for the answer, which could be empty otherwise.
  return Math.min(budgets[effort], Math.max(1, Math.floor(maxOutputTokens * 0.8)))
}

function budgetOf(wanted: number | undefined, traits: Traits, warnings: Warning[]): JsonObject {
  if (wanted === undefined) return { thinkingBudget: -1 }
  const { least, most, stops } = traits.budget
  const budget = wanted === 0 && stops ? 0 : Math.min(Math.max(wanted, least), most)
  if (wanted === 0 && budget > 0) warnings.push(cannotStop(`its budget is ${budget} tokens`))
  return { thinkingBudget: budget }
}

function cannotStop(instead: string): Warning {
  return { param: 'reasoning', message: `The model cannot stop reasoning; ${instead}.` }
}

// ---- what the answer is made of -----------------------------------------------------------------------------

/** `modalities: ["text", "image"]`: the kinds of output that the client wants. */
function modalitiesOf(value: Json | undefined): string[] | undefined {
  if (!Array.isArray(value)) return undefined
  const named = value.filter((each) => typeof each === 'string').map((each) => each.toUpperCase())
  return named.length === 0 ? undefined : named
}

/** `audio: {voice}`: the voice of a spoken answer. The format is fixed: Gemini returns 24 kHz PCM. */
function speechOf(value: Json | undefined, warnings: Warning[]): JsonObject | undefined {
  if (!isObject(value)) return undefined
  const { voice, format } = value
  if (format !== undefined && format !== 'pcm16') {
    warnings.push({ param: 'audio.format', message: 'The provider speaks pcm16 and nothing else.' })
  }
  if (typeof voice !== 'string') return undefined
  return { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } }
}
