// Answers that are given again. A call that asks for it (`cache: {ttl}`) and would send a provider what its account has
// sent before gets what came of that, for nothing: the same bytes are read anew, whatever protocol its client speaks.

import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { priceOfNothing } from '../../credits/price.ts'
import type { CachedAnswer, Candidate } from '../routing/candidates.ts'

/** What a provider is sent. */
interface KeyedRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The name of the provider of such answers, for receipts and headers. */
const cacheProvider = 'cache'

const price = priceOfNothing('pv_cache')

/** One answer may take so much of all that is kept. */
const shareOfOne = 1 / 8
/** What an answer takes beside its bytes. */
const aroundBytes = 512

/** All that is kept, of all accounts; each finds its own alone. What was not asked for longest goes first. */
export class AnswerCache {
  readonly #answers: LRUCache<string, CachedAnswer> | undefined
  readonly #now: () => number
  readonly #most: number

  /** `maxBytes`: what all may take together; 0 for none. `now`: milliseconds since 1970. */
  constructor(maxBytes: number, now: () => number) {
    this.#now = now
    this.#most = Math.floor(maxBytes * shareOfOne)
    this.#answers =
      maxBytes === 0
        ? undefined
        : new LRUCache({
            maxSize: maxBytes,
            sizeCalculation: ({ bytes }) => bytes.length + aroundBytes,
          })
  }

  /** The share of one call, whose answer may be `ttlMs` old; undefined where nothing is kept. */
  forCall(account: string, call: string, ttlMs: number): CallCache | undefined {
    const answers = this.#answers
    if (answers === undefined || ttlMs <= 0) return undefined
    return new CallCache({ account, call, ttlMs, most: this.#most, now: this.#now, answers })
  }
}

interface Recorded {
  readonly key: string
  readonly contentType: string
  readonly pieces: Uint8Array[]
}

interface CallOf {
  readonly account: string
  readonly call: string
  readonly ttlMs: number
  readonly most: number
  readonly now: () => number
  readonly answers: LRUCache<string, CachedAnswer>
}

/** Looks for the answer to one call, or takes down the one that comes. */
export class CallCache {
  readonly #of: CallOf
  #recorded: Recorded | undefined
  #size = 0
  /** The request that was looked for, and its name. */
  #sought: { readonly lowered: KeyedRequest; readonly key: string } | undefined

  constructor(of: CallOf) {
    this.#of = of
  }

  /** The candidate, or one that gives the kept answer again and costs nothing. */
  servedBy(candidate: Candidate, lowered: KeyedRequest): Candidate {
    const { answers, ttlMs, now } = this.#of
    // Of an attempt that failed.
    this.#recorded = undefined
    const key = keyOf(this.#of.account, candidate, lowered)
    this.#sought = { lowered, key }
    const cached = answers.get(key)
    if (cached === undefined || now() - cached.at > ttlMs) return candidate
    const { serviceTier: _, ...plain } = candidate
    return {
      ...plain,
      offer: { ...candidate.offer, price },
      provider: { ...candidate.provider, id: cacheProvider, costFrom: 'rates' },
      cached,
    }
  }

  /** The answer of a provider, which is taken down while it is read. */
  record(response: Response, lowered: KeyedRequest): Response {
    const sought = this.#sought
    if (!response.ok || response.body === null) return response
    if (sought?.lowered !== lowered) return response
    const recorded: Recorded = {
      key: sought.key,
      contentType: response.headers.get('content-type') ?? 'application/json',
      pieces: [],
    }
    this.#recorded = recorded
    this.#size = 0
    const body = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform: (piece, controller) => {
          this.#add(recorded, piece)
          controller.enqueue(piece)
        },
      }),
    )
    const { status, headers } = response
    return new Response(body, { status, headers })
  }

  /** The call has come to its end: its answer may be given again. */
  keep(): void {
    const recorded = this.#recorded
    this.#recorded = undefined
    if (recorded === undefined) return
    const { answers, call, now } = this.#of
    const { key, contentType, pieces } = recorded
    answers.set(key, { call, contentType, bytes: Buffer.concat(pieces), at: now() })
  }

  #add(recorded: Recorded, piece: Uint8Array): void {
    if (this.#recorded !== recorded) return
    this.#size += piece.length
    if (this.#size > this.#of.most) this.#recorded = undefined
    else recorded.pieces.push(piece)
  }
}

/** Everything that an answer depends on: whose it is, who is asked, and what. */
function keyOf(
  account: string,
  { provider, offer }: Candidate,
  { path, headers, body }: KeyedRequest,
): string {
  const about = JSON.stringify([account, provider.id, provider.baseUrl, offer.upstream, path, headers])
  return createHash('sha256').update(about).update(body).digest('base64')
}

/** A kept answer, as if its provider had just given it. */
export function answerAgain({ contentType, bytes }: CachedAnswer): Response {
  // Streams of providers are read by the piece, and a body that is there at once is none.
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes)
      controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': contentType } })
}
