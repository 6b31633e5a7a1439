// What a request declares of tools that the gateway runs, by whatever name the client's protocol has for them.

import { z } from 'zod'
import type {
  ApprovedCall,
  DeclaredTools,
  GatewayChoice,
  McpDeclaration,
  SearchLocation,
  ToolDeclaration,
  ToolSelector,
  WebSearchDeclaration,
} from '../../conversation/gateway-tools.ts'
import type { Json, JsonObject, ToolCall, ToolMessage } from '../../conversation/request.ts'
import type { GatewayError } from '../../errors/errors.ts'
import { isObject } from '../lenient.ts'
import type { Envelope, Routing } from '../protocol.ts'
import { invalidParam, unsupportedParam } from './fields.ts'
import { wordsAt } from './prompt-parts.ts'

/** How a protocol writes a declaration: its type among the tools, and what the documentation says of it. */
interface Written {
  readonly type: RegExp
  readonly about: string
}

interface Declared<Declaration> {
  readonly openai: Written
  readonly messages: Written
  /** For errors: what a choice misses that nothing declares. */
  readonly name: string
  readonly read: (tool: JsonObject, param: string) => Declaration
}

const declared: {
  readonly [Kind in ToolDeclaration['kind']]: Declared<Extract<ToolDeclaration, { kind: Kind }>>
} = {
  'web-search': {
    // With its previews and dated names, those of Anthropic among them.
    openai: {
      type: /^(openrouter:)?web_search(_\w+)?$/,
      about: '`{"type": "web_search"}` with `search_context_size`, `user_location`, `filters`, `max_uses`',
    },
    messages: { type: /^web_search_\d{8}$/, about: '`web_search_…`' },
    name: 'web search',
    read: searchDeclaration,
  },
  mcp: {
    openai: {
      type: /^mcp$/,
      about:
        '`{"type": "mcp"}` with `server_label`, `server_url` (or the name of a registered server), `authorization`, ' +
        '`headers`, `allowed_tools`, `require_approval`',
    },
    // The server itself is in `mcp_servers`: see `messagesServers`.
    messages: {
      type: /^mcp_toolset$/,
      about: 'the `mcp_toolset` of a server that `mcp_servers` names',
    },
    name: 'server',
    read: mcpDeclaration,
  },
}
const declaredKinds = Object.keys(declared) as readonly ToolDeclaration['kind'][]

function kindOf(type: unknown): ToolDeclaration['kind'] | undefined {
  return typeof type === 'string'
    ? declaredKinds.find((kind) => declared[kind].openai.type.test(type))
    : undefined
}

/** The tools that the gateway runs, as the documentation of a protocol lists them. */
export function documentedTools(protocol: 'openai' | 'messages'): string {
  return declaredKinds.map((kind) => declared[kind][protocol].about).join('; ')
}

/** Whether a tool of this type, or a choice of it, is one of the gateway's. */
export function isGatewayTool(type: unknown): boolean {
  return kindOf(type) !== undefined
}

/** Which tools of the gateway a choice, or an entry of a list of allowed ones, names; undefined for none. */
export function selectorOf(choice: { readonly [field: string]: unknown }): ToolSelector | undefined {
  const { type, server_label: serverLabel, name } = choice
  const kind = kindOf(type)
  if (kind !== 'mcp') return kind && { kind }
  if (typeof serverLabel !== 'string') return undefined
  return { kind: 'mcp', serverLabel, ...(typeof name === 'string' ? { tool: name } : {}) }
}

const readFields = new Set([
  'type',
  'name',
  'engine',
  'search_context_size',
  'user_location',
  'filters',
  'allowed_domains',
  'blocked_domains',
  'max_uses',
  'external_web_access',
])

/**
 * A tool that the gateway runs; undefined for any other. `param` is where it stands in the client's body. Throws
 * GatewayError `invalid_request` for a field of the wrong kind.
 */
export function declarationOf(tool: JsonObject, param: string): ToolDeclaration | undefined {
  const kind = kindOf(tool['type'])
  return kind && declared[kind].read(tool, param)
}

