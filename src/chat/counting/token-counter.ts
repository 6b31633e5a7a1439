// Counts tokens (o200k_base) in a worker, so that calls do not wait; the worker loads the vocabulary on first use and ends
// when idle, which frees ninety megabytes. Below: what the gateway counts itself because the provider did not.

import { Worker } from 'node:worker_threads'
import type { Delivered, DeliveredTokens, Sample } from '../../conversation/delivered.ts'
import type { PromptMedia, PromptParts } from '../../protocols/request/prompt-parts.ts'
import type { Scheduler } from '../../scheduler/scheduler.ts'
import type { Model } from '../../catalog/row.ts'
import {
  bucketsOf,
  completionTokens,
  noUsage,
  promptTokens,
  type Side,
  type Usage,
} from '../../conversation/usage.ts'
import { parseUsd } from '../../credits/money.ts'
import { ceilingOf, type Price } from '../../credits/price.ts'
import type { Provider } from '../../providers/provider.ts'
import type { PaidCall } from '../call.ts'

export interface ToCount {
  readonly job: number
  readonly texts: readonly string[]
}

export interface Counted {
  readonly job: number
  readonly tokens: number
}

/** Counts for one account. */
export interface Counter {
  /** The tokens of all texts together. Never rejects, because charges depend on it. */
  count(texts: readonly string[]): Promise<number>
}

interface Job {
  readonly texts: readonly string[]
  readonly characters: number
  readonly resolve: (tokens: number) => void
}

/** How much the worker has before it at most, characters: what takes it a twentieth of a second. */
const mostAhead = 131_072

/** An idle worker ends after this long, milliseconds. */
const idleMs = 60_000

export class TokenCounter {
  readonly #start: () => Worker
  /** What the worker has before it. */
  readonly #jobs = new Map<number, Job>()
  #ahead = 0
  /** What waits for that, by account, the next one first: nobody's thousand prompts delay the charge of another. */
  readonly #waiting = new Map<string, Job[]>()
  #last = 0
  #worker: Worker | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  /** No worker can be started: this thread counts from now on. */
  #alone = false

  constructor(start: () => Worker = startWorker) {
    this.#start = start
  }

  of(account: string): Counter {
    return { count: (texts) => this.#count(account, texts) }
  }

  #count(account: string, texts: readonly string[]): Promise<number> {
    if (texts.length === 0) return Promise.resolve(0)
    const { promise, resolve } = Promise.withResolvers<number>()
    const characters = texts.reduce((sum, text) => sum + text.length, 0)
    const others = this.#waiting.get(account)
    if (others) others.push({ texts, characters, resolve })
    else this.#waiting.set(account, [{ texts, characters, resolve }])
    clearTimeout(this.#idle)
    this.#send()
    return promise
  }

  /** Gives the worker as much as it should have before it. */
  #send(): void {
    while (!this.#alone && this.#ahead < mostAhead) {
      const job = this.#next()
      if (job === undefined) return
      const id = ++this.#last
      this.#jobs.set(id, job)
      this.#ahead += job.characters
      try {
        this.#running().postMessage({ job: id, texts: job.texts } satisfies ToCount)
      } catch {
        this.#alone = true
      }
    }
    if (this.#alone) void this.#countHere()
  }

  /** The next job that waits, account by account. */
  #next(): Job | undefined {
    const [next] = this.#waiting
    if (next === undefined) return undefined
    const [account, jobs] = next
    const job = jobs.shift()!
    this.#waiting.delete(account)
    if (jobs.length > 0) this.#waiting.set(account, jobs)
    return job
  }

