// A provider that answers with recorded bytes, cut as a test wants them cut, and remembers what it was asked.

import { type Case, cutAt } from './recordings.ts'

/** One answer to give. */
export interface Replay {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** A request as the provider saw it. */
export interface SeenRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Headers
  readonly body: string
  /** The body as JSON; undefined where it is none. */
  readonly json: unknown
}

export interface ReplayServer {
  /** Without a path: `http://127.0.0.1:<port>`. */
  readonly url: string
  readonly requests: readonly SeenRequest[]
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** A recorded case as an answer, with the headers that the recording kept and that describe the body it has now. */
export function replayOf(recorded: Case): Replay {
  const kept = Object.entries(recorded.meta.response_headers).filter(
    // Bodies were stored uncompressed and whole.
    ([name]) => !['content-encoding', 'content-length', 'transfer-encoding', 'connection'].includes(name),
  )
  const body = recorded.streamed ? recorded.stream() : new TextEncoder().encode(recorded.responseText())
  return { status: recorded.status, headers: Object.fromEntries(kept), body }
}

/** How a body is cut into the pieces it is sent in. */
export type Cuts = (body: Uint8Array) => readonly Uint8Array[]

/** Pieces of so many bytes. */
export function everyBytes(size: number): Cuts {
  return (body) =>
    cutAt(
      body,
      Array.from({ length: Math.ceil(body.length / size) - 1 }, (_, at) => (at + 1) * size),
    )
}

/**
 * Starts a server that gives these answers, one after the other and the last one again and again; a function
 * chooses by the request. Each piece that `cuts` makes (default: the whole) is written by itself.
 */
export function startReplayServer(
  answers: readonly Replay[] | ((request: SeenRequest) => Replay),
  cuts: Cuts = (body) => [body],
): ReplayServer {
  const requests: SeenRequest[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const seen = await see(request)
      requests.push(seen)
      const answer = Array.isArray(answers)
        ? answers[Math.min(requests.length, answers.length) - 1]
        : pick(answers, seen)
      if (answer === undefined) return new Response('no answer was prepared', { status: 500 })
      return new Response(inPieces(cuts(answer.body)), { status: answer.status, headers: answer.headers })
    },
  })
  const stop = async () => {
    await server.stop(true)
  }
  return { url: `http://127.0.0.1:${server.port}`, requests, stop, [Symbol.asyncDispose]: stop }
}

function pick(answers: readonly Replay[] | ((request: SeenRequest) => Replay), seen: SeenRequest) {
  return typeof answers === 'function' ? answers(seen) : undefined
}

async function see(request: Request): Promise<SeenRequest> {
  const body = await request.text()
  const { pathname, search } = new URL(request.url)
  let json: unknown
  try {
    json = JSON.parse(body)
  } catch {
    json = undefined
  }
  return { method: request.method, path: pathname + search, headers: request.headers, body, json }
}

function inPieces(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  let at = 0
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      // A turn of the loop between two pieces lets each reach the socket before the next is made.
      await new Promise((resolve) => setImmediate(resolve))
      const piece = pieces[at++]
      if (piece === undefined) controller.close()
      else if (piece.length > 0) controller.enqueue(piece)
    },
  })
}
