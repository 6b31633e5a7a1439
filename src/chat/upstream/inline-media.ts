// Fetches images and files given by URL through the egress guard: for protocols that only take bytes, and for
// providers in a private network, which would resolve the name themselves and may reach something private.

import { BudgetSpentError, ByteBudget } from '../../bounded-body.ts'
import type { ChatRequest, ContentPart, Message } from '../../conversation/request.ts'
import { destinationOf, isAllowedHost, type Resolve, systemResolve } from '../../egress/destination.ts'
import { type Fetcher, fetchPublic } from '../../egress/egress.ts'
import { privateHosts } from '../../egress/private-host.ts'
import { GatewayError } from '../../errors.ts'
import type { RequestAddress } from '../../protocols/protocol.ts'

export interface MediaLimits {
  /** The largest file fetched for a prompt, bytes. */
  readonly fileBytes: number
  /** The most bytes fetched for one request. */
  readonly requestBytes: number
  /** The time limit for all files of a request, milliseconds. */
  readonly timeoutMs: number
}

export interface Media {
  /**
   * The request with the bytes of every image, file and video instead of its URL, if `wanted` accepts the URL. Rejects
   * with `url_not_allowed` for an address that users may not reach, and `invalid_request` for one that returns
   * nothing, a file too large or a fetch too slow, each naming the part.
   */
  inline(request: ChatRequest, wanted: (url: string) => boolean, signal: AbortSignal): Promise<ChatRequest>
  /** Whether a provider at this base URL runs in a private network. */
  isPrivate(baseUrl: string): Promise<boolean>
  /** Whether the operator allows everybody to reach the host of this URL (`egress.allow_hosts`). */
  isAllowed(url: string): boolean
  /** Resolves the name in an address. Rejects with `url_not_allowed` if it is private. */
  check(address: RequestAddress): Promise<void>
}

export interface MediaParts {
  readonly allowHosts: readonly string[]
  readonly limits: MediaLimits
  readonly resolve?: Resolve
  readonly fetcher?: Fetcher
}

/** Concurrent fetches per request. */
const atOnce = 4

export function media({ allowHosts, limits, resolve = systemResolve, fetcher }: MediaParts): Media {
  const rim = { allowHosts, resolve, ...(fetcher && { fetcher }) }

  async function inline(request: ChatRequest, wanted: (url: string) => boolean, signal: AbortSignal) {
    const jobs = urlParts(request, wanted)
    if (jobs.length === 0) return request
    const deadline = performance.now() + limits.timeoutMs
    const inlined = new Map<ContentPart, ContentPart>()
    const budget = new ByteBudget(limits.requestBytes)

    async function next(): Promise<void> {
      for (let job = jobs.shift(); job; job = jobs.shift()) {
        const { part, url, param } = job
        const maxBytes = limits.fileBytes
        const timeoutMs = Math.max(1, deadline - performance.now())
        const source = await withinBudget(limits.requestBytes, param, async () => {
          const given = inlinedIn(url)
          if (given === undefined)
            return checkMedia(
              await fetchPublic(url, { ...rim, signal, param, maxBytes, budget, timeoutMs }),
              param,
            )
          budget.take(Math.ceil(given.data.length * 0.75))
          return given
        })
        inlined.set(part, { ...part, source: { kind: 'base64', ...source } } as ContentPart)
      }
    }

    await Promise.all(Array.from({ length: Math.min(atOnce, jobs.length) }, next))
    const messages = request.messages.map((message): Message => {
      if (!message.content.some((part) => inlined.has(part))) return message
      return { ...message, content: message.content.map((part) => inlined.get(part) ?? part) }
    })
    return { ...request, messages }
  }

  return {
    inline,
    isPrivate: privateHosts(resolve),
    isAllowed: (url) => isAllowedHost(url, allowHosts),
    async check({ url, param }) {
      await destinationOf(url, { allowHosts, resolve, param })
    },
  }
}

interface UrlPart {
  readonly part: ContentPart
  readonly url: string
  readonly param: string
}

function urlParts(request: ChatRequest, wanted: (url: string) => boolean): UrlPart[] {
  return request.messages.flatMap((message, at) =>
    message.content.flatMap((part, index) => {
      const url = urlOf(part)
      if (url === undefined || !wanted(url)) return []
      return [{ part, url, param: `messages[${at}].content[${index}]` }]
    }),
  )
}

/** The URL of a part that is an external image, file or video. */
export function urlOf(part: ContentPart): string | undefined {
  const carriesMedia = part.kind === 'image' || part.kind === 'file' || part.kind === 'video'
  return carriesMedia && part.source.kind === 'url' ? part.source.url : undefined
}

/** Runs `work`. Rejects with `invalid_request` if it takes more of the budget than there is. */
async function withinBudget<T>(requestBytes: number, param: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof BudgetSpentError ? tooMuch(requestBytes, param) : error
  }
}

function tooMuch(requestBytes: number, param: string): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The files that this request names are together larger than ${requestBytes} bytes.`,
    param,
  })
}

/** A data: URL contains its bytes. */
function inlinedIn(url: string): { mediaType: string; data: string } | undefined {
  const match = /^data:([\w.+/-]+)(?:;[\w=.+-]+)*;base64,([A-Za-z0-9+/_=-]+)$/.exec(url)
  return match ? { mediaType: match[1]!, data: match[2]! } : undefined
}

function checkMedia(
  fetched: { status: number; mediaType: string; bytes: Uint8Array },
  param: string,
): { mediaType: string; data: string } {
  if (fetched.status !== 200) {
    throw new GatewayError('invalid_request', {
      message: `The address answered with status ${fetched.status}.`,
      param,
    })
  }
  return {
    mediaType: fetched.mediaType === '' ? 'application/octet-stream' : fetched.mediaType,
    data: Buffer.from(fetched.bytes).toString('base64'),
  }
}
