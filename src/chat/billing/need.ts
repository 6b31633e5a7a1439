// How much must be held for a call, and how many tokens an amount pays for. Pure.

import { type ApiKey, type Caller, windowStart } from '../../accounts/account.ts'
import { budgetsOf, type GroupStanding } from '../../accounts/group.ts'
import { isFlash } from '../../catalog/row.ts'
import type { ChatRequest, ContentPart } from '../../conversation/request.ts'
import type { TokenBucket } from '../../conversation/usage.ts'
import type {
  GroupCall,
  HoldAmounts,
  KeyLimit,
  KeySpend,
  LedgerStore,
  RefusedByBudget,
} from '../../credits/ledger/ledger.ts'
import { formatUsd, larger, parseUsd, type Pico, smaller } from '../../credits/money.ts'
import { fundingOf, type Pool } from '../../credits/pool.ts'
import { affordableOutput, type Bound, ceilingOf, highestRates, type Price } from '../../credits/price.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Envelope } from '../../protocols/protocol.ts'
import { leastOutputTokens } from '../../providers/provider.ts'
import type { ChatLimits, IncomingCall, PaidCall } from '../call.ts'
import {
  countingFor,
  measurePrompt,
  promptBound,
  type SharedCounting,
  tokenBound,
} from '../counting/token-counter.ts'
import { type Candidate, heldPriceOf } from '../routing/candidates.ts'
import { unscheduledCharacters } from '../../scheduler/scheduler.ts'

/** More than any model writes within the longest allowed call. */
const longestAnswerTokens = 1_000_000
/** The highest limit to send for a model of which no limit is known: servers refuse one that exceeds their context. */
const usualLongestTokens = 16_384

/** What a call wants to hold, the minimum to start it, and whether the output is bounded. */
export interface Need {
  /** For all that was asked for; for a typical answer if the client set no limit. */
  readonly want: Pico
  readonly least: Pico
  /**
   * For the longest answer that may be written. More than is wanted only if the client set no limit and the answer may
   * be one that cannot be stopped: how much of it is held decides the limit that its provider is sent.
   */
  readonly most: Pico
  /** Held beside what is wanted, if it is there: for what of the prompt nobody knows before its provider. */
  readonly reserve: Pico
  readonly bound: Bound
  /** Whether max_tokens or max_cost bounds the output; otherwise the hold is typical and grows with the stream. */
  readonly bounded: boolean
  /** The client's `max_cost`, picodollars. */
  readonly maxCost: Pico | undefined
}

/**
 * What a call needs that any of `candidates` may serve: the most expensive decides. Throws `invalid_request` if
 * `max_cost` is not an amount of money.
 */
export function needOf(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptTokens: number,
  holdOutputTokens: number,
): Need {
  let modelMost = 0
  let leastSent = 0
  for (const { model, provider } of candidates) {
    modelMost = Math.max(modelMost, model.maxOutputTokens ?? Number.MAX_SAFE_INTEGER)
    leastSent = Math.max(leastSent, leastOutputTokens(provider))
  }
  const asked = envelope.maxOutputTokens
  const perChoice = Math.max(Math.min(asked ?? holdOutputTokens, modelMost), leastSent)
  const { searches } = envelope
  const toolCalls: Bound['toolCalls'] = searches === undefined ? noCalls : { web_search: searches }
  const bound = { promptTokens, outputTokens: perChoice * envelope.n, toolCalls }
  const want = dearest(candidates, bound)
  const isBounded = asked !== undefined && asked <= modelMost
  const most = isBounded ? want : larger(want, longestCost(envelope, candidates, bound))
  // A prompt that only fills a cache needs credit for no token of output; a limit that is sent, for what it allows.
  const fewest = Math.min(perChoice, Math.max(1, leastSent))
  const least = dearest(candidates, { promptTokens, outputTokens: fewest * envelope.n, toolCalls })
  const maxCost = envelope.maxCost === undefined ? undefined : parseUsd(envelope.maxCost)
  if (envelope.maxCost !== undefined && (maxCost === undefined || maxCost <= 0n)) {
    throw new GatewayError('invalid_request', {
      message: 'max_cost must be a positive amount of US dollars as a decimal string, such as "0.05".',
      param: 'max_cost',
    })
  }
  if (maxCost !== undefined && maxCost < least) {
    throw new GatewayError('invalid_request', {
      message: `max_cost does not cover the prompt${searchesInWords(searches)} and ${fewest > 1 ? `${fewest} tokens` : 'one token'} of output.`,
      param: 'max_cost',
      metadata: { least_usd: formatUsd(least) },
    })
  }
  return {
    want: maxCost === undefined ? want : smaller(want, maxCost),
    least,
    most: maxCost === undefined ? most : smaller(most, maxCost),
    reserve: 0n,
    bound,
    bounded: isBounded,
    maxCost,
  }
}

