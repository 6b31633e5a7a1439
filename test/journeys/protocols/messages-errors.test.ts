// Every refusal on the routes of Anthropic's protocol, through the real server: its status, and the shape, the words and
// the headers that Anthropic's clients know.

import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mintKey } from '../../../src/accounts/account.ts'
import { type ErrorCode, errorTable } from '../../../src/errors/errors.ts'
import {
  accountWith,
  type Answer,
  type CallOptions,
  expectAudited,
  post,
  restingCredits,
} from '../../support/call-gateway.ts'
import { consoleErrors } from '../../support/console-errors.ts'
import { failures } from '../../support/failing-provider.ts'
import { chunk, lastChunk, manners, streamHead } from '../../support/scripted-provider.ts'
import { expectRefusalHeaders, question, RefusalLab } from '../../support/refusal-lab.ts'

/** Codes that this table cannot bring about, and why. */
const unreachable: Partial<Record<ErrorCode, string>> = {
  ...consoleErrors,
  internal_error: 'a fault of our own; whoever finds one has found a bug',
  client_gone: 'nobody is there to be told: disconnects.test.ts',
  idempotency_answer_lost: 'needs a gateway that dies in the middle: idempotency.test.ts',
  invalid_model_id: 'a name without a provider is one of Anthropic here',
  method_not_allowed: 'has a test of its own below',
  previous_response_not_found: 'messages continue nothing that is stored',
}

const lab = new RefusalLab({
  ask: (...asked) => ask(...asked),
  path: '/messages?beta=true',
  keyHeader: (key) => ({ 'x-api-key': key }),
  streamEnd: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
  scripts: {
    'cut-off': async (wire) => {
      await wire.write(streamHead)
      await wire.write(chunk(manners.start + manners.words))
      await wire.write(lastChunk)
      wire.end()
    },
    premium: failures['broken']!,
  },
  settings: 'stream: { keepalive_ms: 100 }',
})

beforeAll(() => lab.start(), 60_000)
afterAll(() => lab.stop())

const messages = '/messages?beta=true'
function ask(model: string, more: object = {}, options: CallOptions = {}): Promise<Answer> {
  return post(
    lab.weir,
    { model, messages: question, max_tokens: 100, ...more },
    { path: messages, ...options },
  )
}
const count = (model: string, more: object = {}, options: CallOptions = {}) =>
  ask(model, { max_tokens: undefined, ...more }, { path: '/messages/count_tokens', ...options })
const image = (url: string) => [{ role: 'user', content: [{ type: 'image', source: { type: 'url', url } }] }]

interface Row {
  /** What a program can rely on, where it is not the code alone. */
  readonly details?: object
  readonly code: ErrorCode
  readonly when: string
  readonly ask: () => Promise<Answer>
  /** The kind of error in Anthropic's words. */
  readonly type: string
  readonly param?: string
  readonly lasting?: true
  /** What `Retry-After-Ms` must say. */
  readonly retryAfterMs?: number
  /** A part of what the message must tell. */
  readonly tells?: string
}

const badRequest = { code: 'invalid_request', type: 'invalid_request_error' } as const
const unauthenticated = 'authentication_error'

