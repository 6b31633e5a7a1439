// `weir models`

import type { Model } from '../../../catalog/model.ts'
import { modelObject } from '../../../catalog/wire/models.ts'
import { plural } from '../../../counted.ts'
import { formatUsdPerMillion } from '../../../credits/money.ts'
import { type Context, type Invocation, print, table, usageFault } from '../../context.ts'
import { isUsersChoice } from '../../gateway-address.ts'
import { Discovery } from '../../../serve/gateway/discovery.ts'
import { answering, liveOf } from '../../../serve/gateway/live.ts'

/**
 * Lists the models that are sold, with the price of the first offer: all, or with --available those that can be called
 * now. At a terminal, the latter are also the default if a provider is configured or a local server runs.
 */
export async function listModels(context: Context, invocation: Invocation): Promise<void> {
  const { config, io, json } = context
  if (invocation.flag('available') && invocation.flag('all'))
    throw usageFault('--available or --all, not both')
  // Servers are asked with their keys: only those that the user chose.
  const asked = Object.entries(config.providers).filter(
    ([id, { base_url: url }]) =>
      url === undefined || isUsersChoice(context, ['providers', id, 'base_url'], url),
  )
  const chosen = { ...config, providers: Object.fromEntries(asked) }
  const live = liveOf(config, await new Discovery(chosen, config.server.port).scan())
  const { catalog, providers } = live
  const able = answering(live)
  const isOurs = [...able].some((id) => providers.get(id)?.transport === 'http')
  const bySelf = !json && io.terminal === true && isOurs && !invocation.flag('all')
  const servedBy = invocation.flag('available') || bySelf ? able : undefined
  const [q] = invocation.args
  const models = catalog.list({ servedBy, ...(q === undefined ? {} : { q }) })
  const rows = models.map((model) => {
    const { input, output } = model.offers[0]!.price.rates
    const context_length = model.contextLength?.toLocaleString('en-US') ?? '-'
    const notes = [model.premium ? 'premium' : '', model.flashClass ? 'flash class' : '']
      .filter(Boolean)
      .join(', ')
    return [model.id, formatUsdPerMillion(input), formatUsdPerMillion(output), context_length, notes]
  })
  const heading = ['MODEL', 'INPUT USD/M', 'OUTPUT USD/M', 'CONTEXT', '']
  const which = servedBy ? ' that can be called now (--all lists the whole catalog)' : ''
  const footer = `${plural(models.length, 'model')}${which}, prices of ${catalog.date}`
  print(context, { json: models.map(modelView), text: `${table(heading, rows)}\n${footer}` })
}

/** Prices as in GET /v1/models: decimal strings, US dollars per token, with fees and the rates of longer prompts. */
function modelView(model: Model) {
  return {
    id: model.id,
    name: model.name,
    owned_by: model.ownedBy,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    architecture: { input_modalities: model.inputModalities, output_modalities: model.outputModalities },
    pricing: modelObject(model).pricing,
    supported_parameters: model.supportedParameters,
    access: model.premium ? 'premium' : 'open',
    flash_class: model.flashClass,
    price_source: model.priceSource,
    price_date: model.priceDate,
    deprecation: model.deprecation ?? null,
  }
}