/** The most that an answer without a limit costs at those candidates that cannot be stopped. */
function longestCost(envelope: Envelope, candidates: readonly Candidate[], bound: Bound): Pico {
  let most = 0n
  for (const candidate of candidates) {
    if (canBeStopped(envelope, candidate)) continue
    const outputTokens = longestAnswer(candidate) * envelope.n
    most = larger(most, ceilingOf({ ...bound, outputTokens }, heldPriceOf(candidate)))
  }
  return most
}

/** No answer of the candidate is longer, tokens: what it writes without being sent a limit. */
function longestAnswer({ model: { maxOutputTokens, contextLength } }: Candidate): number {
  return maxOutputTokens ?? contextLength ?? longestAnswerTokens
}

/** A usual context, if the catalog does not know that of a model. */
const usualContext = 200_000
/**
 * What the results of a provider's search put before the model, in this round and again in each that follows: in recorded
 * answers of Anthropic 9,447 tokens for one search, and 401,468 for ten.
 */
const tokensOfSearch = 8_000

/**
 * The need of a prompt that grows, or has parts of unknown size, such as a document or an hour of video by its address:
 * what that may cost is set aside as far as it is there. Otherwise many such calls at once would spend the same credit,
 * which their small bounds leave free.
 */
export function withReserve(
  need: Need,
  { searches = 0 }: Envelope,
  candidates: readonly Candidate[],
  isUnsized: boolean,
): Need {
  if (!isUnsized && searches === 0) return need
  let reserve = 0n
  for (const candidate of candidates) {
    const { model } = candidate
    const context = model.contextLength ?? usualContext
    let tokens = isUnsized ? Math.max(0, context - need.bound.promptTokens) : 0
    for (let search = 1; search <= searches; search++) tokens += Math.min(search * tokensOfSearch, context)
    reserve = larger(reserve, BigInt(tokens) * highestRates(heldPriceOf(candidate), context).input)
  }
  return { ...need, reserve }
}

/**
 * The need with a reserve that its key and its caller can bear. `room`: what is left of the key's spending limit, if it
 * has one. The reserve takes no more than half of that: beside a limit that seems spent no other call of the key is
 * served.
 */
export function withinLimits(need: Need, room: Pico | undefined): Need {
  const { want, reserve, maxCost } = need
  if (reserve === 0n) return need
  const aside = room === undefined ? reserve : smaller(reserve, larger(0n, room - want) / 2n)
  return { ...need, reserve: maxCost === undefined ? aside : smaller(aside, maxCost - want) }
}

/** What is to be held for it, the reserve included. */
export function amountsOf({ least, want, most, reserve, maxCost }: Need): HoldAmounts {
  const highest = most + reserve
  return {
    least,
    want: want + reserve,
    most: maxCost === undefined ? highest : smaller(highest, maxCost),
  }
}

/** Whether this amount pays for the longest answer that was asked for, so that credit does not limit it. */
export function paysForAll(need: Need, amount: Pico): boolean {
  return payableOf(need, amount) >= need.most
}

