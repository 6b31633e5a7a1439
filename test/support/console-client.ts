// A browser as far as the console's API can tell: it keeps the cookie, and says which page asks.

import { expect } from 'bun:test'
import { expectDocumented } from './documented-answers.ts'
import { runJson } from './call-gateway.ts'
import type { ServedWeir } from './run-weir.ts'
import type { SessionView } from '../../src/http/console/answers.ts'

export interface ConsoleAnswer {
  readonly status: number
  readonly headers: Headers
  readonly json: Readonly<Record<string, unknown>>
  /** Of an error. */
  readonly code: string | undefined
}

export interface SendOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** Leaves the origin out, or names another. */
  readonly origin?: string | null
}

export class ConsoleClient {
  readonly #weir: Pick<ServedWeir, 'origin' | 'port'>
  /** `name=value` as the gateway has set it last; empty when it was taken away. */
  cookie = ''

  constructor(weir: Pick<ServedWeir, 'origin' | 'port'>) {
    this.#weir = weir
  }

  async send(
    method: string,
    path: string,
    body?: unknown,
    options: SendOptions = {},
  ): Promise<ConsoleAnswer> {
    const { origin = `http://localhost:${this.#weir.port}`, headers = {} } = options
    const response = await fetch(`${this.#weir.origin}/console/api/${path}`, {
      method,
      redirect: 'manual',
      headers: {
        ...(origin === null ? {} : { origin }),
        ...(this.cookie === '' ? {} : { cookie: this.cookie }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const set = response.headers.get('set-cookie')
    if (set !== null) this.cookie = /Max-Age=0(;|$)/.test(set) ? '' : set.slice(0, set.indexOf(';'))
    const text = await response.text()
    const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, unknown>
    if (response.ok && text.startsWith('{')) expectDocumented('console', method, path, json)
    const error = json['error'] as { code?: string } | undefined
    return { status: response.status, headers: response.headers, json, code: error?.code }
  }

  get(path: string): Promise<ConsoleAnswer> {
    return this.send('GET', path)
  }

  post(path: string, body: unknown = {}, options: SendOptions = {}): Promise<ConsoleAnswer> {
    return this.send('POST', path, body, options)
  }

  async session(): Promise<SessionView> {
    return (await this.get('session')).json as unknown as SessionView
  }

  /** Signs in by the link that a command printed. */
  async follow(url: string): Promise<ConsoleAnswer> {
    return this.post('link', { token: new URL(url).hash.slice(1) })
  }
}

/** Signed in by the link that the operator's command prints. */
export async function signedIn(
  weir: Pick<ServedWeir, 'origin' | 'port' | 'command'>,
  email: string,
): Promise<ConsoleClient> {
  const client = new ConsoleClient(weir)
  const { url } = await runJson(weir, 'accounts', 'link', '--account', email)
  expect((await client.follow(String(url))).status).toBe(200)
  return client
}
