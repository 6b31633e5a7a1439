// One cheap call to a provider, with each of its keys, that is charged to no account: whoever runs the gateway pays the
// provider for it. It goes around routing and health, and neither uses nor changes them.

import { type Catalog, localModels } from '../../catalog/catalog.ts'
import type { CatalogFile, Model } from '../../catalog/row.ts'
import { type Config, secretsOf } from '../../config/config.ts'
import { type ChatResult, collect, type Fault, type FaultKind } from '../../conversation/event.ts'
import type { ChatRequest } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import { chargeOf } from '../../chat/billing/charge.ts'
import { larger, type Pico } from '../../credits/money.ts'
import { type Price, priceOfNothing } from '../../credits/price.ts'
import { GatewayError } from '../../errors/errors.ts'
import { secretFilter } from '../../observe/log.ts'
import { parseJson } from '../../protocols/lenient.ts'
import type { Outbound, Target } from '../../protocols/protocol.ts'
import { outbounds } from '../../protocols/registry.ts'
import { modelsOf } from '../../providers/local-servers.ts'
import {
  type ConfiguredProvider,
  configureProviders,
  type Provider,
  withDialect,
} from '../../providers/provider.ts'
import { providerById, providers as registry } from '../../providers/registry.ts'
import { UnreachableError, Upstream } from '../../providers/upstream.ts'
import { catalogInUse } from './catalog.ts'

/** What keeps a provider from answering, for scripts. */
export type TestProblem =
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

/** What a call came to, or why none could be made. No text in it holds a secret of the configuration. */
export type TestOutcome =
  | {
      readonly kind: 'answered'
      readonly text: string
      /** Undefined if the provider has not counted. */
      readonly usage: Usage | undefined
      /** What the provider bills by the catalog's price or its own word; undefined without a price or a count. */
      readonly cost: Pico | undefined
    }
  | { readonly kind: 'bad'; readonly problem: TestProblem; readonly detail: string }

export interface TestedCall {
  readonly provider: string
  /** The model's id here and its name there; undefined where no call was made. */
  readonly model: string | undefined
  readonly upstream: string | undefined
  /** Which of the provider's keys, from 1; undefined where no call was made. */
  readonly key: number | undefined
  readonly region: string | undefined
  /** Until the whole answer was read, or the failure was known. */
  readonly ms: number | undefined
  readonly outcome: TestOutcome
}

/** The calls of one test, and how many keys or models were left out for being too many. */
export interface ProviderTest {
  readonly calls: readonly TestedCall[]
  readonly leftOut: number
}

/** What is tested: a configuration, which need not be the one in force, with its catalog. */
export interface TestSubject {
  readonly config: Config
  readonly catalog: Catalog
  readonly file: CatalogFile
  /** Milliseconds since 1970. */
  readonly clock: () => number
}

/** The smallest limit that all models accept. */
const outputTokens = 16
const longestWaitMs = 60_000
/** Enough for an answer of that many tokens with reasoning; a longer body is not read to its end. */
const answerBytes = 1_000_000
/** The maximum length of a quoted provider message, characters. */
const quotedCharacters = 300
/** The most of an answer that is shown: a provider need not keep to the limit of tokens. */
const shownCharacters = 2_000
/** The most calls of one test. */
const mostCalls = 8

/**
 * Calls a provider once with each of its keys: `model` of it, by its id or as `<provider>/<name there>`, else its
 * cheapest chat model. The provider is known to the registry or configured. Never rejects because of the provider.
 */
export async function testProvider(subject: TestSubject, id: string, model?: string): Promise<ProviderTest> {
  const provider = usableProvider(subject.config, id)
  if (!('keys' in provider)) return noCall(id, provider)
  const choice =
    model === undefined ? await cheapestModel(subject, provider) : choiceOf(subject, provider, model)
  if (choice === undefined) {
    const detail =
      model === undefined
        ? `the catalog has no chat model of it: add one under models, such as ${id}/<name>`
        : `${model} is no model of it`
    return noCall(id, wrong('no_model', detail))
  }
  const keys = keysOf(provider)
  const tested = keys.slice(0, mostCalls)
  return {
    calls: await Promise.all(tested.map((key) => callModel(subject, key, choice))),
    leftOut: keys.length - tested.length,
  }
}

/**
 * Calls a model once: at its first offer that can be called now, with the first key; of a route every member. Throws
 * what `catalog.resolve` throws.
 */
export async function testModel(subject: TestSubject, id: string): Promise<ProviderTest> {
  const members = leavesOf(subject.catalog, subject.catalog.resolve(id), new Set())
  const tested = members.slice(0, mostCalls)
  return {
    calls: (await Promise.all(tested.map((model) => callFirstOffer(subject, model)))).flat(),
    leftOut: members.length - tested.length,
  }
}

