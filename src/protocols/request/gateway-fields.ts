// The gateway's own fields in bodies of chat completions, and of the protocols that take them in the same form.

import { z } from 'zod'
import type { JsonObject } from '../../conversation/request.ts'
import type { Routing } from '../protocol.ts'
import { invalidParam } from './invalid-param.ts'

const text = z.string()
const flag = z.boolean()

/** US dollars as a decimal string: money never travels as a float. */
const usdAmount = z
  .string()
  .regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be an amount of US dollars as a decimal string, such as "0.05"')

const providerIds = z.array(text.min(1)).max(64).nullish()
const pricePerMillion = z.union([usdAmount, z.number().min(0).max(1_000_000)]).nullish()

/** The gateway's own fields beside OpenAI's: they steer the gateway and are never sent to a provider. */
export const gatewayShape = {
  /** Further models to try, in order. */
  models: z.array(text.min(1)).max(16).nullish(),
  provider: z
    .looseObject({
      order: providerIds,
      only: providerIds,
      ignore: providerIds,
      allow_fallbacks: flag.nullish(),
      require_parameters: flag.nullish(),
      max_price: z.looseObject({ input: pricePerMillion, output: pricePerMillion }).nullish(),
    })
    .nullish(),
  max_cost: usdAmount.nullish(),
  max_tool_calls: z.int().min(0).max(1000).nullish(),
  session_id: text.min(1).max(256).nullish(),
  strict: flag.nullish(),
  on_disconnect: z.enum(['cancel', 'finish']).nullish(),
  /** `{include: true}` is how clients of OpenRouter ask for the usage of a stream. */
  usage: z.looseObject({ include: flag.nullish() }).nullish(),
}

export const gatewayFields: readonly string[] = Object.keys(gatewayShape)

/** Fields that steer the gateway stay here. */
export const gatewayPlaces = Object.fromEntries(gatewayFields.map((field) => [field, 'words' as const]))

/** Who names only a list of models asks for its first, and falls back on the rest. */
export function withModel(body: JsonObject): JsonObject {
  const { models } = body
  if (body['model'] != null || !Array.isArray(models) || models.length === 0) return body
  const [model, ...rest] = models
  return { ...body, model: model!, models: rest }
}

/** The routing of a request that says nothing of it. */
export const anywhere: Routing = {
  order: [],
  only: [],
  ignore: [],
  allowFallbacks: true,
  maxPrice: { input: undefined, output: undefined },
}

/** `provider{…}` of a request. */
export function readRouting(routing: z.infer<typeof gatewayShape.provider>): Routing {
  if (routing == null) return anywhere
  const { input, output } = routing.max_price ?? {}
  return {
    order: routing.order ?? [],
    only: routing.only ?? [],
    ignore: routing.ignore ?? [],
    allowFallbacks: routing.allow_fallbacks ?? true,
    maxPrice: {
      input: input == null ? undefined : decimalString(input, 'provider.max_price.input'),
      output: output == null ? undefined : decimalString(output, 'provider.max_price.output'),
    },
  }
}

/** A price cap may come as a number; one so small that JavaScript would write an exponent must be a string. */
function decimalString(amount: string | number, param: string): string {
  const text = String(amount)
  if (!/^\d+(\.\d+)?$/.test(text)) throw invalidParam(param, 'write it as a decimal string.')
  return text
}
