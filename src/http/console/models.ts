// The list of models in the console, with whether the account can call each of them now, or why not.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import type { Model } from '../../catalog/row.ts'
import { etagMatches, etagOf, providersOf } from '../../catalog/wire.ts'
import { costsOf, refusal } from '../../chat/admission.ts'
import type { OpenedByPlans } from '../../chat/call.ts'
import { connectedClients } from '../../connect/clients.ts'
import type { Balance } from '../../credits/ledger/ledger.ts'
import { formatUsd } from '../../credits/money.ts'
import { fundingOf } from '../../credits/pool.ts'
import { compressible, queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { ConnectView, ModelView, NotCallable } from './answers.ts'
import { type ConsoleRoute, ownRoute } from './route.ts'

export const modelRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET models',
    { summary: 'The models, and whether the account can call them' },
    async ({ parts, account, request }) => {
      const reader = `account ${account.id}`
      parts.freeReads.require(reader)
      await parts.freeCredit.ensure(account)
      const { fields } = queryOf(modelParameters, request)
      const rows = await modelRows(parts, account)
      const data = fields === undefined ? rows : rows.map((row) => pickColumns(row, fields))
      const body = JSON.stringify({ data })
      // Made anew each time, whatever of it is sent.
      parts.freeReads.count(reader, body.length)
      return withEtag(request, body)
    },
  ),
]

const columns = [
  'id',
  'name',
  'provider',
  'context_length',
  'max_output_tokens',
  'input',
  'output',
  'cache_read',
  'access',
  'flash_class',
  'pools',
  'reasoning',
  'images',
  'files',
  'kind',
  'providers',
  'callable',
] as const
type Column = (typeof columns)[number]

const modelParameters = z.strictObject({
  fields: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(columns, `It takes some of ${columns.join(', ')}, with commas.`)))
    .optional(),
})

function pickColumns(row: ModelView, fields: readonly Column[]): Partial<ModelView> {
  return Object.fromEntries(fields.map((field) => [field, row[field]])) as Partial<ModelView>
}

/** The whole list for one account. */
async function modelRows(parts: HttpParts, account: Account): Promise<readonly ModelView[]> {
  const { catalog, ledger, now } = parts
  const balance = await ledger.balance(account.id)
  const answering = parts.answering()
  const figures = parts.lastHour()
  const opened = await parts.chat.openedByPlans(account.id)
  return catalog.list().map((model) => ({
    ...modelRow(parts, account, model, balance, answering, now(), opened),
    providers: providersOf(model, (provider) => figures[provider]),
  }))
}

const millionTokens = 1_000_000n

function modelRow(
  { chat }: HttpParts,
  account: Account,
  model: Model,
  balance: Balance,
  answering: ReadonlySet<string>,
  now: number,
  opened: OpenedByPlans,
): Omit<ModelView, 'providers'> {
  const { rates } = model.offers[0]!.price
  const perMillion = (rate: bigint) => formatUsd(rate * millionTokens)
  const served = model.offers.some(({ provider }) => answering.has(provider))
  const chats = !model.outputModalities.includes('embeddings')
  const costs = costsOf(model, (id) => chat.providers.get(id)?.costFrom === 'reported')
  const reason = (channel: 'api' | 'app') => {
    if (!served) return 'no_provider'
    if (channel === 'app' && !chats) return 'not_chat'
    const caller = { account, key: null, standing: null, channel, mode: 'live', session: null } as const
    // The other refusals are of keys, and there is none here.
    return (refusal(caller, model, balance, now, costs, opened) ?? null) as NotCallable | null
  }
  return {
    id: model.id,
    name: model.name,
    // A virtual model has its maker in the place of a provider.
    provider: model.route === undefined ? model.id.slice(0, model.id.indexOf('/')) : model.ownedBy,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    input: perMillion(rates.input),
    output: perMillion(rates.output),
    cache_read: perMillion(rates.cacheRead),
    access: model.premium ? 'premium' : 'open',
    flash_class: model.flashClass,
    pools: fundingOf('app', model.flashClass),
    reasoning: model.reasoning,
    images: model.inputModalities.includes('image'),
    files: model.inputModalities.includes('file'),
    kind: chats ? 'chat' : 'embeddings',
    callable: { api: reason('api'), app: reason('app') },
  }
}

async function withEtag(request: Request, body: string): Promise<Response> {
  const etag = etagOf(body)
  const headers = { 'cache-control': 'private, no-cache', 'content-type': 'application/json' }
  if (!etagMatches(request.headers.get('if-none-match'), etag))
    return (await compressible(request, body, etag, headers)).response
  const { 'cache-control': cache } = headers
  return new Response(null, { status: 304, headers: { etag, 'cache-control': cache } })
}

// How to point clients at this gateway.

export const connectRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET connect',
    { summary: 'What points each client at this gateway' },
    ({ parts }): ConnectView => {
      const origin = parts.publicUrl()
      return { base_url: `${origin}/v1`, clients: connectedClients(origin) }
    },
  ),
]