  stop(): void {
    clearTimeout(this.#idle)
    void this.#worker?.terminate()
    this.#worker = undefined
  }

  #running(): Worker {
    if (this.#worker) return this.#worker
    const worker = this.#start()
    worker.on('message', ({ job, tokens }: Counted) => {
      const counted = this.#jobs.get(job)
      this.#jobs.delete(job)
      this.#ahead -= counted?.characters ?? 0
      counted?.resolve(tokens)
      this.#send()
      if (this.#jobs.size > 0) return
      this.#idle = setTimeout(() => this.stop(), idleMs)
      this.#idle.unref()
    })
    worker.on('error', () => {
      this.stop()
      this.#alone = true
      void this.#countHere()
    })
    // A process that exits does not wait for the worker.
    worker.unref()
    this.#worker = worker
    return worker
  }

  async #countHere(): Promise<void> {
    const { countTexts } = await import('./count-texts.ts')
    for (const [job, { texts, resolve }] of this.#jobs) {
      this.#jobs.delete(job)
      resolve(countTexts(texts))
    }
    for (let job = this.#next(); job !== undefined; job = this.#next()) job.resolve(countTexts(job.texts))
  }
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  return new Worker(
    new URL(inSource ? './count-worker.ts' : './chat/counting/count-worker.ts', import.meta.url),
  )
}

// Counts tokens with the o200k_base vocabulary, in the worker: of prompts and of delivered answers.

/** Tokenizers are quadratic on long unbroken runs; slices of this many characters keep the cost linear. */
const sliceCharacters = 512
/** At most this much of one text is counted: about 30 milliseconds of work. */
const countableCharacters = 65_536
/** The running estimate is off by at most this factor, so that is how far the uncounted part is corrected. */
const mostCorrection = 2

/** The slices of a text to be counted, and the length of the whole text in characters. */
interface Sampled {
  readonly slices: readonly string[]
  readonly length: number
}

/** Samples of these texts, joined by line breaks. From long texts evenly spaced slices are taken. */
export function sampleOf(texts: readonly string[]): Sampled {
  const length = texts.reduce((sum, text) => sum + text.length + 1, -1)
  const stride = sliceCharacters * Math.max(1, Math.ceil(length / countableCharacters))
  const slices: string[] = []
  /** The text in which the next slice begins, and the offset of that text. */
  let index = 0
  let begin = 0
  for (let at = 0; at < length; at += stride) {
    while (at > begin + texts[index]!.length) begin += texts[index++]!.length + 1
    // Joining the texts first would copy up to ten megabytes.
    let slice = texts[index]!.slice(at - begin, at - begin + sliceCharacters)
    for (let next = index + 1; slice.length < sliceCharacters && next < texts.length; next++)
      slice += `\n${texts[next]!.slice(0, sliceCharacters)}`
    slices.push(slice.slice(0, sliceCharacters))
  }
  return { slices, length: Math.max(0, length) }
}

/** The tokens of the whole text, extrapolated from its slices. */
async function tokensOf(counter: Counter, { slices, length }: Sampled): Promise<number> {
  const characters = slices.reduce((sum, slice) => sum + slice.length, 0)
  const tokens = await counter.count(slices)
  return characters === 0 ? 0 : Math.ceil((tokens * length) / characters)
}

/** The tokens that these samples represent, by kind of text. */
export async function deliveredTokensIn(
  counter: Counter,
  samples: readonly Sample[],
): Promise<DeliveredTokens> {
  const tokens = { output: 0, reasoning: 0 }
  const counts = await Promise.all(samples.map((sample) => tokensOf(counter, sampleOf([sample.text]))))
  for (const [at, { kind, textTokens, allTokens }] of samples.entries()) {
    const counted = counts[at]!
    const correction = textTokens > 0 ? counted / textTokens : 1
    const rest = Math.max(0, allTokens - textTokens)
    tokens[kind] += counted + Math.round(rest * Math.min(mostCorrection, correction))
  }
  return tokens
}

// The largest number of tokens a prompt can have, before any provider has counted it.

/** Upper figures for media, whose size in bytes says little about their tokens. */
const imageTokens = 6_000
const bytesPerToken = { audio: 100, file: 4 } as const

/** The densest tokenizers in use make about this many tokens per o200k_base token. */
const tokenizerMargin = 1.6
/** Roles, separators and whatever a provider adds around messages and tools. */
const overheadTokens = 200

/**
 * An upper bound of the prompt's tokens: a token is at least one byte, so the length of the JSON bounds the text.
 * Inline media are bounded separately, because their base64 would count a thousand times too much.
 */
export function promptBound(prompt: PromptParts, bodyBytes: number): number {
  return measurePrompt(prompt, bodyBytes).bound
}

/** The same, and whether it holds: of some parts only the provider knows the size. */
export function measurePrompt(
  prompt: PromptParts,
  bodyBytes: number,
): { readonly bound: number; readonly isUnsized: boolean } {
  const media = prompt.media()
  return { bound: boundOf(media, bodyBytes), isUnsized: media.unsized > 0 }
}

function boundOf(media: PromptMedia, bodyBytes: number): number {
  return Math.max(0, bodyBytes - media.inlineLength) + mediaTokens(media)
}

/** A guess of the prompt's tokens: four bytes of text per token, the average for English. */
export function promptGuess(prompt: PromptParts, bodyBytes: number): number {
  const media = prompt.media()
  const textBytes = Math.max(0, bodyBytes - media.inlineLength)
  return Math.ceil(textBytes / 4) + Math.ceil(mediaTokens(media) / 4)
}

export interface CountingParts {
  readonly counter: Counter
  readonly scheduler: Pick<Scheduler, 'run'>
}

/** What counts for all accounts, which take turns. */
export interface SharedCounting {
  readonly counter: Pick<TokenCounter, 'of'>
  readonly scheduler: CountingParts['scheduler']
}

export function countingFor({ counter, scheduler }: SharedCounting, account: string): CountingParts {
  return { counter: counter.of(account), scheduler }
}

/** A tighter upper bound, by counting tokens: used if the quick bound exceeds the caller's credit. */
export async function tokenBound(
  { counter, scheduler }: CountingParts,
  prompt: PromptParts,
  bodyBytes: number,
): Promise<number> {
  const { content, sampled } = await scheduler.run(() => {
    const all = prompt.content()
    return { content: all, sampled: sampleOf(all.texts) }
  })
  const counted = Math.ceil((await tokensOf(counter, sampled)) * tokenizerMargin)
  const apart = mediaTokens(content) + content.tokenIds
  return Math.min(counted + overheadTokens + apart, boundOf(content, bodyBytes))
}

/**
 * The prompt's tokens as exactly as possible without the provider, for an answer that it did not count: everything the
 * model reads, plus the few tokens that chat formats add around each message.
 */
export async function promptCount(
  { counter, scheduler }: CountingParts,
  prompt: PromptParts,
): Promise<number> {
  const { sampled, messages, content } = await scheduler.run(() => {
    const reading = prompt.reading()
    return { ...reading, sampled: sampleOf(reading.texts) }
  })
  const framing = messages === 0 ? 0 : messages * tokensPerMessage + tokensPerPrompt
  return (await tokensOf(counter, sampled)) + framing + Math.ceil(mediaTokens(content) / 4) + content.tokenIds
}

/** ChatML's own tokens as OpenAI counts them: around each message, and before the answer. */
const tokensPerMessage = 3
const tokensPerPrompt = 3

function mediaTokens({ images, files }: PromptMedia): number {
  const ofFiles = files.reduce((sum, { kind, bytes }) => sum + Math.ceil(bytes / bytesPerToken[kind]), 0)
  return images * imageTokens + ofFiles
}

// What the gateway counts itself because the provider did not.

/** Token counts for the sides of a call that the provider did not count; nothing for the others. */
export interface OwnCount {
  readonly prompt: number
  /** The output: the provider's last count plus our count of what came after it. */
  readonly output: DeliveredTokens
}

const nothing: OwnCount = { prompt: 0, output: { output: 0, reasoning: 0 } }

/** The sides of a call that have to be counted here. */
type UncountedSides = Readonly<Record<'prompt' | 'output', boolean>>

const countedByProvider: UncountedSides = { prompt: false, output: false }

type Sized = Pick<PaidCall, 'request' | 'bodyBytes'>

/** What is known of an answer when it is charged. */
export interface Answered {
  /** The provider's count. */
  readonly usage: Usage | undefined
  /** The answer ended properly, so the provider's count is final. */
  readonly complete: boolean
  readonly delivered: Delivered
  /** The count had something that the provider cannot have meant, and `usage` is without it. */
  readonly doubted?: boolean
}

/**
 * Which sides we have to count: those that a final count leaves out. Without a final count: the output, and the prompt
 * unless it was counted early.
 */
export function uncountedSides({ usage, complete }: Pick<Answered, 'usage' | 'complete'>): UncountedSides {
  if (!complete || usage === undefined) return { prompt: promptTokens(usage ?? noUsage) === 0, output: true }
  const { uncounted } = usage
  if (uncounted === undefined) return countedByProvider
  return { prompt: uncounted.includes('prompt'), output: uncounted.includes('completion') }
}

/** Counts with the vocabulary, in the worker, for a charge; at once if there is nothing to count. Never rejects. */
export async function exactCount(parts: CountingParts, call: Sized, answered: Answered): Promise<OwnCount> {
  const sides = uncountedSides(answered)
  if (!sides.prompt && !sides.output) return nothing
  const [prompt, output] = await Promise.all([
    sides.prompt ? promptCount(parts, call.request.promptParts) : nothing.prompt,
    sides.output ? exactOutput(parts.counter, answered) : nothing.output,
  ])
  return { prompt, output }
}

/** Counts by the length of the prompt and the running estimate of the output, while the stream runs. */
export function roughCount(call: Sized, answered: Answered): OwnCount {
  const sides = uncountedSides(answered)
  return {
    prompt: sides.prompt ? promptGuess(call.request.promptParts, call.bodyBytes) : nothing.prompt,
    output: sides.output ? roughOutput(answered) : nothing.output,
  }
}

async function exactOutput(counter: Counter, answered: Answered): Promise<DeliveredTokens> {
  const since = sinceOf(answered)
  return whole(answered, await deliveredTokensIn(counter, answered.delivered.samples(since)))
}

/** The output of a running stream by the running estimate. */
export function roughOutput(answered: Pick<Answered, 'usage' | 'delivered'>): DeliveredTokens {
  return whole(answered, answered.delivered.running(sinceOf(answered)))
}

function sinceOf({ usage }: Pick<Answered, 'usage'>): 'start' | 'count' {
  return usage !== undefined && completionTokens(usage) > 0 ? 'count' : 'start'
}

function whole(answered: Pick<Answered, 'usage' | 'delivered'>, since: DeliveredTokens): DeliveredTokens {
  const { delivered } = answered
  const tokens = sinceOf(answered) === 'count' ? delivered.withCounted(since) : since
  const reasoning = Math.round(tokens.reasoning)
  // Output that cannot be read as text was served too.
  const least = delivered.any && reasoning === 0 ? 1 : 0
  return { output: Math.max(Math.round(tokens.output), least), reasoning }
}

// Whether a provider's count is plausible for what was asked and answered. A broken counter (bytes, nanoseconds, 10^30)
// must not empty an account, and one that says nothing must not give an answer away.

/** Used if the catalog does not know the model's context length. */
const largestContext = 2_000_000
/** Used if nobody knows the limit of an answer: more than any model writes within the longest allowed call. */
const longestAnswer = 1_000_000
/** A provider that runs its own tools counts the context again in each round, and may make more calls than asked for. */
const roundsCounted = 10
/** Calls of one such tool where a model always uses it: the longest research makes a few hundred. */
const mostToolCalls = 1_000
/** For a provider's tokenizer, and for what it puts around a prompt: instructions of its own, a format, rules for tools. */
const promptMargin = 4
const promptAround = 20_000
/** The prompt of a round that a provider has made though nobody asked for tools, and how many of those are believed. */
const promptOfRound = 50_000
const mostUnaskedRounds = 10
/** For where a provider stops: the end of a word or call, or the least limit that it takes. */
const answerMargin = 1.5
const answerAround = 32
/** An answer without a limit may exceed what the catalog says of its model. */
const catalogMargin = 4
/** Thoughts and media of one answer, which some providers do not count against its limit. */
const besideAnswer = 32_768
/** Resellers choose a host for each call, which may be dearer than the catalog says. */
const costMargin = 2n
/** Picodollars per token that no model on the market costs: bounds a reported cost where the catalog has no price. */
const dearest = { input: 200_000_000n, output: 800_000_000n }

/** The offer that counts. */
export interface CountedOffer {
  readonly model: Pick<Model, 'contextLength' | 'maxOutputTokens' | 'reasoning' | 'outputModalities'>
  readonly offer: { readonly price: Price }
  readonly provider: Pick<Provider, 'costFrom'>
}

/** The request that it counts. */
export interface AskedRequest {
  /** An upper bound of the prompt. */
  readonly promptTokens: number
  /** Whether that bound does not hold: of some parts only the provider knows the size. */
  isUnsized(): boolean
  /** The limit of one answer as it was sent; undefined without one. */
  outputTokens(): number | undefined
  readonly choices: number
  /** The provider's own searches that were asked for; undefined where none were. */
  readonly searches: number | undefined
}

/** The most that a provider can have meant. */
interface Bounds {
  readonly prompt: number
  /** What counts against the limit of an answer, over all choices. */
  readonly answer: number
  /** What may be beside it. */
  readonly beside: number
  /** Calls of each tool. */
  readonly calls: number
}

/** The same of an answer whose thoughts are known. */
interface Most {
  readonly prompt: number
  readonly completion: number
  readonly calls: number
}

/**
 * The usage without what the provider cannot have meant: a side beyond what was asked becomes uncounted, calls of tools
 * beyond it become none, and a bill or a cost that no such usage comes to is dropped. Returns the same object if all of
 * it is plausible.
 */
export function credibleUsage(reported: Usage, offer: CountedOffer, asked: AskedRequest): Usage {
  const within = usageWithin(reported, boundsOf(offer, asked, false), offer)
  if (within === reported || !asked.isUnsized()) return within
  return usageWithin(reported, boundsOf(offer, asked, true), offer)
}

function boundsOf(
  { model, offer: { price } }: CountedOffer,
  asked: AskedRequest,
  isUnsized: boolean,
): Bounds {
  const { choices, searches } = asked
  // Models whose every request is priced search, asked for or not.
  const usesTools = searches !== undefined || price.perRequest > 0n
  const rounds = usesTools ? roundsCounted : 1
  const context = model.contextLength ?? largestContext
  return {
    prompt:
      usesTools || isUnsized
        ? context * roundsCounted * choices
        : asked.promptTokens * promptMargin + promptAround,
    answer: answerBound(model, asked) * choices * rounds,
    beside: besideAnswer * choices * rounds,
    calls: usesTools ? (searches === undefined ? mostToolCalls : searches * roundsCounted) * choices : 0,
  }
}

function answerBound(model: CountedOffer['model'], asked: AskedRequest): number {
  if (model.outputModalities.includes('embeddings')) return answerAround
  const limit = asked.outputTokens()
  if (limit !== undefined) return limit * answerMargin + answerAround
  return Math.min(
    (model.maxOutputTokens ?? model.contextLength ?? longestAnswer) * catalogMargin,
    longestAnswer,
  )
}

function usageWithin(reported: Usage, bounds: Bounds, { model, offer, provider }: CountedOffer): Usage {
  const wrong: Side[] = []
  const { reasoning, outputAudio, outputImage } = reported
  const countedBeside = reasoning + outputAudio + outputImage
  const most: Most = {
    prompt: Math.ceil(bounds.prompt + unaskedRounds(reported) * promptOfRound),
    // What a model thinks need not be counted apart.
    completion: Math.ceil(
      bounds.answer + (model.reasoning ? bounds.beside : Math.min(bounds.beside, countedBeside)),
    ),
    calls: bounds.calls,
  }
  if (promptTokens(reported) > most.prompt) wrong.push('prompt')
  if (completionTokens(reported) > most.completion) wrong.push('completion')
  let usage = wrong.length === 0 ? reported : withoutSides(reported, wrong)
  if (anyAbove(usage.toolCalls, most.calls)) usage = { ...usage, toolCalls: noUsage.toolCalls }
  if (usage.billed !== undefined && !canBeBilled(usage.billed, most)) usage = withoutBill(usage)
  const isCharged = provider.costFrom === 'reported' && usage.reportedCost !== undefined
  if (isCharged && !canCost(usage.reportedCost, most, offer.price))
    usage = { ...usage, reportedCost: undefined }
  return usage
}

function unaskedRounds({ rounds = 0, toolCalls }: Usage): number {
  let made = rounds
  for (const name in toolCalls) made += toolCalls[name]!
  return Math.min(made, mostUnaskedRounds)
}

/**
 * The final usage of an answer without what cannot be none: a request has a prompt, and text has tokens. Such a side
 * becomes uncounted. Returns the same object if there is no such side.
 */
export function withoutSilence(usage: Usage, delivered: Delivered): Usage {
  const silent: Side[] = []
  if (promptTokens(usage) === 0) silent.push('prompt')
  if (isTooLittle(completionTokens(usage), delivered)) silent.push('completion')
  const billed = usage.billed && { ...noUsage, ...usage.billed }
  const isUnbilled = billed !== undefined && isTooLittle(completionTokens(billed), delivered)
  if (silent.every((side) => usage.uncounted?.includes(side)) && !isUnbilled) return usage
  const heard = isUnbilled ? withoutBill(usage) : usage
  if (silent.length === 0) return heard
  const saysNothing = silent.includes('completion') && parseUsd(usage.reportedCost ?? '') === 0n
  return { ...withoutSides(heard, silent), ...(saysNothing ? { reportedCost: undefined } : {}) }
}

/** A token has fewer characters than this, if there are words in it. */
const longestToken = 64
/** And fewer words than this: most tokenizers make at least one token of each. */
const wordsInToken = 8
/** So many are counted in a few milliseconds. A provider that counts more tokens than these make is believed. */
const mostWordsCounted = 100_000

/** Whether so few tokens cannot be what was delivered. Text without words, such as an image as text, may have few. */
function isTooLittle(tokens: number, delivered: Delivered): boolean {
  const { characters } = delivered
  if (tokens === 0) return characters > 0
  const most = tokens * wordsInToken
  if (tokens * longestToken >= characters || most >= mostWordsCounted) return false
  return delivered.wordsUpTo(most + 1) > most
}

function withoutSides(usage: Usage, sides: readonly Side[]): Usage {
  const none = Object.fromEntries(sides.flatMap((side) => bucketsOf[side]).map((bucket) => [bucket, 0]))
  return { ...usage, ...none, uncounted: [...new Set([...(usage.uncounted ?? []), ...sides])] }
}

function withoutBill({ billed: _, ...usage }: Usage): Usage {
  return usage
}

function anyAbove(counts: Readonly<Record<string, number>>, most: number): boolean {
  for (const name in counts) if (counts[name]! > most) return true
  return false
}

function canBeBilled(billed: NonNullable<Usage['billed']>, most: Most): boolean {
  const usage = { ...noUsage, ...billed }
  return promptTokens(usage) <= most.prompt && completionTokens(usage) <= most.completion
}

/** Whether usage within these bounds can cost that much, at this price or near it. */
function canCost(reportedUsd: string | undefined, most: Most, price: Price): boolean {
  const cost = parseUsd(reportedUsd ?? '')
  if (cost === undefined) return true
  const { prompt: promptTokens, completion: outputTokens, calls } = most
  const toolCalls = Object.fromEntries(Object.keys(price.perCall).map((name) => [name, calls]))
  const ceiling = ceilingOf({ promptTokens, outputTokens, toolCalls }, price)
  if (ceiling > 0n) return cost <= ceiling * costMargin
  return cost <= BigInt(promptTokens) * dearest.input + BigInt(outputTokens) * dearest.output
}