const rows: readonly Row[] = [
  { ...badRequest, when: 'the body is not JSON', ask: () => post(lab.weir, '{"model":', { path: messages }) },
  {
    ...badRequest,
    when: 'a field is missing',
    ask: () => ask('sim/echo', { max_tokens: undefined }),
    param: 'max_tokens',
    tells: 'max_tokens: ',
  },
  {
    ...badRequest,
    when: 'a field deep inside is wrong',
    ask: () => ask('sim/echo', { messages: [{ role: 'user', content: [{ text: 'x' }] }] }),
    param: 'messages.0.content.0.type',
  },
  {
    ...badRequest,
    when: 'a block cannot be read',
    ask: () => ask('sim/echo', { messages: [{ role: 'user', content: [{ type: 'hologram' }] }] }),
    param: 'messages.0.content.0.type',
  },
  {
    ...badRequest,
    when: 'a message thread is asked for',
    ask: () => ask('sim/echo', { thread: { id: 'thread_1' } }),
    param: 'thread',
    details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
    tells: 'send the whole conversation',
  },
  {
    ...badRequest,
    when: 'two credentials differ',
    ask: () => ask('sim/echo', {}, { headers: { 'x-api-key': 'sk-other' } }),
  },
  {
    ...badRequest,
    when: 'the provider names a wrong field',
    ask: () => ask('lab/strict'),
    param: 'top_k',
    tells: 'top_k is too high',
  },
  {
    code: 'unsupported_parameter',
    when: 'what only Anthropic knows must be honoured',
    ask: () => ask('sim/echo', { strict: true, context_management: { edits: [] } }),
    type: 'invalid_request_error',
    param: 'context_management',
  },
  {
    code: 'unsupported_parameter',
    when: 'a provider would run a tool, for nobody knows how much',
    ask: () => ask('sim/echo', { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }),
    type: 'invalid_request_error',
    param: 'tools.0.type',
    tells: 'web_fetch_20250910',
  },
  {
    code: 'context_length_exceeded',
    when: 'the provider says so',
    ask: () => ask('lab/too-long'),
    type: 'invalid_request_error',
    tells: 'prompt is too long: maximum context length is 8192',
  },
  {
    code: 'wrong_endpoint',
    when: 'the model embeds',
    ask: () => ask('sim/embed'),
    type: 'invalid_request_error',
    param: 'model',
  },
  {
    code: 'url_not_allowed',
    when: 'an image is at a private address',
    ask: () => ask('sim/echo', { messages: image('http://169.254.169.254/x.png') }),
    type: 'invalid_request_error',
    param: 'messages[0].content[0].source.url',
  },
  {
    code: 'url_not_allowed',
    when: "a document in a tool's result is at a private address",
    ask: () =>
      ask('sim/echo', {
        messages: [
          ...question,
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
          {
            role: 'user',
            content: [
              {
                type: 'tool_result',
                tool_use_id: 't',
                content: [{ type: 'document', source: { type: 'url', url: 'http://10.0.0.5/x.pdf' } }],
              },
            ],
          },
        ],
      }),
    type: 'invalid_request_error',
    param: 'messages[2].content[0].content[0].source.url',
  },
  {
    code: 'content_filtered',
    when: 'the provider refuses the prompt',
    ask: () => ask('lab/filtered'),
    type: 'invalid_request_error',
  },
  {
    code: 'missing_api_key',
    when: 'there is none',
    ask: () => ask('sim/echo', {}, { key: '' }),
    type: unauthenticated,
    tells: 'x-api-key',
  },
  {
    code: 'missing_api_key',
    when: 'there is none to count tokens with',
    ask: () => count('sim/echo', {}, { key: '' }),
    type: unauthenticated,
  },
  {
    code: 'invalid_api_key',
    when: 'it is of our form but unknown',
    ask: () => ask('sim/echo', {}, { key: mintKey('live').text }),
    type: unauthenticated,
  },
  {
    code: 'api_key_revoked',
    when: 'it was revoked',
    ask: () => ask('sim/echo', {}, { key: lab.keys.revoked }),
    type: unauthenticated,
  },
  {
    code: 'api_key_expired',
    when: 'its time is over',
    ask: () => lab.withExpiredKey(),
    type: unauthenticated,
  },
  {
    code: 'purchased_credits_required',
    when: 'there is no credit at all',
    ask: () => ask('sim/echo', {}, { key: lab.keys.penniless }),
    type: 'billing_error',
  },
  {
    code: 'insufficient_credits',
    when: 'not one token can be paid',
    ask: () => ask('sim/echo', {}, { key: lab.keys.nearlyBroke }),
    type: 'billing_error',
  },
  {
    code: 'credits_reserved',
    when: 'a call in flight holds it all',
    ask: () => lab.whileReserved(),
    type: 'billing_error',
    retryAfterMs: 2000,
  },
  {
    code: 'plan_required',
    when: 'the model is premium',
    ask: () => ask('lab/premium', {}, { key: lab.keys.penniless }),
    type: 'permission_error',
  },
  {
    code: 'key_limit_exceeded',
    when: 'the limit of the key is reached',
    ask: () => ask('sim/echo', {}, { key: lab.keys.capped }),
    type: 'permission_error',
  },
  {
    code: 'model_not_allowed',
    when: 'the model is not on the list of the key',
    ask: () => ask('lab/busy', {}, { key: lab.keys.narrow }),
    type: 'permission_error',
  },
  {
    code: 'model_not_allowed',
    when: 'its tokens are to be counted',
    ask: () => count('lab/busy', {}, { key: lab.keys.narrow }),
    type: 'permission_error',
  },
  {
    code: 'account_suspended',
    when: 'the account is suspended',
    ask: () => ask('sim/echo', {}, { key: lab.keys.suspended }),
    type: 'permission_error',
  },
  {
    code: 'account_suspended',
    when: 'a suspended account counts tokens',
    ask: () => count('sim/echo', {}, { key: lab.keys.suspended }),
    type: 'permission_error',
  },
  {
    code: 'model_not_found',
    when: 'there is none',
    ask: () => ask('sim/ecko'),
    type: 'not_found_error',
    param: 'model',
    tells: 'sim/echo',
  },
  {
    code: 'model_not_found',
    when: 'Anthropic has none of this name',
    ask: () => ask('claude-sonnet-4-55'),
    type: 'not_found_error',
    param: 'model',
    tells: 'anthropic/claude-sonnet-4-5',
  },
  {
    code: 'model_not_found',
    when: 'a name without a provider is not of Anthropic',
    ask: () => count('gpt-4o'),
    type: 'not_found_error',
    param: 'model',
    tells: 'openai/gpt-4o',
  },
  {
    code: 'model_retired',
    when: 'its provider stopped',
    ask: () => ask('lab/old'),
    type: 'not_found_error',
    param: 'model',
    tells: 'lab/busy',
  },
  {
    code: 'not_found',
    when: 'batches are asked for',
    ask: () => post(lab.weir, {}, { path: '/messages/batches' }),
    type: 'not_found_error',
  },
  {
    code: 'payload_too_large',
    when: 'the body exceeds the limit',
    ask: () => ask('sim/echo', { system: 'x'.repeat(200_000) }),
    type: 'request_too_large',
  },
  {
    code: 'unsupported_media_type',
    when: 'the body is a form',
    ask: () => ask('sim/echo', {}, { headers: { 'content-type': 'multipart/form-data' } }),
    type: 'invalid_request_error',
  },
  {
    code: 'headers_too_large',
    when: 'they exceed the limit',
    ask: () => ask('sim/echo', {}, { headers: { 'x-much': 'x'.repeat(4000) } }),
    type: 'invalid_request_error',
  },
  {
    code: 'upstream_rate_limited',
    when: 'the provider limits us',
    ask: () => ask('lab/limited'),
    type: 'rate_limit_error',
    retryAfterMs: 7000,
  },
  {
    code: 'model_unavailable',
    when: 'the provider does not know the model',
    ask: () => ask('lab/retired'),
    type: 'not_found_error',
  },
  {
    code: 'upstream_error',
    when: 'the provider fails in JSON',
    ask: () => ask('lab/broken'),
    type: 'api_error',
  },
  {
    code: 'upstream_error',
    when: 'the provider fails in HTML, a stream being asked for',
    ask: () => ask('lab/broken-html', { stream: true }),
    type: 'api_error',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'the provider says 401',
    ask: () => ask('lab/no-key'),
    type: 'api_error',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'the provider says 403',
    ask: () => ask('lab/forbidden', { stream: true }),
    type: 'api_error',
  },
  {
    code: 'no_provider_available',
    when: 'the provider has no key here',
    ask: () => ask('claude-haiku-4-5'),
    type: 'overloaded_error',
    lasting: true,
  },
  {
    code: 'overloaded',
    when: 'the provider says 503',
    ask: () => ask('lab/busy'),
    type: 'overloaded_error',
  },
  {
    code: 'upstream_timeout',
    when: 'the provider is silent',
    ask: () => ask('lab/silent', { stream: true }),
    type: 'timeout_error',
  },
  {
    code: 'idempotency_conflict',
    when: 'the same key comes with another body',
    ask: async () => {
      const once = { headers: { 'idempotency-key': 'errors-1' }, key: lab.keys.spender }
      expect((await ask('sim/echo', {}, once)).status).toBe(200)
      return ask('sim/echo', { system: 'another' }, once)
    },
    type: 'invalid_request_error',
  },
  {
    code: 'idempotency_in_progress',
    when: 'the first call still runs',
    ask: () => lab.whileTheFirstRuns(),
    type: 'invalid_request_error',
  },
  {
    code: 'rate_limit_exceeded',
    when: 'the account has as many calls in flight as it may',
    ask: () => oneTooMany('one', (key) => ask('lab/pausing', {}, { key })),
    type: 'rate_limit_error',
    retryAfterMs: 1000,
  },
  {
    code: 'rate_limit_exceeded',
    when: 'it counts tokens besides',
    ask: () => oneTooMany('two', (key) => count('lab/pausing', {}, { key })),
    type: 'rate_limit_error',
    retryAfterMs: 1000,
  },
  {
    code: 'store_unavailable',
    when: 'the database cannot be written',
    ask: () => lab.whileStoreIsLocked(),
    type: 'overloaded_error',
  },
]

