// A gateway, a provider that fails in every way, and callers that must be refused, for tests of all refusals.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { expect } from 'bun:test'
import { mintKey } from '../../src/accounts/account.ts'
import type { ErrorCode } from '../../src/errors/errors.ts'
import {
  accountWith,
  type Answer,
  type CallOptions,
  eventually,
  keyFor,
  restingCredits,
} from './call-gateway.ts'
import { failures, leak } from './failing-provider.ts'
import type { ServedWeir } from './run-weir.ts'
import {
  chunk,
  lastChunk,
  manners,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  streamHead,
} from './scripted-provider.ts'
import { serveWeir } from './serve-weir.ts'

type Caller =
  | 'spender'
  | 'penniless'
  | 'gifted'
  | 'nearlyBroke'
  | 'narrow'
  | 'capped'
  | 'budgeted'
  | 'revoked'
  | 'paused'
  | 'suspended'

export const question = [{ role: 'user', content: 'Where does the river run?' }]

/** A call that must be refused, and what its client is told besides the code. */
export interface Refusal {
  readonly code: ErrorCode
  readonly when: string
  readonly ask: () => Promise<Answer>
  readonly param?: string
  /** Whose fault it is, where it is not the gateway that refuses. */
  readonly from?: 'provider'
  /** Whether asking again helps nobody, although it may after other errors of this code. */
  readonly lasting?: true
  /** What `Retry-After-Ms` must say. */
  readonly retryAfterMs?: number
  readonly metadata?: Readonly<Record<string, unknown>>
  /** A part of what the message must tell. */
  readonly tells?: string
  /** What a program can rely on in Anthropic's protocol, where it is not the code alone. */
  readonly details?: object
}

export interface RefusalLabOptions {
  /** Answers of the models `lab/<name>`, beside `failures` and `pausing`. */
  readonly scripts: Readonly<Record<string, Script>>
  /** More of the configuration, as YAML. */
  readonly settings?: string
  readonly providers?: (url: string) => string
  readonly models?: string
  /** Calls a model in the protocol under test. */
  readonly ask: (model: string, more?: object, options?: CallOptions) => Promise<Answer>
  /** The path of the protocol under test below /v1, the header of its key, and the end of its streams. */
  readonly path: string
  readonly keyHeader: (key: string) => Readonly<Record<string, string>>
  readonly streamEnd: string
}

export class RefusalLab {
  readonly #options: RefusalLabOptions
  #provider: ScriptedProvider | undefined
  #weir: ServedWeir | undefined
  #resumed = Promise.withResolvers<void>()
  /** Keys, by what their callers are. */
  keys!: Readonly<Record<Caller, string>>

  constructor(options: RefusalLabOptions) {
    this.#options = options
  }

  get weir(): ServedWeir {
    return this.#weir!
  }

