// Every refusal on the routes of Anthropic's protocol, through the real server: its status, and the shape, the words and
// the headers that Anthropic's clients know.

import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type ErrorCode, errorTable } from '../../../src/errors/errors.ts'
import {
  accountWith,
  type Answer,
  type CallOptions,
  expectAudited,
  post,
  restingCredits,
  failure,
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
  guardrail_denied: 'needs a hook: guardrails.test.ts',
  guardrail_failed: 'needs a hook: guardrails.test.ts',
  websocket_disabled: 'of the Responses protocol: responses-socket.test.ts',
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

/** The kinds of error that Anthropic's clients know, and what is of each. */
const kinds: Readonly<Record<string, readonly ErrorCode[]>> = {
  authentication_error: [
    'missing_api_key',
    'invalid_api_key',
    'api_key_revoked',
    'api_key_paused',
    'api_key_expired',
  ],
  billing_error: ['purchased_credits_required', 'insufficient_credits', 'credits_reserved'],
  permission_error: [
    'plan_required',
    'key_limit_exceeded',
    'budget_exceeded',
    'model_not_allowed',
    'account_suspended',
  ],
  not_found_error: ['model_not_found', 'model_retired', 'not_found', 'model_unavailable'],
  request_too_large: ['payload_too_large'],
  rate_limit_error: ['upstream_rate_limited', 'rate_limit_exceeded'],
  api_error: ['upstream_error', 'unusable_answer', 'upstream_refused_credentials'],
  overloaded_error: ['no_provider_available', 'overloaded', 'store_unavailable'],
  timeout_error: ['upstream_timeout'],
}
const kindOf = (code: ErrorCode) =>
  Object.keys(kinds).find((kind) => kinds[kind]!.includes(code)) ?? 'invalid_request_error'

const row = lab.row.bind(lab)
const model = { param: 'model' }
const echo = (more: object) => () => ask('sim/echo', more)
const said = (...blocks: object[]) => echo({ messages: [{ role: 'user', content: blocks }] })
const privateImage = { type: 'image', source: { type: 'url', url: 'http://169.254.169.254/x.png' } }
const privateDocument = { type: 'document', source: { type: 'url', url: 'http://10.0.0.5/x.pdf' } }
const privateResult = {
  messages: [
    ...question,
    { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: [privateDocument] }] },
  ],
}
const anthropicOnly = { strict: true, context_management: { edits: [] } }
const fetching = { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }
const rows = [
  ...lab.shared(),
  row('invalid_request', 'the body is not JSON', () => post(lab.weir, '{"model":', { path: messages })),
  row('invalid_request', 'a field is missing', echo({ max_tokens: undefined }), {
    param: 'max_tokens',
    tells: 'max_tokens: ',
  }),
  row('invalid_request', 'a field deep inside is wrong', said({ text: 'x' }), {
    param: 'messages.0.content.0.type',
  }),
  row('invalid_request', 'a block cannot be read', said({ type: 'hologram' }), {
    param: 'messages.0.content.0.type',
  }),
  row('invalid_request', 'a message thread is asked for', echo({ thread: { id: 'thread_1' } }), {
    param: 'thread',
    details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
    tells: 'send the whole conversation',
  }),
  row('unsupported_parameter', 'what only Anthropic knows must be honoured', echo(anthropicOnly), {
    param: 'context_management',
  }),
  row('unsupported_parameter', 'a provider would run a tool, for nobody knows how much', echo(fetching), {
    param: 'tools.0.type',
    tells: 'web_fetch_20250910',
  }),
  row('context_length_exceeded', 'in words that clients look for', 'lab/too-long', {
    tells: 'prompt is too long: maximum context length is 8192',
  }),
  row('wrong_endpoint', 'the model embeds', 'sim/embed', model),
  row('url_not_allowed', 'an image is at a private address', said(privateImage), {
    param: 'messages[0].content[0].source.url',
  }),
  row('url_not_allowed', "a document in a tool's result is at a private address", echo(privateResult), {
    param: 'messages[2].content[0].content[0].source.url',
  }),
  row('missing_api_key', 'in the words of the protocol', () => ask('sim/echo', {}, { key: '' }), {
    tells: 'x-api-key',
  }),
  row('missing_api_key', 'there is none to count tokens with', () => count('sim/echo', {}, { key: '' })),
  row('model_not_allowed', 'its tokens are to be counted', () =>
    count('lab/busy', {}, { key: lab.keys.narrow }),
  ),
  row('account_suspended', 'it counts tokens', () => count('sim/echo', {}, { key: lab.keys.suspended })),
  row('model_not_found', 'Anthropic has none of this name', 'claude-sonnet-4-55', {
    ...model,
    tells: 'anthropic/claude-sonnet-4-5',
  }),
  row('model_not_found', 'a name without a provider is not of Anthropic', () => count('gpt-4o'), {
    ...model,
    tells: 'openai/gpt-4o',
  }),
  row('not_found', 'batches are asked for', () => post(lab.weir, {}, { path: '/messages/batches' })),
  row('no_provider_available', 'the provider has no key here', 'claude-haiku-4-5', { lasting: true }),
  row(
    'rate_limit_exceeded',
    'the account has as many calls in flight as it may',
    () => oneTooMany('one', (key) => ask('lab/pausing', {}, { key })),
    { retryAfterMs: 1000 },
  ),
  row(
    'rate_limit_exceeded',
    'it counts tokens besides',
    () => oneTooMany('two', (key) => count('lab/pausing', {}, { key })),
    { retryAfterMs: 1000 },
  ),
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
        type: kindOf(code),
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
})