async function oneTooMany(name: string, besides: (key: string) => Promise<Answer>): Promise<Answer> {
  const { key } = await accountWith(lab.weir, `busy-${name}@example.org`, { purchased: '1' })
  // However many tokens were counted before: none of that is still in flight.
  for (let at = 0; at < 3; at++) expect((await count('sim/echo', {}, { key })).status).toBe(200)
  return lab.whilePaused(2, key, () => besides(key))
}

describe('a refusal', () => {
  test.each(rows.map((row) => [row.code, row.when, row] as const))('%s: %s', async (code, _, row) => {
    const answer = await row.ask()
    const { status } = errorTable[code]
    const retryable = errorTable[code].retryable && row.lasting !== true
    expect({ status: answer.status, code: answer.error?.code }).toEqual({ status, code })
    expect(answer.headers.get('content-type')).toStartWith('application/json')
    expect(JSON.parse(answer.text)).toEqual({
      type: 'error',
      error: {
        type: row.type,
        message: expect.any(String),
        code,
        details: row.details ?? { error_code: code },
        param: row.param ?? null,
        metadata: expect.objectContaining({ request_id: answer.requestId, retryable }),
      },
      request_id: answer.requestId,
    })
    if (row.tells !== undefined) expect(answer.error!.message).toContain(row.tells)
    expect(answer.headers.get('request-id')).toBe(answer.requestId)
    expectRefusalHeaders(answer, { retryable, retryAfterMs: row.retryAfterMs })
  })

  test('of every kind is produced here, or it is said why it cannot be', () => {
    const produced = new Set<string>(rows.map(({ code }) => code))
    const missing = Object.keys(errorTable).filter((code) => !produced.has(code))
    expect(missing.toSorted()).toEqual(Object.keys(unreachable).toSorted())
  })

  test('of another method has the shape of the protocol, too', async () => {
    const response = await fetch(`${lab.weir.baseUrl}/messages`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    expect(await response.json()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', code: 'method_not_allowed' },
    })
  })

  test('has cost nothing', async () => {
    expect(await restingCredits(lab.weir)).toMatchObject({ held: '0', total_used: '0', available: '100' })
    await expectAudited(lab.weir)
  })
})

