// A TCP proxy that loses what it carries: answers, requests, whole connections. On this machine alone.

import type { Socket } from 'bun'

interface Pair {
  readonly client: Socket<Pair>
  server: Socket<Pair> | undefined
  /** What the client has sent before the server was reached, or while it is kept back. */
  waiting: Buffer[]
  /** Its next answer is lost, and it is cut. */
  isDoomed: boolean
}

/**
 * `pass`; or lose what the client sends, or what the server answers; or keep what the client sends until `release`; or turn
 * away who comes.
 */
export type Carriage = 'pass' | 'lose-requests' | 'lose-answers' | 'keep-requests' | 'refuse'

export class CutProxy {
  carriage: Carriage = 'pass'
  /** Bytes that were lost, or kept. */
  withheld = 0
  /** How many clients have come. */
  accepted = 0
  /** Of so many requests one is lost with its connection: every second time the request, else the answer. */
  cutEvery = Number.POSITIVE_INFINITY
  /** What the server gets for what a client sends, of the same length. */
  rewrite: (bytes: Buffer) => Buffer = (bytes) => bytes
  /** How often it was the request, and how often the answer. */
  readonly cuts = { requests: 0, answers: 0 }
  #requests = 0
  readonly #pairs = new Set<Pair>()
  readonly #listener
  #port: number

  /** `port`: of the server on this machine. */
  constructor(port: number) {
    this.#port = port
    this.#listener = Bun.listen<Pair>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open: (client) => this.#accept(client),
        data: (client, bytes) => this.#request(client.data, bytes),
        close: (client) => this.#onClosed(client.data),
      },
    })
  }

  get port(): number {
    return this.#listener.port
  }

  /** Who comes from now on is led to another server of this machine. */
  redirect(port: number): void {
    this.#port = port
  }

  #accept(client: Socket<Pair>): void {
    this.accepted++
    if (this.carriage === 'refuse') {
      client.terminate()
      return
    }
    const pair: Pair = { client, server: undefined, waiting: [], isDoomed: false }
    client.data = pair
    this.#pairs.add(pair)
    void Bun.connect<Pair>({
      hostname: '127.0.0.1',
      port: this.#port,
      data: pair,
      socket: {
        open: (server) => {
          pair.server = server
          for (const bytes of pair.waiting.splice(0)) server.write(bytes)
        },
        data: (_server, bytes) => {
          if (this.carriage === 'lose-answers') this.withheld += bytes.length
          else if (pair.isDoomed) {
            this.cuts.answers++
            pair.client.terminate()
          } else pair.client.write(bytes)
        },
        close: () => void pair.client.end(),
      },
      // The server is away.
    }).catch(() => client.terminate())
  }

  #request(pair: Pair | undefined, sent: Buffer): void {
    if (!pair) return
    const bytes = this.rewrite(sent)
    if (++this.#requests >= this.cutEvery) {
      this.#requests = 0
      pair.isDoomed = this.cuts.requests > this.cuts.answers
      if (!pair.isDoomed) {
        this.cuts.requests++
        pair.client.terminate()
        return
      }
    }
    if (this.carriage === 'lose-requests' || this.carriage === 'keep-requests') this.withheld += bytes.length
    if (this.carriage === 'lose-requests') return
    // What a socket gives is its own buffer, written again with the next bytes.
    if (pair.server && this.carriage !== 'keep-requests') pair.server.write(bytes)
    else pair.waiting.push(Buffer.from(bytes))
  }

  /** A client that has gone leaves its connection to the server open while requests of it are kept. */
  #onClosed(pair: Pair | undefined): void {
    if (!pair || pair.waiting.length > 0) return
    this.#pairs.delete(pair)
    pair.server?.end()
  }

  /** Cuts every connection on the client's side, and that of the server where nothing is kept for it. */
  cut(): void {
    for (const pair of this.#pairs) pair.client.terminate()
  }

  /** Gives the server what was kept of clients that have gone; resolves with how many requests that were. */
  release(): number {
    let count = 0
    for (const pair of this.#pairs) {
      count += pair.waiting.length
      for (const bytes of pair.waiting.splice(0)) pair.server?.write(bytes)
    }
    return count
  }

  stop(): void {
    for (const pair of this.#pairs) pair.server?.terminate()
    this.#listener.stop(true)
  }
}