/** The models that a route leads to, each once; a model that is no route leads to itself. */
function leavesOf(catalog: Catalog, model: Model, seen: Set<string>): readonly Model[] {
  if (seen.has(model.id)) return []
  seen.add(model.id)
  if (model.route === undefined) return [model]
  return model.route.members.flatMap(({ id }) => {
    const member = catalog.member(id)
    return member === undefined ? [] : leavesOf(catalog, member, seen)
  })
}

async function callFirstOffer(subject: TestSubject, model: Model): Promise<readonly TestedCall[]> {
  const found = model.offers.map(({ provider }) => usableProvider(subject.config, provider))
  const at = Math.max(
    0,
    found.findIndex((provider) => 'keys' in provider),
  )
  const { provider: id } = model.offers[at]!
  const provider = found[at]!
  if (!('keys' in provider)) return noCall(id, provider, model.id).calls
  if (!model.outputModalities.includes('text'))
    return noCall(id, wrong('no_model', 'it is no chat model, and is not called here'), model.id).calls
  return [await callModel(subject, keysOf(provider)[0]!, choiceFrom(model, id))]
}

/** The provider, ready to be called, or what it lacks. */
function usableProvider(
  { providers }: Config,
  id: string,
): ConfiguredProvider | Extract<TestOutcome, { kind: 'bad' }> {
  const row = providerById(id)
  const settings = providers[id]
  if (settings?.disabled) return wrong('disabled', `it is taken out of service: providers.${id}.disabled`)
  const keys = [settings?.api_key ?? [], ...(settings?.deployments ?? []).map(({ api_key }) => api_key)]
  if (row && row.auth.kind !== 'none' && keys.every(({ length }) => length === 0))
    return wrong('no_key', `no key: set ${keyNames(row)} or providers.${id}.api_key`)
  return (
    configureProviders(registry, providers, new Set([id])).get(id) ??
    wrong('no_address', `it has no address: set providers.${id}.base_url`)
  )
}

/** The environment variables for a provider's key, for people. */
export function keyNames({ auth }: Provider): string {
  return auth.kind === 'none' ? 'needs none' : auth.env.join(' or ')
}

/** One key of a provider, with the provider as its deployment has it. */
interface NumberedKey {
  readonly provider: ConfiguredProvider
  readonly key: string | undefined
  readonly number: number
}

function keysOf(provider: ConfiguredProvider): readonly NumberedKey[] {
  return (provider.deployments ?? [provider]).flatMap((deployment) =>
    deployment.keys.map((key, at) => ({
      provider: deployment,
      key,
      number: (deployment.deployment?.firstKey ?? 0) + at + 1,
    })),
  )
}

interface Choice {
  readonly id: string
  readonly upstream: string
  readonly reasoning: boolean
  readonly maxOutputTokens: number | undefined
  /** Undefined where nobody has said what it costs. */
  readonly price: Price | undefined
}

function choiceFrom(model: Model, provider: string): Choice {
  const { upstream, price } = model.offers.find((offer) => offer.provider === provider)!
  const { id, reasoning, maxOutputTokens } = model
  return { id, upstream, reasoning, maxOutputTokens, price }
}

/** A model that was named: of the catalog, or one that the provider may have and nobody has entered yet. */
function choiceOf({ catalog }: TestSubject, { id }: ConfiguredProvider, named: string): Choice | undefined {
  const model = catalog.find(named)
  if (model?.offers.some((offer) => offer.provider === id)) return choiceFrom(model, id)
  const upstream = named.startsWith(`${id}/`) ? named.slice(id.length + 1) : ''
  if (upstream === '') return undefined
  return { id: named, upstream, reasoning: false, maxOutputTokens: undefined, price: undefined }
}

/** The cheapest chat model of the provider; if the catalog has none, one that its server lists. */
async function cheapestModel(
  subject: TestSubject,
  provider: ConfiguredProvider,
): Promise<Choice | undefined> {
  const { config, catalog, file, clock } = subject
  const { id } = provider
  const known =
    provider.testModel === undefined
      ? cheapest(catalog, id)
      : choiceOf(subject, provider, `${id}/${provider.testModel}`)
  if (known) return known
  const listed = await modelsOf(provider, config.local_servers.timeout_ms)
  if (listed.kind !== 'models') return undefined
  const today = new Date(clock()).toISOString().slice(0, 10)
  const found = cheapest(catalogInUse(config, clock, localModels(id, listed.models, today), file), id)
  // What somebody else's server lists is not free because nobody has said what it costs.
  return found && { ...found, price: provider.local ? found.price : undefined }
}