/** A web search, from its options alone. */
export function searchDeclaration(options: JsonObject, param: string): WebSearchDeclaration {
  const filters = objectOf(options['filters'], `${param}.filters`)
  const domains = (field: string) =>
    [
      ...domainsOf(filters[field], `${param}.filters.${field}`),
      ...domainsOf(options[field], `${param}.${field}`),
    ] as const
  const rest = Object.entries(options).filter(([field]) => !readFields.has(field))
  return {
    kind: 'web-search',
    param,
    engine: textOf(options['engine'], `${param}.engine`) ?? 'auto',
    contextSize: contextSizeOf(options['search_context_size'], `${param}.search_context_size`),
    location: locationOf(options['user_location'], `${param}.user_location`),
    allowedDomains: domains('allowed_domains'),
    blockedDomains: domains('blocked_domains'),
    ...(options['filters'] == null ? {} : { domainsParam: `${param}.filters` }),
    maxUses: countOf(options['max_uses'], `${param}.max_uses`),
    rest: Object.fromEntries(rest),
    // Only OpenAI's stored pages are asked for: Codex does so with every request, unless its user says otherwise.
    ...(options['external_web_access'] === false ? { optional: true } : {}),
  }
}

const noItems: readonly PlacedItem[] = []

/**
 * All declared tools, with what the `history` contains of them; undefined if there are none. Throws `invalid_request`
 * for servers with the same name, and for approvals that were never requested or whose server is not declared.
 */
export function declaredTools(
  declarations: readonly ToolDeclaration[],
  {
    maxCalls,
    choice,
    history = noItems,
  }: {
    readonly maxCalls: number | undefined
    readonly choice: GatewayChoice | undefined
    readonly history?: readonly PlacedItem[]
  },
): DeclaredTools | undefined {
  if (declarations.length === 0 && history.length === 0) return undefined
  refuseRepeatedServers(declarations)
  const { approved } = new Approvals(history)
  for (const { serverLabel } of approved) {
    const isDeclared = declarations.some((each) => each.kind === 'mcp' && each.serverLabel === serverLabel)
    if (!isDeclared)
      throw invalidParam(
        'tools',
        `a call of the server ${JSON.stringify(serverLabel)} is approved, which they do not name.`,
      )
  }
  if (declarations.length === 0) return undefined
  refuseUndeclared(choice, declarations)
  return {
    declarations,
    maxCalls,
    approved,
    history: history.map(({ item }) => item).filter(({ type }) => type === 'mcp_list_tools'),
    ...(choice === undefined ? {} : { choice }),
  }
}

/** A choice that no declaration can meet would leave every tool open to the model. */
function refuseUndeclared(choice: GatewayChoice | undefined, declarations: readonly ToolDeclaration[]): void {
  for (const selector of choice?.tools ?? []) {
    const isDeclared = declarations.some((each) =>
      each.kind === 'mcp'
        ? selector.kind === 'mcp' && selector.serverLabel === each.serverLabel
        : selector.kind === each.kind,
    )
    if (!isDeclared) {
      const label = selector.kind === 'mcp' ? ` ${JSON.stringify(selector.serverLabel)}` : ''
      throw invalidParam(
        'tool_choice',
        `no ${declared[selector.kind].name}${label} is declared among the tools.`,
      )
    }
  }
}

const suffix = ':online'

/** Whether the model of a request has the suffix that asks for a web search. */
export function isOnline(model: string): boolean {
  return model.endsWith(suffix) && model.length > suffix.length
}

/** The model of a request without that suffix. */
export function withoutOnline(model: string): string {
  return isOnline(model) ? model.slice(0, -suffix.length) : model
}

function objectOf(value: unknown, param: string): JsonObject {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw invalidParam(param, 'must be an object.')
  return value
}

function textOf(value: unknown, param: string): string | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string' || value === '') throw invalidParam(param, 'must be a text.')
  return value
}

function countOf(value: unknown, param: string): number | undefined {
  if (value === undefined || value === null) return undefined
  if (!Number.isInteger(value) || (value as number) < 1)
    throw invalidParam(param, 'must be a whole number from 1.')
  return value as number
}

function contextSizeOf(value: unknown, param: string): WebSearchDeclaration['contextSize'] {
  if (value === undefined || value === null) return 'medium'
  if (value === 'low' || value === 'medium' || value === 'high') return value
  throw invalidParam(param, 'must be low, medium or high.')
}

const mostDomains = 100

function domainsOf(value: unknown, param: string): readonly string[] {
  if (value === undefined || value === null) return []
  const isList = Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '')
  if (!isList || value.length > mostDomains)
    throw invalidParam(param, `must be a list of at most ${mostDomains} domains.`)
  return value as string[]
}