describe('the official client', () => {
  const client = (apiKey = lab.weir.key) =>
    new Anthropic({ apiKey, authToken: null, baseURL: lab.weir.origin, maxRetries: 0 })
  const request = (model: string) => ({
    model,
    max_tokens: 100,
    messages: [{ role: 'user' as const, content: 'Where does the river run?' }],
  })
  const failure = (call: PromiseLike<unknown>) =>
    call.then(
      () => undefined,
      (error: unknown) => error,
    )

  test.each([
    [400, 'context_length_exceeded', Anthropic.BadRequestError, 'lab/too-long'],
    [403, 'plan_required', Anthropic.PermissionDeniedError, 'lab/premium'],
    [404, 'model_not_found', Anthropic.NotFoundError, 'claude-none'],
    [429, 'upstream_rate_limited', Anthropic.RateLimitError, 'lab/limited'],
    [502, 'upstream_error', Anthropic.InternalServerError, 'lab/broken'],
    [503, 'overloaded', Anthropic.InternalServerError, 'lab/busy'],
  ])('throws %d %s as the class it has for it', async (status, errorCode, kind, model) => {
    const key = model === 'lab/premium' ? lab.keys.penniless : lab.weir.key
    for (const stream of [false, true]) {
      const error = await failure(client(key).messages.create({ ...request(model), stream }))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, errorCode, requestID: expect.stringMatching(/^req_/) })
    }
  })

  test('throws where a stream breaks off, and what came before is charged', async () => {
    const { key } = await accountWith(lab.weir, 'cut@example.org', { purchased: '1' })
    const seen: string[] = []
    const stream = client(key).messages.stream(request('lab/cut-off'))
    stream.on('text', (text) => seen.push(text))
    const error = await failure(stream.finalMessage())
    expect(error).toBeInstanceOf(Anthropic.APIError)
    expect((error as InstanceType<typeof Anthropic.APIError>).errorCode).toBe('upstream_error')
    expect(seen.join('')).not.toBe('')
    expect(Number((await restingCredits(lab.weir, key)).total_used)).toBeGreaterThan(0)
  })

  test('is kept waiting by pings', async () => {
    lab.pause()
    const untilPinged = (text: string) => text.includes('event: ping\n') && lab.resume()
    const { status, text } = await ask(
      'lab/pausing',
      { stream: true },
      { key: lab.keys.spender, onText: untilPinged },
    )
    expect(status).toBe(200)
    expect(text).toStartWith('event: message_start\n')
    expect(text).toContain('\n\nevent: ping\ndata: {"type": "ping"}\n\n')
    expect(text).toEndWith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
  })
})