  async start(): Promise<void> {
    const scripts = { ...failures, pausing: this.#pausing, ...this.#options.scripts }
    const provider = await startScriptedProvider(scripts)
    this.#provider = provider
    const models = Object.keys(scripts).map(
      (name) =>
        `  - { id: lab/${name}, price: { input: "1", output: "2" }, max_output_tokens: 1000, premium: ${name === 'premium'} }`,
    )
    this.#weir = await serveWeir({
      config: `
local_servers: { discover: false }
server: { max_body_bytes: 200000, max_header_bytes: 2048 }
limits: { requests_in_flight_per_account: 2 }
timeouts: { connect_ms: 1000, first_byte_ms: 300, first_byte_reasoning_ms: 300, gap_ms: 30000 }
${this.#options.settings ?? ''}
providers:
  lab: { protocol: openai-chat, base_url: "${provider.url}", api_key: lab-provider-secret, quirks: { refuses: [n] } }
${this.#options.providers?.(provider.url) ?? ''}
models:
${models.join('\n')}
  - { id: lab/old, price: { input: "1", output: "2" }, retires_on: 2020-01-01, successor: lab/busy }
${this.#options.models ?? ''}
`,
    })
    this.keys = await callersOf(this.weir)
  }

  async stop(): Promise<void> {
    await this.#weir?.stop()
    await this.#provider?.stop()
  }

  readonly #pausing: Script = async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(manners.start + manners.words))
    await this.#resumed.promise
    await wire.write(chunk(manners.finish + manners.usage + manners.done))
    await wire.write(lastChunk)
    wire.end()
  }

  /** Streams of `lab/pausing` stop in their middle from now on, until `resume`. */
  pause(): void {
    this.#resumed = Promise.withResolvers<void>()
  }

  resume(): void {
    this.#resumed.resolve()
  }

  /** Asks while so many streams of the same key, paused in their middle, are open. */
  async whilePaused(
    streams: number,
    key: string,
    ask: () => Promise<Answer>,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const { path, keyHeader, streamEnd } = this.#options
    this.pause()
    const responses: Response[] = []
    for (let open = 0; open < streams; open++) {
      const response = await fetch(`${this.weir.baseUrl}${path}`, {
        method: 'POST',
        headers: { ...keyHeader(key), 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ model: 'lab/pausing', messages: question, max_tokens: 900, stream: true }),
      })
      expect(response.status).toBe(200)
      responses.push(response)
    }
    const answer = await ask()
    this.resume()
    for (const response of responses) expect(await response.text()).toEndWith(streamEnd)
    expect(await restingCredits(this.weir, key)).toMatchObject({ held: '0' })
    return answer
  }

  async whileReserved(): Promise<Answer> {
    const { ask } = this.#options
    const { key } = await accountWith(this.weir, 'reserved@example.org', { purchased: '0.001' })
    return this.whilePaused(1, key, () => ask('sim/echo', { max_tokens: 900 }, { key }))
  }

  /** A row of a table of refusals: what is asked, by a function or as a plain question to this model. */
  row(
    code: ErrorCode,
    when: string,
    asked: string | (() => Promise<Answer>),
    more: Partial<Refusal> = {},
  ): Refusal {
    const ask = typeof asked === 'string' ? () => this.#options.ask(asked) : asked
    return { code, when, ask, ...more }
  }

  /** What every protocol refuses alike. */
  shared(): Refusal[] {
    const { ask } = this.#options
    const by =
      (caller: Caller, model = 'sim/echo') =>
      () =>
        ask(model, {}, { key: this.keys[caller] })
    const withKey = (key: string) => () => ask('sim/echo', {}, { key })
    const withHeaders = (headers: Readonly<Record<string, string>>) => () => ask('sim/echo', {}, { headers })
    const streamed = (model: string) => () => ask(model, { stream: true })
    const large = () => ask('sim/echo', { messages: [{ role: 'user', content: 'x'.repeat(200_000) }] })
    const provider = { from: 'provider' } as const
    const model = { param: 'model' }
    const row = this.row.bind(this)
    return [
      row('invalid_request', 'two credentials differ', withHeaders({ 'x-api-key': 'sk-other' })),
      row('invalid_request', 'the provider names a wrong field', 'lab/strict', {
        ...provider,
        param: 'top_k',
        tells: 'top_k is too high',
      }),
      row('context_length_exceeded', 'the provider says so', 'lab/too-long', { ...provider, tells: '8192' }),
      row('content_filtered', 'the provider refuses the prompt', 'lab/filtered', provider),
      row('missing_api_key', 'there is none', withKey('')),
      row('invalid_api_key', 'it is of our form but unknown', withKey(mintKey('live').text)),
      row('api_key_revoked', 'it was revoked', by('revoked')),
      row('api_key_paused', 'it is paused', by('paused')),
      row('api_key_expired', 'its time is over', () => this.withExpiredKey()),
      row('purchased_credits_required', 'there is no credit at all', by('penniless')),
      row('insufficient_credits', 'not one token can be paid', by('nearlyBroke'), {
        metadata: { available: '0.000001', estimate: expect.any(String) },
      }),
      row('credits_reserved', 'a call in flight holds it all', () => this.whileReserved(), {
        retryAfterMs: 2000,
      }),
      row('plan_required', 'the model is premium', by('gifted', 'lab/premium')),
      row('key_limit_exceeded', 'the limit of the key is reached', by('capped'), {
        metadata: { resets_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00/) },
      }),
      row('budget_exceeded', 'the budget of the group of the key is spent', by('budgeted'), {
        tells: 'the group lab',
        metadata: {
          resets_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT18:30:00/),
          budget: expect.objectContaining({
            name: 'lab',
            of: 'group',
            limit: '0.000001',
            spent: '0',
            reserved: '0',
          }),
        },
      }),
      row('model_not_allowed', 'the model is not on the list of the key', by('narrow', 'lab/busy')),
      row('account_suspended', 'the account is suspended', by('suspended')),
      row('model_not_found', 'there is none', 'sim/ecko', { ...model, tells: 'sim/echo' }),
      row('model_retired', 'its provider stopped', 'lab/old', {
        ...model,
        tells: 'lab/busy',
        metadata: { successor: 'lab/busy' },
      }),
      row('payload_too_large', 'the body exceeds the limit', large, { metadata: { limit_bytes: 200_000 } }),
      row('unsupported_media_type', 'it is a form', withHeaders({ 'content-type': 'multipart/form-data' })),
      row('headers_too_large', 'they exceed the limit', withHeaders({ 'x-much': 'x'.repeat(4000) }), {
        metadata: { limit_bytes: 2048 },
      }),
      row('upstream_rate_limited', 'the provider limits us', 'lab/limited', {
        ...provider,
        retryAfterMs: 7000,
      }),
      row('model_unavailable', 'the provider does not know the model', 'lab/retired', provider),
      row('upstream_error', 'the provider fails in JSON', 'lab/broken', provider),
      row(
        'upstream_error',
        'it fails in HTML, a stream being asked for',
        streamed('lab/broken-html'),
        provider,
      ),
      row('unusable_answer', 'the provider rejects what its model wrote', 'lab/bad-call', provider),
      row('upstream_refused_credentials', 'the provider says 401', 'lab/no-key', provider),
      row('upstream_refused_credentials', 'it says 403', streamed('lab/forbidden'), provider),
      row('overloaded', 'the provider says 503', 'lab/busy', provider),
      row('upstream_timeout', 'the provider is silent', streamed('lab/silent'), provider),
      row('idempotency_conflict', 'the same key comes with another body', async () => {
        const once = { headers: { 'idempotency-key': 'errors-1' }, key: this.keys.spender }
        expect((await ask('sim/echo', {}, once)).status).toBe(200)
        return ask('sim/echo', { max_tokens: 99 }, once)
      }),
      row('idempotency_in_progress', 'the first call still runs', () => this.whileTheFirstRuns()),
      row('store_unavailable', 'the database cannot be written', () => this.whileStoreIsLocked()),
    ]
  }

  /** Asks again, with the same Idempotency-Key, while the first call runs. */
  async whileTheFirstRuns(): Promise<Answer> {
    const { ask } = this.#options
    const key = this.keys.spender
    const headers = { 'idempotency-key': 'errors-2' }
    const again = () => ask('lab/pausing', { max_tokens: 900, stream: true }, { key, headers })
    return this.whilePaused(1, key, again, headers)
  }

  async withExpiredKey(): Promise<Answer> {
    const soon = new Date(Date.now() + 1_500).toISOString()
    const { key } = await keyFor(this.weir, 'rich@example.org', '--expires', soon)
    return eventually(
      () => this.#options.ask('sim/echo', {}, { key }),
      ({ status }) => status === 401,
    )
  }

  /** Asks while another process has the database to itself. */
  async whileStoreIsLocked(): Promise<Answer> {
    const other = new Database(join(this.weir.dataDir, 'weir.db'))
    other.run('PRAGMA busy_timeout = 2000')
    other.run('BEGIN IMMEDIATE')
    try {
      return await this.#options.ask('sim/echo')
    } finally {
      other.run('ROLLBACK')
      other.close()
      await eventually(
        () => fetch(`${this.weir.origin}/readyz`),
        ({ ok }) => ok,
      )
    }
  }
}