/** OpenAI's chat completions write the place in an object of its own. */
function locationOf(value: unknown, param: string): SearchLocation | undefined {
  const given = objectOf(value, param)
  const place = isObject(given['approximate']) ? given['approximate'] : given
  const location: { -readonly [Field in keyof SearchLocation]: SearchLocation[Field] } = {}
  for (const field of ['city', 'region', 'country', 'timezone'] as const) {
    const text = textOf(place[field], `${param}.${field}`)
    if (text !== undefined) location[field] = text
  }
  return Object.keys(location).length === 0 ? undefined : location
}

// MCP servers as a request declares them, and as it may be shown to others.

/** The most servers of one request: each is a connection. */
const mostServers = 16
const labelForm = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** `mcp` of OpenAI's protocols; what else it holds is checked where the server is opened. */
function mcpDeclaration(declaration: JsonObject, param: string): McpDeclaration {
  const { server_label: serverLabel } = declaration
  if (typeof serverLabel !== 'string' || !labelForm.test(serverLabel)) {
    throw invalidParam(`${param}.server_label`, 'must be up to 64 letters, digits, underscores and hyphens.')
  }
  return { kind: 'mcp', param, serverLabel, declaration }
}

/** Throws `invalid_request` for two servers of one label, and for too many. */
function refuseRepeatedServers(declarations: readonly ToolDeclaration[]): void {
  const labels = new Set<string>()
  for (const declaration of declarations) {
    if (declaration.kind !== 'mcp') continue
    const { serverLabel, param, names: fields } = declaration
    if (labels.has(serverLabel)) {
      const field = fields?.['server_label'] ?? 'server_label'
      throw invalidParam(`${param}.${field}`, 'another server of this request has it.')
    }
    labels.add(serverLabel)
    if (labels.size > mostServers)
      throw invalidParam(param, `a request names at most ${mostServers} MCP servers.`)
  }
}

// ---- Anthropic's -----------------------------------------------------------------------------------------------

/**
 * `mcp_servers` of the Messages API, with what each `mcp_toolset` among the tools says of them. The protocol has no
 * approvals: every call is run.
 */
export function messagesServers(servers: unknown, tools: readonly JsonObject[]): readonly McpDeclaration[] {
  if (servers != null && !Array.isArray(servers)) throw invalidParam('mcp_servers', 'must be a list.')
  const named = (servers ?? []) as readonly Json[]
  const toolsets = tools.filter(({ type }) => type === 'mcp_toolset')
  const serverNames = new Set(named.map((server) => (isObject(server) ? server.name : undefined)))
  for (const [at, { type, mcp_server_name: name }] of tools.entries()) {
    if (type === 'mcp_toolset' && (name === undefined || !serverNames.has(name)))
      throw invalidParam(`tools.${at}.mcp_server_name`, 'mcp_servers names no such server.')
  }
  // Of several for one server the first holds.
  const toolsetOf = new Map(toolsets.toReversed().map((toolset) => [toolset.mcp_server_name, toolset]))
  return named.map((server: Json, at) => {
    const param = `mcp_servers.${at}`
    if (!isObject(server)) throw invalidParam(param, 'must be an object.')
    const { type, name, url, authorization_token: token, tool_configuration: configuration } = server
    if (type != null && type !== 'url')
      throw invalidParam(
        `${param}.type`,
        'must be url: servers are reached by their address, no program is started.',
      )
    if (typeof name !== 'string' || !labelForm.test(name)) {
      throw invalidParam(`${param}.name`, 'must be up to 64 letters, digits, underscores and hyphens.')
    }
    const toolset = toolsetOf.get(name)
    const declaration: JsonObject = {
      type: 'mcp',
      server_label: name,
      require_approval: 'never',
      ...(url == null ? {} : { server_url: url }),
      ...(token == null ? {} : { authorization: token }),
      ...(toolset ? toolsOfSet(toolset, `${param}.tools`) : toolsOfConfiguration(configuration)),
    }
    return { kind: 'mcp', param, serverLabel: name, declaration, names }
  })
}

const names = { server_url: 'url', authorization: 'authorization_token', server_label: 'name' }

/** The older beta. */
function toolsOfConfiguration(configuration: Json | undefined): JsonObject {
  if (!isObject(configuration)) return {}
  if (configuration.enabled === false) return { allowed_tools: [] }
  return configuration.allowed_tools == null ? {} : { allowed_tools: configuration.allowed_tools }
}

