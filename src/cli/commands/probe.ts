// `weir doctor --provider P`: makes one cheap call to a provider, charged to no account, and explains what is wrong.

import type { Catalog } from '../../catalog/catalog.ts'
import { localModels } from '../../catalog/local-models.ts'
import { NearIds } from '../../catalog/near-ids.ts'
import { type Model, suggestion } from '../../catalog/row.ts'
import { collect, type Fault, type FaultKind } from '../../conversation/event.ts'
import { larger, type Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { parseJson } from '../../protocols/lenient.ts'
import { inbound } from '../../protocols/openai-chat/inbound/inbound.ts'
import type { Outbound, Target } from '../../protocols/protocol.ts'
import { outbounds } from '../../protocols/registry.ts'
import { modelsOf } from '../../providers/local-servers.ts'
import { type ConfiguredProvider, configureProviders, withDialect } from '../../providers/provider.ts'
import { providers as registry } from '../../providers/registry.ts'
import { UnreachableError, Upstream } from '../../providers/upstream.ts'
import { catalogInUse } from '../../serve/gateway/catalog.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../context.ts'
import { folderSays, isUsersChoice } from '../gateway-address.ts'
import { type Finding, keyNames } from './doctor.ts'

/** The fault that a probe found, for scripts. */
export type Problem =
  | 'disabled'
  | 'no_key'
  | 'no_address'
  | 'no_model'
  | 'unreachable'
  | 'timeout'
  | 'wrong_address'
  | 'not_the_protocol'
  | 'key_refused'
  | 'quota'
  | 'rate_limited'
  | 'model_unknown'
  | 'overloaded'
  | 'failing'
  | 'request_refused'

interface Verdict extends Finding {
  readonly problem?: Problem
  /** The model that was called, by its name at the provider. */
  readonly model?: string
  readonly ms?: number
}

/** The smallest limit that all models accept. */
const outputTokens = 16
const longestWaitMs = 60_000
/** Enough for an answer of that many tokens with reasoning; a longer body is not read to its end. */
const answerBytes = 1_000_000
/** The maximum length of a quoted provider message, characters. */
const quotedCharacters = 300

/** Calls the provider once with each of its keys. Fails with the reason if a call is not answered. */
export async function probe(context: Context, invocation: Invocation): Promise<void> {
  const verdicts = await verdictsOf(context, invocation.option('provider') ?? '')
  const bad = verdicts.filter(({ state }) => state === 'bad')
  const text = verdicts.map(({ check, state, detail }) => `${state.padEnd(4)}  ${check}  ${detail}`)
  print(context, { json: { ok: bad.length === 0, findings: verdicts }, text: text.join('\n') })
  if (bad.length > 0)
    throw new CommandFailure(bad.map(({ check, detail }) => `${check}: ${detail}`).join('\n'))
}

async function verdictsOf(context: Context, id: string): Promise<readonly Verdict[]> {
  const { config } = context
  const row = registry.find((provider) => provider.id === id)
  const settings = config.providers[id]
  const check = `provider ${id}`
  const bad = (problem: Problem, detail: string): Verdict => ({ check, state: 'bad', detail, problem })
  if (!row && !settings) {
    const known = new NearIds([...registry.map((one) => one.id), ...Object.keys(config.providers)])
    throw usageFault(`there is no provider ${JSON.stringify(id)}.${suggestion(known.nearest(id))}`)
  }
  if (settings?.disabled) return [bad('disabled', `it is taken out of service: providers.${id}.disabled`)]
  // Some models of `sim` fail on purpose, so a call would prove nothing.
  if (row?.transport === 'builtin') return [{ check, state: 'ok', detail: 'answers inside the gateway' }]
  const deployments = settings?.deployments ?? []
  const hasKey = [settings?.api_key ?? [], ...deployments.map(({ api_key }) => api_key)].some(
    ({ length }) => length > 0,
  )
  if (row && row.auth.kind !== 'none' && !hasKey)
    return [bad('no_key', `no key: set ${keyNames(row)} or providers.${id}.api_key`)]
  const ofDeployment = deployments[0]?.base_url
  const address = ofDeployment ?? settings?.base_url
  const place = ofDeployment === undefined ? 'base_url' : 'deployments'
  if (address !== undefined && !isUsersChoice(context, ['providers', id, place], address))
    throw usageFault(`its key would be sent to ${address}, which ${folderSays}`)
  const provider = configureProviders(registry, config.providers, new Set([id])).get(id)
  if (!provider) return [bad('no_address', `it has no address: set providers.${id}.base_url`)]
  const model = await modelFor(context, provider)
  if (model === undefined)
    return [
      bad('no_model', `the catalog has no chat model of it: add one under models, such as ${id}/<name>`),
    ]
  const several = provider.keys.length > 1
  return Promise.all(
    provider.keys.map((key, at) =>
      callModel(context, provider, key, model, several ? `${check} key ${at + 1}` : check),
    ),
  )
}

interface Choice {
  readonly id: string
  readonly upstream: string
  readonly reasoning: boolean
  readonly maxOutputTokens: number | undefined
}

/** The cheapest chat model of the provider; if the catalog has none, one that its server lists. */
async function modelFor(context: Context, provider: ConfiguredProvider): Promise<Choice | undefined> {
  const { config, io } = context
  const known = cheapest(catalogInUse(config, io.clock), provider.id)
  if (known || provider.transport === 'builtin') return known
  const listed = await modelsOf(provider, config.local_servers.timeout_ms)
  if (listed.kind !== 'models') return undefined
  const today = new Date(io.clock()).toISOString().slice(0, 10)
  return cheapest(catalogInUse(config, io.clock, localModels(provider.id, listed.models, today)), provider.id)
}

function cheapest(catalog: Catalog, provider: string): Choice | undefined {
  const chats = catalog
    .list({ provider })
    .filter(({ outputModalities }) => outputModalities.length === 1 && outputModalities[0] === 'text')
    .map((model) => ({ model, price: priceOf(model, provider) }))
    .toSorted((a, b) => (a.price < b.price ? -1 : a.price > b.price ? 1 : 0))
  const model = chats[0]?.model
  return (
    model && {
      id: model.id,
      upstream: model.offers.find((offer) => offer.provider === provider)!.upstream,
      reasoning: model.reasoning,
      maxOutputTokens: model.maxOutputTokens,
    }
  )
}

function priceOf(model: Model, provider: string): Pico {
  const { rates, perRequest } = model.offers.find((offer) => offer.provider === provider)!.price
  return rates.input + BigInt(outputTokens) * larger(rates.output, rates.reasoning) + perRequest
}

async function callModel(
  context: Context,
  row: ConfiguredProvider,
  key: string | undefined,
  model: Choice,
  check: string,
): Promise<Verdict> {
  const began = performance.now()
  const provider = withDialect(row, model.upstream)
  const ended = await ending(context, provider, key, model)
  const ms = Math.round(performance.now() - began)
  const facts = { check, model: model.upstream, ms }
  if (ended.kind === 'answered')
    return { ...facts, state: 'ok', detail: `${model.upstream} answered in ${ms} ms` }
  const detail = key === undefined ? ended.detail : ended.detail.replaceAll(key, '***')
  return { ...facts, state: 'bad', detail, problem: ended.problem }
}

type Ended = { readonly kind: 'answered' } | { readonly kind: 'bad'; problem: Problem; detail: string }

const wrong = (problem: Problem, detail: string): Ended => ({ kind: 'bad', problem, detail })

async function ending(
  { config }: Context,
  provider: ConfiguredProvider,
  key: string | undefined,
  model: Choice,
): Promise<Ended> {
  const outbound = outbounds[provider.protocol]
  const target: Target = {
    model: model.upstream,
    provider: provider.id,
    quirks: { ...(outbound.defaultQuirks as object), ...provider.quirks },
    maxOutputTokens: model.maxOutputTokens,
    reasoning: model.reasoning,
    rememberedSignature: () => undefined,
  }
  const abort = new AbortController()
  const waitMs = Math.min(longestWaitMs, config.timeouts.first_byte_ms)
  const timer = setTimeout(() => abort.abort(), waitMs)
  try {
    const lowered = outbound.lower(question(model.id), target)
    const { connect_ms: connectMs } = config.timeouts
    const body = JSON.stringify(lowered.body)
    const response = await new Upstream().send({ ...lowered, body, provider, key, abort, connectMs })
    return read(response, await textOf(response), provider, outbound, target)
  } catch (error) {
    if (abort.signal.aborted && !(error instanceof UnreachableError))
      return wrong('timeout', `no answer from ${provider.baseUrl} within ${waitMs / 1000} s`)
    return endedByError(error, provider)
  } finally {
    clearTimeout(timer)
    abort.abort()
  }
}

function question(model: string) {
  const messages = [{ role: 'user', content: 'Say yes.' }]
  return inbound.parse({ model, messages, max_tokens: outputTokens }).toChatRequest()
}

function read(
  response: Response,
  text: string,
  provider: ConfiguredProvider,
  outbound: Outbound,
  target: Target,
): Ended {
  const { status, headers } = response
  const { baseUrl, protocol, id } = provider
  if (status >= 300 && status < 400) {
    const to = headers.get('location') ?? 'elsewhere'
    return wrong('wrong_address', `${baseUrl} redirects to ${to}: put the final address into ${setting(id)}`)
  }
  const parsed = parseJson(text)
  if (status >= 400) {
    const fault = outbound.fault(status, headers, text, target)
    // Providers always answer in JSON; other web servers in between do not.
    const missing = status === 404 || status === 405
    if (parsed === undefined && missing)
      return wrong(
        'wrong_address',
        `nothing is served at this path (HTTP ${status}): ${checkAddress(provider)}`,
      )
    if (missing && !namesModel(fault, target.model))
      return wrong(
        'model_unknown',
        `HTTP ${status} ${quoteFault(fault)}: it knows no model ${target.model}, or ${checkAddress(provider)}`,
      )
    return faulty(fault, target.model)
  }
  if (parsed === undefined) {
    const page = /^\s*</.test(text) ? 'a web page' : text.trim() === '' ? 'nothing' : 'no JSON'
    return wrong('wrong_address', `it answers with ${page} (HTTP ${status}): ${checkAddress(provider)}`)
  }
  const result = collect(outbound.whole(parsed, target))
  if (result.fault?.kind === 'broken')
    return wrong(
      'not_the_protocol',
      `its answer is not of the protocol ${protocol}: ${quoteFault(result.fault)}`,
    )
  if (result.fault) return faulty(result.fault, target.model)
  return { kind: 'answered' }
}

const problems: Readonly<Record<FaultKind, readonly [Problem, (model: string) => string]>> = {
  credentials: ['key_refused', () => 'it refuses the key'],
  quota: ['quota', () => 'it knows the key, but its account there has no credit or quota left'],
  'rate-limited': ['rate_limited', () => 'it knows the key, but limits its rate or quota at the moment'],
  'not-found': ['model_unknown', (model) => `it knows no model ${model}, or the key may not use it`],
  overloaded: ['overloaded', () => 'it is overloaded at the moment'],
  broken: ['failing', () => 'it fails'],
  'too-large': ['failing', () => 'its answer is larger than the gateway reads'],
  cut: ['unreachable', () => 'the connection broke'],
  timeout: ['timeout', () => 'it took too long'],
  'invalid-request': ['request_refused', (model) => `it refuses the request to ${model}`],
  'context-length': ['request_refused', (model) => `it refuses the request to ${model}`],
  'unusable-output': ['request_refused', (model) => `it rejects the answer of ${model}`],
  'content-filter': ['request_refused', (model) => `it refuses the request to ${model}`],
}

function faulty(fault: Fault, model: string): Ended {
  const [problem, says] = problems[fault.kind]
  const status = fault.status === undefined ? '' : ` (HTTP ${fault.status})`
  return wrong(problem, `${says(model)}${status}: ${quoteFault(fault)}`)
}

function endedByError(error: unknown, provider: ConfiguredProvider): Ended {
  if (error instanceof UnreachableError) {
    const { fault } = error
    if (fault.kind === 'timeout')
      return wrong(
        'timeout',
        `no connection to ${provider.baseUrl} comes about: a firewall, or a wrong address`,
      )
    if (fault.kind === 'credentials')
      return wrong('key_refused', `no token for the key: ${quoteFault(fault)}`)
    return wrong('unreachable', `${reasonOf(fault.providerCode)} at ${provider.baseUrl}`)
  }
  if (error instanceof GatewayError) return wrong('request_refused', error.message)
  throw error
}

const reasons: Readonly<Record<string, string>> = {
  ConnectionRefused: 'nothing listens',
  ECONNREFUSED: 'nothing listens',
  FailedToOpenSocket: 'the name is not known, or no connection can be made',
  ENOTFOUND: 'the name is not known',
  ECONNRESET: 'the connection is reset',
}

function reasonOf(code: string | undefined): string {
  if (code === undefined) return 'no connection can be made'
  return reasons[code] ?? `no connection can be made (${code})`
}

function checkAddress({ id, baseUrl }: ConfiguredProvider): string {
  return `${setting(id)} is wrong (${baseUrl}); it ends with the version segment`
}

function setting(id: string): string {
  return `providers.${id}.base_url`
}

/** Whether the provider's message is about the model rather than the path. */
function namesModel({ message, providerCode }: Fault, model: string): boolean {
  return message.includes(model) || /model/i.test(`${message} ${providerCode ?? ''}`)
}

function quoteFault({ message }: Fault): string {
  return JSON.stringify(message.slice(0, quotedCharacters))
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const bytes of response.body ?? []) {
    chunks.push(bytes)
    size += bytes.length
    if (size > answerBytes) break
  }
  return Buffer.concat(chunks).toString('utf8')
}