function cheapest(catalog: Catalog, provider: string): Choice | undefined {
  const chats = catalog
    .list({ provider })
    .filter(({ outputModalities }) => outputModalities.length === 1 && outputModalities[0] === 'text')
    .flatMap((model) => (model.route === undefined ? [choiceFrom(model, provider)] : []))
    .map((choice) => ({ choice, cost: usualCost(choice.price!) }))
    .toSorted((a, b) => (a.cost < b.cost ? -1 : a.cost > b.cost ? 1 : 0))
  return chats[0]?.choice
}

function usualCost({ rates, perRequest }: Price): Pico {
  return rates.input + BigInt(outputTokens) * larger(rates.output, rates.reasoning) + perRequest
}

function noCall(provider: string, outcome: TestOutcome, model?: string): ProviderTest {
  const call = { provider, model, upstream: undefined, key: undefined, region: undefined, ms: undefined }
  return { calls: [{ ...call, outcome }], leftOut: 0 }
}

async function callModel(
  { config }: TestSubject,
  { provider: row, key, number }: NumberedKey,
  model: Choice,
): Promise<TestedCall> {
  const began = performance.now()
  const ended = await outcomeOf(config, withDialect(row, model.upstream), key, model)
  const ms = Math.round(performance.now() - began)
  const known = secretFilter(secretsOf(config))
  // The filter leaves short secrets alone, which are words elsewhere; a key is not.
  const hide = (text: string) => known(key ? text.replaceAll(key, '***') : text)
  return {
    provider: row.id,
    model: model.id,
    upstream: model.upstream,
    key: number,
    region: row.deployment?.region,
    ms,
    outcome:
      ended.kind === 'answered'
        ? { ...ended, text: hide(ended.text).slice(0, shownCharacters) }
        : { ...ended, detail: hide(ended.detail) },
  }
}

const wrong = (problem: TestProblem, detail: string) => ({ kind: 'bad', problem, detail }) as const

async function outcomeOf(
  config: Config,
  provider: ConfiguredProvider,
  key: string | undefined,
  model: Choice,
): Promise<TestOutcome> {
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
    const lowered = outbound.lower(question, target)
    const { connect_ms: connectMs } = config.timeouts
    const body = JSON.stringify(lowered.body)
    const response = await new Upstream().send({ ...lowered, body, provider, key, abort, connectMs })
    return read(response, await textOf(response), provider, outbound, target, model.price)
  } catch (error) {
    if (abort.signal.aborted && !(error instanceof UnreachableError))
      return wrong('timeout', `no answer from ${provider.baseUrl} within ${waitMs / 1000} s`)
    return endedByError(error, provider)
  } finally {
    clearTimeout(timer)
    abort.abort()
  }
}

const question: ChatRequest = {
  messages: [{ role: 'user', content: [{ kind: 'text', text: 'Say yes.', cache: undefined }] }],
  tools: [],
  toolChoice: undefined,
  parallelToolCalls: undefined,
  maxOutputTokens: outputTokens,
  sampling: {},
  reasoning: undefined,
  responseFormat: undefined,
  stream: false,
  labels: {},
  rest: {},
}

function read(
  response: Response,
  text: string,
  provider: ConfiguredProvider,
  outbound: Outbound,
  target: Target,
  price: Price | undefined,
): TestOutcome {
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
  return answerOf(result, provider, price)
}

/** Nothing is counted here: where the provider has not, the cost is not known. */
const countedByProvider = { prompt: 0, output: { output: 0, reasoning: 0 } }

function answerOf(
  { choices, usage }: ChatResult,
  { costFrom }: ConfiguredProvider,
  price: Price | undefined,
): TestOutcome {
  const text = choices.map((choice) => choice.text ?? choice.refusal ?? '').join('')
  if (usage === undefined) return { kind: 'answered', text, usage, cost: undefined }
  const isReported = costFrom === 'reported' && usage.reportedCost !== undefined
  const isKnown = isReported || (price !== undefined && usage.uncounted === undefined)
  const charge = () =>
    chargeOf({ usage, complete: true }, countedByProvider, price ?? priceOfNothing(''), costFrom)
  const cost = isKnown ? charge().cost.total : undefined
  return { kind: 'answered', text, usage, cost }
}

const problems: Readonly<Record<FaultKind, readonly [TestProblem, (model: string) => string]>> = {
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

function faulty(fault: Fault, model: string): TestOutcome {
  const [problem, says] = problems[fault.kind]
  const status = fault.status === undefined ? '' : ` (HTTP ${fault.status})`
  return wrong(problem, `${says(model)}${status}: ${quoteFault(fault)}`)
}

function endedByError(error: unknown, provider: ConfiguredProvider): TestOutcome {
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
  return wrong('failing', 'its answer cannot be read')
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