function toolsOfSet({ default_config: usual, configs }: JsonObject, param: string): JsonObject {
  if (configs != null && !isObject(configs)) throw invalidParam(param, 'configs must be an object.')
  const entries = Object.entries(configs ?? {})
  const namesOf = (enabled: boolean) =>
    entries.filter(([, config]) => isObject(config) && config.enabled === enabled).map(([name]) => name)
  const allByDefault = !isObject(usual) || usual.enabled !== false
  return allByDefault ? { disallowed_tools: namesOf(false) } : { allowed_tools: namesOf(true) }
}

// ---- shown to others -------------------------------------------------------------------------------------------

const hidden = '<redacted>'
/** Clients check that it is a URI. */
const hiddenAddress = 'https://redacted.invalid'

/**
 * A declared tool without its secrets: tokens, header values, and the path of the address, which often contains a key.
 * For answers and storage.
 */
export function shownTool(tool: JsonObject): JsonObject {
  const { server_url: url, authorization: _, headers, ...shown } = tool
  if (tool.type !== 'mcp') return tool
  const origin = typeof url === 'string' ? URL.parse(url)?.origin : undefined
  return {
    ...shown,
    ...(url === undefined ? {} : { server_url: origin === undefined ? hiddenAddress : `${origin}/redacted` }),
    ...(isObject(headers)
      ? { headers: Object.fromEntries(Object.keys(headers).map((name) => [name, hidden])) }
      : {}),
  }
}

/** A client's body as it may be logged. */
export function shownBody(body: JsonObject): JsonObject {
  const { tools, mcp_servers: servers } = body
  const shown: JsonObject = {}
  if (Array.isArray(tools) && tools.some((tool) => isObject(tool) && tool.type === 'mcp'))
    shown['tools'] = tools.map((tool) => (isObject(tool) ? shownTool(tool) : tool))
  if (Array.isArray(servers))
    shown['mcp_servers'] = servers.map((server) => (isObject(server) ? { name: server.name ?? null } : null))
  return Object.keys(shown).length === 0 ? body : { ...body, ...shown }
}

// The gateway's own fields in bodies of chat completions, and of the protocols that take them in the same form.

const text = z.string()
const flag = z.boolean()

/** US dollars as a decimal string: money never travels as a float. */
const usdAmount = z
  .string()
  .regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be an amount of US dollars as a decimal string, such as "0.05"')

const providerIds = z.array(text.min(1)).max(64).nullish()
const usdAmountOrNumber = z.union([usdAmount, z.number().min(0).max(1_000_000)]).nullish()
/** US dollars for a million tokens. */
const pricePerMillion = usdAmountOrNumber

/** OpenRouter's object for routing (openrouter.ai/docs/guides/routing/provider-selection), as far as it is honoured. */
const providerPreferences = z.looseObject({
  order: providerIds,
  only: providerIds,
  ignore: providerIds,
  allow_fallbacks: flag.nullish(),
  continue: flag
    .nullish()
    .describe('Whether another candidate goes on with a stream that has broken off within its text.'),
  fallback_on_content_filter: flag
    .nullish()
    .describe('Whether the next model is asked when a content filter has refused the prompt.'),
  require_parameters: flag.nullish(),
  max_price: z
    .looseObject({
      input: pricePerMillion,
      output: pricePerMillion,
      prompt: pricePerMillion.describe('The same as `input`.'),
      completion: pricePerMillion.describe('The same as `output`.'),
      request: usdAmountOrNumber.describe('US dollars for each request, whatever its tokens.'),
    })
    .nullish(),
  data_collection: z.enum(['allow', 'deny']).nullish(),
  zdr: flag.nullish().describe('Only providers that keep nothing.'),
  sort: z
    .union([text, z.looseObject({ by: text.nullish(), partition: text.nullish() })])
    .nullish()
    .describe('`price` or `latency`: the offers of a model in that order.'),
  quantizations: z.array(text).nullish(),
})

/** The gateway's own fields beside OpenAI's: they steer the gateway and are never sent to a provider. */
/** Seconds; 0 for an answer of its own. */
const cacheWish = z.strictObject({ ttl: z.number().min(0).max(2_592_000) })

