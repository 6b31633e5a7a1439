// Request parameters that some servers ignore, by their names in chat completions, and where a ChatRequest holds each.

import type { ChatRequest, Json, JsonObject, Labels, Sampling } from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'
import { asksNothing } from './lowering.ts'
import type { OptionalField } from './openai/quirks.ts'
import { joinWarnings, type Warning } from './lowered-request.ts'

/** A server that ignores `max_tokens` is not on the list: what a call may cost follows from it. */
export type IgnorableParameter =
  | OptionalField
  | 'n'
  | 'logprobs'
  | 'top_logprobs'
  | 'tools'
  | 'tool_choice'
  | 'response_format'
  | 'reasoning'

type Place =
  | { readonly in: 'sampling'; readonly as: keyof Sampling }
  | { readonly in: 'labels'; readonly as: keyof Labels }
  | { readonly in: 'request'; readonly as: keyof ChatRequest }
  | { readonly in: 'rest'; readonly as: string }

const sampling = (as: keyof Sampling): Place => ({ in: 'sampling', as })
const label = (as: keyof Labels): Place => ({ in: 'labels', as })
const rest = (as: string): Place => ({ in: 'rest', as })
const whole = (as: keyof ChatRequest): Place => ({ in: 'request', as })

const places: Readonly<Record<IgnorableParameter, Place>> = {
  temperature: sampling('temperature'),
  top_p: sampling('topP'),
  top_k: sampling('topK'),
  min_p: sampling('minP'),
  frequency_penalty: sampling('frequencyPenalty'),
  presence_penalty: sampling('presencePenalty'),
  repetition_penalty: sampling('repetitionPenalty'),
  seed: sampling('seed'),
  stop: sampling('stop'),
  logit_bias: sampling('logitBias'),
  logprobs: sampling('logprobs'),
  top_logprobs: sampling('topLogprobs'),
  n: sampling('n'),
  tools: whole('tools'),
  tool_choice: whole('toolChoice'),
  parallel_tool_calls: whole('parallelToolCalls'),
  response_format: whole('responseFormat'),
  reasoning: whole('reasoning'),
  user: label('user'),
  safety_identifier: label('safetyIdentifier'),
  prompt_cache_key: label('promptCacheKey'),
  service_tier: label('serviceTier'),
  metadata: label('metadata'),
  store: label('store'),
  verbosity: label('verbosity'),
  modalities: rest('modalities'),
  audio: rest('audio'),
  prediction: rest('prediction'),
  prompt_cache_retention: rest('prompt_cache_retention'),
}

export const ignorableParameters = Object.keys(places) as readonly IgnorableParameter[]

/** Without these the answer would not be what was asked for. */
const shaping: ReadonlySet<IgnorableParameter> = new Set(['n', 'logprobs', 'top_logprobs'])

/** A request on its way to a provider. */
export interface Asked {
  readonly request: ChatRequest
  /** What was left out of it. */
  readonly warnings: readonly Warning[]
}

/**
 * The request without what the server of this name ignores: each is left out and named. Throws GatewayError
 * `unsupported_parameter` for those that change what the answer is made of.
 */
export function withoutIgnored(
  asked: Asked,
  ignored: readonly IgnorableParameter[] | undefined,
  provider: string,
): Asked {
  if (ignored === undefined || ignored.length === 0) return asked
  const warnings: Warning[] = []
  let kept = asked.request
  for (const param of ignored) {
    if (!asks(param, valueAt(kept, places[param]))) continue
    const message = `The provider ${provider} ignores '${param}'.`
    if (shaping.has(param)) throw new GatewayError('unsupported_parameter', { message, param, provider })
    warnings.push({ param, message: `'${param}' was left out: the provider ${provider} ignores it.` })
    kept = without(kept, places[param])
  }
  return { request: kept, warnings: joinWarnings(asked.warnings, warnings) }
}

/**
 * The request for answers of these kinds alone: speech and pictures have rates of their own, so a model is asked for
 * none that the catalog does not sell it with.
 */
export function withPricedOutput(asked: Asked, sold: readonly string[]): Asked {
  const { modalities } = asked.request.rest
  return Array.isArray(modalities) ? withSoldOutput(asked, modalities, sold) : asked
}

function withSoldOutput(asked: Asked, modalities: readonly Json[], sold: readonly string[]): Asked {
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

function valueAt(request: ChatRequest, place: Place): unknown {
  switch (place.in) {
    case 'sampling':
      return request.sampling[place.as]
    case 'labels':
      return request.labels[place.as]
    case 'request':
      return request[place.as]
    case 'rest':
      return request.rest[place.as]
  }
}

function without(request: ChatRequest, place: Place): ChatRequest {
  switch (place.in) {
    case 'sampling': {
      const { [place.as]: _, ...others } = request.sampling
      return { ...request, sampling: others }
    }
    case 'labels': {
      const { [place.as]: _, ...others } = request.labels
      return { ...request, labels: others }
    }
    case 'request':
      // A choice among tools that are not shown would be refused.
      if (place.as === 'tools') return { ...request, tools: [], toolChoice: undefined }
      return { ...request, [place.as]: undefined }
    case 'rest': {
      const { [place.as]: _, ...others }: JsonObject = request.rest
      return { ...request, rest: others }
    }
  }
}
