// Counts o200k_base tokens in a worker, so that calls do not wait. The worker loads the vocabulary on first use and
// ends when idle, which frees ninety megabytes.

import { Worker } from 'node:worker_threads'
import type { DeliveredTokens, Sample } from '../../conversation/delivered.ts'
import type { PromptMedia, PromptParts } from '../../protocols/request/prompt-parts.ts'
import type { Scheduler } from '../../scheduler/scheduler.ts'

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

function tokensIn(counter: Counter, text: string): Promise<number> {
  return tokensOf(counter, sampleOf([text]))
}

/** The tokens that these samples represent, by kind of text. */
export async function deliveredTokensIn(
  counter: Counter,
  samples: readonly Sample[],
): Promise<DeliveredTokens> {
  const tokens = { output: 0, reasoning: 0 }
  const counts = await Promise.all(samples.map((sample) => tokensIn(counter, sample.text)))
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