export const gatewayShape = {
  /** Further models to try, in order. */
  models: z.array(text.min(1)).max(16).nullish(),
  provider: providerPreferences.nullish(),
  max_cost: usdAmount.nullish(),
  cache: cacheWish.nullish(),
  max_tool_calls: z.int().min(0).max(1000).nullish(),
  session_id: text.min(1).max(256).nullish(),
  strict: flag.nullish(),
  on_disconnect: z.enum(['cancel', 'finish']).nullish(),
  /** `{include: true}` is how clients of OpenRouter ask for the usage of a stream. */
  usage: z.looseObject({ include: flag.nullish() }).nullish(),
}

export const gatewayFields: readonly string[] = Object.keys(gatewayShape)

/** Fields that steer the gateway stay here. */
export const gatewayPlaces = wordsAt(...gatewayFields)

/** Who names only a list of models asks for its first, and falls back on the rest. */
export function withModel(body: JsonObject): JsonObject {
  const { models } = body
  if (body['model'] != null || !Array.isArray(models) || models.length === 0) return body
  const [model, ...rest] = models
  return { ...body, model: model!, models: rest }
}

type Fields = {
  readonly [Name in keyof typeof gatewayShape]?: z.infer<(typeof gatewayShape)[Name]> | undefined
}

/** Whether what cannot be honoured is refused. */
export function isStrict({ provider, strict }: Pick<Fields, 'provider' | 'strict'>): boolean {
  return strict === true || provider?.require_parameters === true
}

/** What these fields say of a call, in every protocol. Throws like `readRouting`. */
export function gatewayEnvelope({ provider, max_cost, cache, session_id, strict, on_disconnect }: Fields) {
  return {
    routing: readRouting(provider),
    maxCost: max_cost ?? undefined,
    ...(cache != null && { cacheMs: cache.ttl * 1000 }),
    sessionId: session_id ?? undefined,
    strict: isStrict({ provider, strict }),
    onDisconnect: on_disconnect ?? undefined,
  } satisfies Partial<Envelope>
}

/** The routing of a request that says nothing of it. */
export const anywhere: Routing = {
  order: [],
  only: [],
  ignore: [],
  allowFallbacks: true,
  maxPrice: { input: undefined, output: undefined, request: undefined },
  dataPolicy: undefined,
  sort: undefined,
  afterFilter: 'end',
  continues: false,
}

/**
 * `provider{…}` of a request. Throws `unsupported_parameter` for a member that is not honoured: who asks for it must not
 * believe that it was, whether the request is strict or not.
 */
function readRouting(routing: z.infer<typeof gatewayShape.provider>): Routing {
  if (routing == null) return anywhere
  refuseMembers(routing, providerPreferences, 'provider')
  const { max_price: prices, quantizations, zdr, data_collection } = routing
  if (quantizations != null && quantizations.length > 0)
    throw unsupportedParam(
      'provider.quantizations',
      'it is not known here how providers quantise their models.',
    )
  if (prices != null) refuseMembers(prices, pricesShape, 'provider.max_price')
  return {
    order: routing.order ?? [],
    only: routing.only ?? [],
    ignore: routing.ignore ?? [],
    allowFallbacks: routing.allow_fallbacks ?? true,
    maxPrice: {
      input: priceCap(prices, 'input', 'prompt'),
      output: priceCap(prices, 'output', 'completion'),
      request: priceCap(prices, 'request', 'request'),
    },
    dataPolicy: zdr === true ? 'zero_retention' : data_collection === 'deny' ? 'no_training' : undefined,
    sort: sortOf(routing.sort),
    afterFilter: routing.fallback_on_content_filter === true ? 'fallback' : 'end',
    continues: routing.continue === true,
  }
}

/** Members that say nothing where they are false or null are let be. */
function refuseMembers(given: object, shape: z.ZodObject, path: string): void {
  const known = Object.keys(shape.shape)
  for (const [name, value] of Object.entries(given)) {
    if (known.includes(name) || value === null || value === false || value === undefined) continue
    throw unsupportedParam(`${path}.${name}`, `it is not honoured here; ${path} takes ${known.join(', ')}.`)
  }
}

const pricesShape = providerPreferences.shape.max_price.unwrap().unwrap()

type PriceCaps = NonNullable<z.infer<typeof providerPreferences>['max_price']>