async function callersOf(weir: ServedWeir): Promise<Readonly<Record<Caller, string>>> {
  const limit = ['--limit-usd', '0.000001', '--limit-window', 'day']
  const [spender, penniless, gifted, nearlyBroke, rich, suspended] = await Promise.all([
    accountWith(weir, 'spender@example.org', { purchased: '1' }),
    accountWith(weir, 'penniless@example.org', {}),
    accountWith(weir, 'gifted@example.org', { welcome: '0.5', daily: '0.2' }),
    accountWith(weir, 'nearly-broke@example.org', { purchased: '0.000001' }),
    accountWith(weir, 'rich@example.org', { purchased: '5' }, ...limit),
    accountWith(weir, 'suspended@example.org', { purchased: '5' }),
  ])
  const narrow = await keyFor(weir, 'nearly-broke@example.org', '--models', 'sim/*')
  const revoked = await keyFor(weir, 'rich@example.org')
  const lab = ['--name', 'lab', '--budget-usd', '0.000001', '--budget-window', 'day']
  for (const command of [
    ['create', ...lab, '--timezone', 'Asia/Kolkata'],
    ['add', 'lab', '--account', 'rich@example.org'],
  ])
    expect(await weir.command('groups', ...command)).toMatchObject({ code: 0 })
  const budgeted = await keyFor(weir, 'rich@example.org', '--group', 'lab')
  const paused = await keyFor(weir, 'rich@example.org')
  expect(await weir.command('keys', 'revoke', revoked.keyId)).toMatchObject({ code: 0 })
  expect(await weir.command('keys', 'pause', paused.keyId)).toMatchObject({ code: 0 })
  expect(await weir.command('accounts', 'suspend', 'suspended@example.org')).toMatchObject({ code: 0 })
  return {
    spender: spender.key,
    penniless: penniless.key,
    gifted: gifted.key,
    nearlyBroke: nearlyBroke.key,
    narrow: narrow.key,
    capped: rich.key,
    budgeted: budgeted.key,
    revoked: revoked.key,
    paused: paused.key,
    suspended: suspended.key,
  }
}

export interface RefusalHeaders {
  readonly retryable: boolean
  /** What `retry-after-ms` must be, if it is known. */
  readonly retryAfterMs?: number | undefined
}

/** Checks the headers of a refusal that all protocols share, and that it discloses nothing. */
export function expectRefusalHeaders(answer: Answer, { retryable, retryAfterMs }: RefusalHeaders): void {
  expect(answer.requestId).toMatch(/^req_[0-9a-f]{32}$/)
  expect(answer.headers.get('x-should-retry')).toBe(String(retryable))
  const wait = answer.headers.get('retry-after-ms')
  if (retryAfterMs !== undefined) expect(wait).toBe(String(retryAfterMs))
  expect(answer.headers.get('retry-after')).toBe(
    wait === null ? null : String(Math.ceil(Number(wait) / 1000)),
  )
  expect(answer.text).not.toContain('sk-weir-')
  expect(answer.text).not.toContain(leak)
  expect(answer.text).not.toContain('lab-provider-secret')
}