/** What of a held amount pays for the prompt as far as it is known, and for output: the rest is the reserve. */
function payableOf({ want, reserve }: Need, amount: Pico): Pico {
  return reserve === 0n ? amount : larger(smaller(amount, want), amount - reserve)
}

const noCalls: Bound['toolCalls'] = {}

function searchesInWords(searches: number | undefined): string {
  if (searches === undefined) return ''
  return searches === 1 ? ', one search' : `, ${searches} searches`
}

function dearest(candidates: readonly Candidate[], bound: Bound): Pico {
  let most = 0n
  for (const candidate of candidates) most = larger(most, ceilingOf(bound, heldPriceOf(candidate)))
  return most
}

/** How many output tokens per answer `held` picodollars pay for with one candidate; at least one. */
export function outputWithin(held: Pico, need: Need, price: Price, n: number): number {
  return Math.max(1, Math.floor(affordableOutput(held, need.bound, price) / n))
}

/** The need by the quick bound of the prompt; undefined if that exceeds what the caller has or wants to spend. */
export function quickNeed(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptBound: number,
  holdOutputTokens: number,
  free: Pico,
): Need | undefined {
  // max_cost is left out here: only the exact count may reject it as too low.
  const unbounded = envelope.maxCost === undefined ? envelope : { ...envelope, maxCost: undefined }
  const need = needOf(unbounded, candidates, promptBound, holdOutputTokens)
  if (need.want > free) return undefined
  if (envelope.maxCost === undefined) return need
  const maxCost = parseUsd(envelope.maxCost)
  return maxCost !== undefined && need.want < maxCost ? { ...need, maxCost } : undefined
}

/**
 * Whether an answer can be stopped when its credit ends. Others are limited to what is held for them: whole ones,
 * streams of providers that generate and bill on when they are disconnected, and those of models that reason, since
 * what they think is billed and mostly not shown before the end.
 */
function canBeStopped({ stream }: Envelope, { provider, model }: Candidate): boolean {
  return stream && provider.onDisconnect !== 'drain' && !model.reasoning
}

/** Whether the hold of an answer grows while it is written; any other is held for as a whole before it begins. */
export function growsWithAnswer(
  { bounded, want }: Need,
  amount: Pico,
  envelope: Envelope,
  candidate: Candidate,
): boolean {
  return !bounded && amount >= want && canBeStopped(envelope, candidate)
}

/**
 * The output token limit to send to a candidate; undefined leaves it to the model. What may be written within it, or by
 * the model without it, is paid for by `amount`, the picodollars held: an answer that can be stopped is the only one
 * that may be sent a wider limit, or none, since it is stopped where its hold ends. Never below the lowest that the
 * provider takes, which the least of a hold pays for.
 */
export function outputBound(
  need: Need,
  amount: Pico,
  envelope: Envelope,
  candidate: Candidate,
): number | undefined {
  const bound = outputPaid(need, amount, envelope, candidate)
  return bound === undefined ? undefined : Math.max(bound, leastOutputTokens(candidate.provider))
}

function outputPaid(need: Need, amount: Pico, envelope: Envelope, candidate: Candidate): number | undefined {
  const { n, maxOutputTokens } = envelope
  const { model } = candidate
  const price = heldPriceOf(candidate)
  const longest = longestAnswer(candidate)
  const shortOfCredit = amount < need.want
  const payable = payableOf(need, amount)
  if (need.bounded) {
    // What is wanted pays for all that is asked for, at every candidate.
    if (maxOutputTokens !== undefined && need.maxCost === undefined && !shortOfCredit) return maxOutputTokens
    return Math.min(maxOutputTokens ?? longest, outputWithin(payable, need, price, n))
  }
  const grows = growsWithAnswer(need, amount, envelope, candidate)
  if (grows && need.maxCost === undefined) return undefined
  const bound = outputWithin(grows ? need.maxCost! : payable, need, price, n)
  // Servers refuse a limit that exceeds their context, so one that no answer can reach is not sent.
  if (bound >= longest) return maxOutputTokens === undefined ? undefined : model.maxOutputTokens
  if (model.maxOutputTokens !== undefined || need.maxCost !== undefined) return bound
  const { promptTokens, outputTokens } = need.bound
  const accepted = model.contextLength === undefined ? usualLongestTokens : model.contextLength - promptTokens
  return Math.min(bound, Math.max(accepted, Math.floor(outputTokens / n)))
}