/** A cap may stand under our name or OpenRouter's; under both it has to be the same. */
function priceCap(
  caps: PriceCaps | null | undefined,
  name: 'input' | 'output' | 'request',
  alias: 'prompt' | 'completion' | 'request',
): string | undefined {
  const [own, other] = [caps?.[name], caps?.[alias]]
  if (own != null && other != null && Number(own) !== Number(other))
    throw invalidParam(`provider.max_price.${alias}`, `it is the same as ${name}, which has another value.`)
  const [amount, path] = own != null ? [own, name] : [other, alias]
  return amount == null ? undefined : decimalString(amount, `provider.max_price.${path}`)
}

function sortOf(sort: z.infer<typeof providerPreferences>['sort']): Routing['sort'] {
  const { by, partition } = typeof sort === 'string' ? { by: sort, partition: undefined } : (sort ?? {})
  if (by == null) return undefined
  if (partition != null && partition !== 'model')
    throw unsupportedParam('provider.sort.partition', 'offers are sorted within their model here.')
  if (by === 'price' || by === 'latency') return by
  throw unsupportedParam('provider.sort', 'offers are sorted by price or latency here.')
}

/** A price cap may come as a number; one so small that JavaScript would write an exponent must be a string. */
function decimalString(amount: string | number, param: string): string {
  const text = String(amount)
  if (!/^\d+(\.\d+)?$/.test(text)) throw invalidParam(param, 'write it as a decimal string.')
  return text
}

// Which types of tools are served, for clients of every protocol: one table, so that a type is opened in one place and
// refused everywhere in the same words.

/**
 * `gateway`: the gateway runs it. `left-out`: the client sends it with every request, wanted or not, and works without;
 * it is named in a warning.
 */
type Fate = 'served' | 'gateway' | 'left-out' | 'refused'

interface Rule {
  readonly type: Pick<RegExp, 'test'>
  readonly fate: Exclude<Fate, 'refused'>
}

function declaredIn(protocol: 'openai' | 'messages'): Rule {
  const test = (type: string) => declaredKinds.some((kind) => declared[kind][protocol].type.test(type))
  return { type: { test }, fate: 'gateway' }
}

/** By the protocol the client speaks; the first rule that fits holds, a type without one is refused. */
const rules: Readonly<
  Record<'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'messages-elsewhere', readonly Rule[]>
> = {
  'openai-chat': [{ type: /^(function|custom)$/, fate: 'served' }, declaredIn('openai')],
  // A shell in a container of the provider costs by the hour: see `refuseUnservedTools` of the protocol.
  'openai-responses': [
    { type: /^(function|custom|namespace|local_shell|shell|apply_patch|tool_search)$/, fate: 'served' },
    declaredIn('openai'),
  ],
  // Tools that Anthropic defines and the client runs, and its search among the client's own: they cost tokens alone.
  'anthropic-messages': [
    { type: /^custom$|^(bash|text_editor|computer|memory)_\d{8}$|^tool_search_tool_/, fate: 'served' },
    declaredIn('messages'),
  ],
  // The same client at a provider that is not Anthropic's: without the search all tools are shown at once.
  'messages-elsewhere': [
    { type: /^custom$/, fate: 'served' },
    { type: /^tool_search_tool_/, fate: 'left-out' },
  ],
}

/** What becomes of a client's tool. One without a type is a function in every protocol that allows it. */
export function fateOf(protocol: keyof typeof rules, tool: Json | object): Fate {
  const fields: { readonly [field: string]: unknown } = isObject(tool) ? tool : {}
  const { type } = fields
  if (typeof type !== 'string') return 'served'
  const rule = rules[protocol].find((each) => each.type.test(type))
  return rule?.fate ?? 'refused'
}

/** The error for a tool of this type; `param` is its path in the client's notation. */
export function toolRefused(type: string, param: string): GatewayError {
  return unsupportedParam(param, `tools of type ${JSON.stringify(type.slice(0, 64))} are not served here.`)
}

// Approvals in the history of a conversation: what the client was asked, what it has answered, and what became of it.

/** An item of the history, and where the client wrote it. */
export interface PlacedItem {
  readonly item: JsonObject
  readonly param: string
}

/** A call that was submitted for approval, as it is in the conversation. */
export interface AskedCall {
  readonly call: ToolCall
  /** undefined while the gateway is still to run it. */
  readonly result: ToolMessage | undefined
}

export class Approvals {
  readonly #asked = new Map<string, AskedCall>()
  readonly #approved: readonly ApprovedCall[]

  /**
   * Reads all items of a conversation, in their order. Throws `invalid_request` for an answer to what was never asked,
   * and for a second one.
   */
  constructor(items: readonly PlacedItem[]) {
    const requests = new Map<string, ApprovedCall>()
    const answers = new Map<string, JsonObject>()
    const ran = new Set<unknown>()
    /** Answers that the model has gone on from, and those that it has not yet. */
    const settled = new Set<unknown>()
    let fresh: string[] = []
    for (const { item, param } of items) {
      if (isOfModel(item)) {
        for (const id of fresh) settled.add(id)
        fresh = []
      }
      if (item.type === 'mcp_call' && item.approval_request_id != null) ran.add(item.approval_request_id)
      if (item.type === 'mcp_approval_request') {
        const request = requestIn(item, param)
        requests.set(request.requestId, request)
      }
      if (item.type === 'mcp_approval_response') {
        const id = answeredId(item, param)
        const field = `${param}.approval_request_id`
        if (!requests.has(id)) throw invalidParam(field, 'no approval was asked for under this id.')
        if (answers.has(id)) throw invalidParam(field, 'it has been answered before.')
        answers.set(id, item)
        fresh.push(id)
      }
    }
    const open = [...requests.values()].filter(({ requestId }) => !ran.has(requestId))
    this.#approved = open.filter(
      ({ requestId }) => answers.get(requestId)?.approve === true && !settled.has(requestId),
    )
    const approved = new Set(this.#approved)
    for (const request of open) {
      const answer = answers.get(request.requestId)
      this.#asked.set(request.requestId, askedCall(request, answer, approved.has(request)))
    }
  }

  /** Calls that are still to be run. */
  get approved(): readonly ApprovedCall[] {
    return this.#approved
  }

  /** The call that a request asked about; undefined if it has been run already. */
  askedCall(requestId: unknown): AskedCall | undefined {
    return this.#asked.get(String(requestId))
  }
}

function requestIn(item: JsonObject, param: string): ApprovedCall {
  const { id, server_label: serverLabel, name, arguments: json } = item
  if (typeof id !== 'string' || typeof serverLabel !== 'string' || typeof name !== 'string') {
    throw invalidParam(param, 'an approval request has an id, a server_label and a name.')
  }
  return {
    requestId: id,
    serverLabel,
    tool: name,
    arguments: typeof json === 'string' && json !== '' ? json : '{}',
  }
}

function answeredId({ approval_request_id: id, approve }: JsonObject, param: string): string {
  if (typeof id !== 'string') throw invalidParam(`${param}.approval_request_id`, 'must be a text.')
  if (typeof approve !== 'boolean') throw invalidParam(`${param}.approve`, 'must be true or false.')
  return id
}

function askedCall(
  { requestId: id, serverLabel, tool, arguments: json }: ApprovedCall,
  answer: JsonObject | undefined,
  isPending: boolean,
): AskedCall {
  const origin = { kind: 'mcp', serverLabel, tool } as const
  const call: ToolCall = { id, name: tool, arguments: json, thoughtSignature: undefined, origin }
  if (isPending) return { call, result: undefined }
  const content = [{ kind: 'text', text: notRun(answer), cache: undefined } as const]
  return { call, result: { role: 'tool', toolCallId: id, content, isError: true } }
}

/** Why a call that was asked about has not been run, for the model. */
function notRun(answer: JsonObject | undefined): string {
  if (!answer) return 'The user was asked to allow this call and has not answered.'
  if (answer.approve === true)
    return 'The user has allowed this call, and it was not run: its tool had changed.'
  const { reason } = answer
  const why = typeof reason === 'string' && reason !== '' ? ` The user says: ${reason}` : ''
  return `The user has not allowed this call.${why}`
}

/** Whether an item was made by the model, or by the gateway for it: whatever was answered before has been read then. */
function isOfModel({ type, role }: JsonObject): boolean {
  if (type === 'message') return role === 'assistant'
  return typeof type === 'string' && modelItems.has(type)
}

const modelItems = new Set([
  'function_call',
  'custom_tool_call',
  'local_shell_call',
  'shell_call',
  'apply_patch_call',
  'tool_search_call',
  'mcp_call',
  'mcp_list_tools',
  'reasoning',
  'web_search_call',
])