// Which pools may pay for a chat call: the daily allowance only if every candidate is flash class.

/** The pools that may pay, in spending order. One candidate that is not flash class excludes the allowance. */
export async function fundingFor(
  parts: SharedCounting,
  call: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
  candidates: readonly Candidate[],
): Promise<readonly Pool[]> {
  const { channel } = call.caller
  // An API key spends purchased credit only.
  return fundingOf(channel, channel === 'app' && (await isFlashCall(parts, call, candidates)))
}

async function isFlashCall(
  parts: SharedCounting,
  { caller, request, bodyBytes }: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
  candidates: readonly Candidate[],
): Promise<boolean> {
  if (!candidates.every(({ model }) => model.flashClass)) return false
  const dear = candidates.some((candidate) => !isFlash(heldPriceOf(candidate), 0, mediaBuckets))
  const media = dear ? mediaBucketsOf(request.toChatRequest()) : []
  const within = (prompt: number) =>
    candidates.every((candidate) => isFlash(heldPriceOf(candidate), prompt, media))
  if (within(promptBound(request.promptParts, bodyBytes))) return true
  // Counting tokens is only worth it if a shorter prompt would be within the limits.
  const counting = countingFor(parts, caller.account.id)
  return within(0) && within(await tokenBound(counting, request.promptParts, bodyBytes))
}

const sound = ['inputAudio', 'cacheReadAudio'] as const
const mediaBuckets: readonly TokenBucket[] = [...sound, 'inputImage', 'outputAudio', 'outputImage']

/** Buckets other than text that this request can fill. A video has pictures and sound. */
function mediaBucketsOf(request: ChatRequest): readonly TokenBucket[] {
  const used = new Set<TokenBucket>(mediaIn(request).map(({ bucket }) => bucket))
  const parts = request.messages.flatMap(({ content }) => content)
  if (parts.some(({ kind }) => kind === 'image' || kind === 'video')) used.add('inputImage')
  if (used.has('inputAudio') || parts.some(({ kind }) => kind === 'video'))
    for (const bucket of sound) used.add(bucket)
  return [...used]
}

// What a call needs, by the size of its prompt.

interface NeedParts extends SharedCounting {
  readonly limits: ChatLimits
}

/** Counts the prompt only if its quick upper bound exceeds what the caller has or wants to spend. */
export async function needFor(
  parts: NeedParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Promise<Need> {
  const quickly = () => quickNeedOf(parts, call, candidates, free)
  const quick = call.bodyBytes > unscheduledCharacters ? await parts.scheduler.run(quickly) : quickly()
  return quick ?? countedNeed(parts, call, candidates)
}

function quickNeedOf(
  { limits: { holdOutputTokens } }: NeedParts,
  { request: { envelope, promptParts }, bodyBytes }: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Need | undefined {
  const { bound, isUnsized } = measurePrompt(promptParts, bodyBytes)
  const need = quickNeed(envelope, candidates, bound, holdOutputTokens, free)
  return need && withReserve(need, envelope, candidates, isUnsized)
}

async function countedNeed(
  parts: NeedParts,
  call: PaidCall,
  candidates: readonly Candidate[],
): Promise<Need> {
  const { envelope, promptParts } = call.request
  const bound = await tokenBound(countingFor(parts, call.caller.account.id), promptParts, call.bodyBytes)
  const need = needOf(envelope, candidates, bound, parts.limits.holdOutputTokens)
  return withReserve(need, envelope, candidates, measurePrompt(promptParts, call.bodyBytes).isUnsized)
}

// Media that cost more than text must not be sold at the text rate: they are refused if they have no rate.

/**
 * Throws `unsupported_parameter` if the request contains or asks for a medium that the offer has no rate for. A
 * provider that reports the cost of each call needs no rate.
 */
export function refuseUnpricedMedia(request: ChatRequest, { model, offer, provider }: Candidate): void {
  const { unstated } = offer.price
  if (unstated.length === 0 || provider.costFrom !== 'rates') return
  const media = mediaIn(request)
  if (media.length === 0) return
  const used = media.find(({ bucket }) => unstated.includes(bucket))
  if (!used) return
  throw new GatewayError('unsupported_parameter', {
    message:
      `${model.id} has no price for ${used.what} at ${provider.id}, and text costs less. ` +
      `The operator can state one: price.${used.field} of this model in the configuration.`,
    param: used.param,
    metadata: { model: model.id, provider: provider.id },
  })
}

interface MediumUsed {
  readonly bucket: TokenBucket
  readonly what: string
  readonly field: string
  readonly param: string
}

/** Media in the request or asked for that are priced separately. */
function mediaIn({ messages, rest }: ChatRequest): readonly MediumUsed[] {
  const used: MediumUsed[] = []
  for (let at = 0; at < messages.length; at++) {
    const part = messages[at]!.content.findIndex(isAudio)
    if (part < 0) continue
    const param = `messages[${at}].content[${part}]`
    used.push({ bucket: 'inputAudio', what: 'audio input', field: 'input_audio', param })
    break
  }
  const { modalities } = rest
  if (!Array.isArray(modalities)) return used
  for (const { modality, ...output } of outputs)
    if (modalities.includes(modality)) used.push({ ...output, param: 'modalities' })
  return used
}

const outputs = [
  { modality: 'audio', bucket: 'outputAudio', what: 'audio output', field: 'output_audio' },
  { modality: 'image', bucket: 'outputImage', what: 'images in answers', field: 'output_image' },
] as const

/** A file may contain audio: decided by its type if inline, by its name if it is an address. */
function isAudio(part: ContentPart): boolean {
  if (part.kind === 'audio') return true
  if (part.kind !== 'file') return false
  switch (part.source.kind) {
    case 'base64':
      return /^audio\//i.test(part.source.mediaType)
    case 'url':
      return audioName.test(pathOf(part.source.url))
    case 'provider-file':
      return part.filename !== undefined && audioName.test(part.filename)
  }
}

const audioName = /\.(aac|aiff?|flac|m4a|mp3|mpga|oga|ogg|opus|wav|weba)$/i

function pathOf(url: string): string {
  return URL.canParse(url) ? new URL(url).pathname : url
}

// What a caller may spend, for the ledger and for a single call: the limit of its key, and the budgets of its group.

/** The limit in the window that contains `now`; null if the key has none. */
export function keyLimitOf(key: ApiKey | null, now: number): KeyLimit | null {
  if (!key || key.spendLimit === null) return null
  return { limit: key.spendLimit, windowStart: windowStart(key.limitWindow, now) }
}

/** The budgets that a call at `now` spends from; null for a call in no group. */
export function groupCallOf(standing: GroupStanding | null, now: number): GroupCall | null {
  if (standing === null) return null
  const { group, person } = standing
  return { group, person, budgets: budgetsOf(standing, now) }
}

/** What limits leave, picodollars. */
export interface SpendingRoom {
  /** What a call may hold now. */
  readonly free: Pico
  /** What could be held if all calls in flight returned their holds. */
  readonly freeLater: Pico
  /** The error of a call that needs more than `freeLater`: whose limit that is. */
  readonly refusal: 'key_limit_exceeded' | 'budget_exceeded'
}

/** What the key may still spend in its window; undefined if it has no limit. */
export async function keyRoom(
  ledger: Pick<LedgerStore, 'keySpend'>,
  key: ApiKey | null,
  now: number,
): Promise<SpendingRoom | undefined> {
  const limit = keyLimitOf(key, now)
  if (!key || !limit) return undefined
  return roomIn(limit.limit, await ledger.keySpend(key.id, limit.windowStart), 'key_limit_exceeded')
}

/** What the caller may still spend within every limit of its key and its group; undefined if there is none. */
export async function spendingRoom(
  ledger: Pick<LedgerStore, 'keySpend' | 'budgetSpend'>,
  { key, standing }: Pick<Caller, 'key' | 'standing'>,
  now: number,
): Promise<SpendingRoom | undefined> {
  const ofKey = await keyRoom(ledger, key, now)
  const ofGroup = await budgetRoom(ledger, standing, now)
  if (ofKey === undefined || ofGroup === undefined) return ofKey ?? ofGroup
  return tighter(ofKey, ofGroup)
}

/** What every budget on the way up leaves; undefined if there is none. */
export async function budgetRoom(
  ledger: Pick<LedgerStore, 'budgetSpend'>,
  standing: GroupStanding | null,
  now: number,
): Promise<SpendingRoom | undefined> {
  const budgets = groupCallOf(standing, now)?.budgets ?? []
  if (budgets.every(({ limit }) => limit === null)) return undefined
  const spends = await ledger.budgetSpend(budgets)
  let room: SpendingRoom | undefined
  for (const [at, { limit }] of budgets.entries()) {
    if (limit === null) continue
    const left = roomIn(limit, spends[at]!, 'budget_exceeded')
    room = room === undefined ? left : tighter(room, left)
  }
  return room
}

function roomIn(limit: Pico, { spent, held }: KeySpend, refusal: SpendingRoom['refusal']): SpendingRoom {
  const freeLater = larger(limit - spent, 0n)
  return { free: larger(freeLater - held, 0n), freeLater, refusal }
}

function tighter(one: SpendingRoom, other: SpendingRoom): SpendingRoom {
  const { freeLater, refusal } = other.freeLater < one.freeLater ? other : one
  return { free: smaller(one.free, other.free), freeLater, refusal }
}

/** After how long to try again where calls in flight hold what is needed, milliseconds. */
export const reservedMs = 2_000

/**
 * The error of a call that a budget does not cover, which names that: `budget_exceeded`, or `credits_reserved` where only
 * calls in flight stand in its way.
 */
export function budgetRefusal(
  { reason, spent, held, limit, budget }: RefusedByBudget,
  standing: GroupStanding | null,
  metadata: Readonly<Record<string, string>>,
): GatewayError {
  const { scope, windowEnd } = budget
  const [group = scope, person] = scope.split('/')
  const level = standing?.levels.find(({ id }) => id === group)
  const name = level?.name ?? group
  const window = level?.window ?? 'none'
  const resets_at = windowEnd === null ? null : new Date(windowEnd).toISOString()
  const whose =
    person === undefined
      ? `The budget of the group ${name}`
      : `The budget of this person in the group ${name}`
  const time = window === 'none' ? '' : ` for this ${window}`
  const sums = `${formatUsd(spent)} of ${formatUsd(limit)} USD is spent, ${formatUsd(held)} is reserved by calls in flight`
  const end = resets_at === null ? 'it does not begin anew' : `it begins anew at ${resets_at}`
  const what =
    reason === 'budget' ? 'does not cover this call' : 'has room for this call, but others have reserved it'
  const facts = {
    group,
    name,
    of: person === undefined ? 'group' : 'member',
    window,
    limit: formatUsd(limit),
    spent: formatUsd(spent),
    reserved: formatUsd(held),
    resets_at,
  }
  const details = {
    message: `${whose}${time} ${what}: ${sums}; ${end}.`,
    metadata: { ...metadata, resets_at, budget: facts },
  }
  return reason === 'budget'
    ? new GatewayError('budget_exceeded', details)
    : new GatewayError('credits_reserved', { ...details, retryAfterMs: reservedMs })
}
