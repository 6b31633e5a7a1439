// What a provider's error means. The bodies marked (recorded) are from recordings; the others are written from the
// providers' documentation, for none was recorded.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { parseFrames } from '../../support/recordings.ts'
import { targetOf } from './dialects.ts'

const target = targetOf(defaultQuirks)

function faultOf(status: number, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return outbound.fault(status, new Headers(headers), text, target)
}

describe('the kind of a fault', () => {
  test.each([
    // what happened                       status  body                                                    kind
    [
      'OpenAI: context (code)',
      400,
      { error: { message: 'x', code: 'context_length_exceeded' } },
      'context-length',
    ],
    [
      'vLLM: context (words)',
      400,
      {
        object: 'error',
        message: "This model's maximum context length is 4096 tokens.",
        type: 'BadRequestError',
        code: 400,
      },
      'context-length',
    ],
    [
      'llama.cpp: context (type)',
      400,
      { error: { code: 400, type: 'exceed_context_size_error', message: 'x' } },
      'context-length',
    ],
    [
      'Mistral: context (numeric code)',
      400,
      { object: 'error', message: 'Prompt too large', type: 'invalid_request_prompt', code: 3051 },
      'context-length',
    ],
    [
      'Perplexity: context (recorded)',
      400,
      {
        error: {
          message: 'The total length of all messages is too long.',
          type: 'too_many_prompt_tokens',
          code: 400,
        },
      },
      'context-length',
    ],
    [
      'Azure: prompt filter (recorded)',
      400,
      {
        error: {
          message: 'filtered',
          code: 'content_filter',
          innererror: { code: 'ResponsibleAIPolicyViolation' },
        },
      },
      'content-filter',
    ],
    [
      'OpenAI: no such model (recorded)',
      404,
      { error: { message: 'The model `x` does not exist', code: 'model_not_found' } },
      'not-found',
    ],
    [
      'OpenRouter: no such model',
      400,
      { error: { message: 'foo/bar is not a valid model ID', code: 400 } },
      'not-found',
    ],
    [
      'xAI: bad key with status 400 (recorded shape)',
      400,
      { code: 'invalid-argument', error: 'Incorrect API key provided: xx***yy.' },
      'credentials',
    ],
    ['Mistral: bad key (recorded)', 401, { detail: 'Invalid API Key' }, 'credentials'],
    ['Azure: bad key (recorded)', 401, { error: { code: '401', message: 'Access denied' } }, 'credentials'],
    [
      'a region or a role refused',
      403,
      { error: { message: 'Country not supported', code: 'unsupported_country_region_territory' } },
      'credentials',
    ],
    [
      'OpenAI: account empty behind a 429',
      429,
      {
        error: {
          message: 'You exceeded your current quota',
          type: 'insufficient_quota',
          code: 'insufficient_quota',
        },
      },
      'quota',
    ],
    [
      'DeepSeek: account empty',
      402,
      { error: { message: 'Insufficient Balance', code: 'invalid_request_error' } },
      'quota',
    ],
    [
      'Moonshot: account empty',
      429,
      { error: { type: 'exceeded_current_quota_error', message: 'x' } },
      'quota',
    ],
    [
      'Groq: tokens per minute behind a 413',
      413,
      { error: { message: 'Request too large', code: 'rate_limit_exceeded' } },
      'rate-limited',
    ],
    [
      'Azure: rate limit (recorded)',
      429,
      { error: { code: 'RateLimitReached', message: 'x' } },
      'rate-limited',
    ],
    [
      'Anthropic-like overload',
      529,
      { error: { type: 'overloaded_error', message: 'Overloaded' } },
      'overloaded',
    ],
    ['503', 503, { error: { message: 'Service unavailable' } }, 'overloaded'],
    [
      '500 that quotes the prompt',
      500,
      { error: { message: 'failed on: maximum context length is' } },
      'broken',
    ],
    ['504', 504, '<html><h1>504 Gateway Time-out</h1></html>', 'timeout'],
    ['HTML from a proxy', 502, '<html><h1>502 Bad Gateway</h1></html>', 'broken'],
    ['HTML with a 400', 400, '<html>cloudflare</html>', 'broken'],
    ['an empty body', 500, '', 'broken'],
    ['an empty 429', 429, '', 'rate-limited'],
    [
      'Google: wrapped in an array',
      400,
      [{ error: { code: 400, message: 'Bad field', status: 'INVALID_ARGUMENT' } }],
      'invalid-request',
    ],
    [
      'Cloudflare: a list of errors',
      400,
      { success: false, errors: [{ code: 5006, message: 'bad input' }] },
      'invalid-request',
    ],
    [
      'Groq: the model wrote a wrong call (recorded)',
      400,
      { error: { message: 'Tool call validation failed', code: 'tool_use_failed', failed_generation: '{}' } },
      'unusable-output',
    ],
    [
      'llama.cpp: an image for a model that takes none',
      500,
      { error: { code: 500, message: 'image input is not supported - hint: …', type: 'server_error' } },
      'invalid-request',
    ],
    [
      'OpenRouter: no endpoint takes images',
      404,
      { error: { message: 'No endpoints found that support image input', code: 404 } },
      'invalid-request',
    ],
    ['plain text with a 422', 422, 'top_k must be positive', 'invalid-request'],
    ['an empty 400', 400, '', 'broken'],
    [
      'any other 400',
      400,
      { error: { message: 'Unsupported parameter', param: 'max_tokens', code: 'unsupported_parameter' } },
      'invalid-request',
    ],
  ] as const)('%s is told apart', (_, status, body, kind) => {
    expect(faultOf(status, body)).toMatchObject({ kind, status })
  })

  // The words are those of the providers' documentation and of reports by their users.
  test.each([
    ["This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."],
    ['Your input exceeds the context window of this model. Please adjust your input and try again.'],
    ["You passed 5001 input tokens. However, the model's context length is only 5000 tokens."],
    ['The decoder prompt (length 5012) is longer than the maximum model length of 4096.'],
    ["The input (5000 tokens) is longer than the model's context length (4096 tokens)."],
    ["Requested token count exceeds the model's maximum context length of 4096 tokens."],
    ['Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5013'],
    ['Input validation error: `inputs` must have less than 4095 tokens. Given: 5000'],
    ['Trying to keep the first 5000 tokens when context the overflows.'],
    ['The number of tokens to keep from the initial prompt is greater than the context length.'],
    ['request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it'],
    ['Prompt contains 50000 tokens, too large for model with 32768 maximum context length'],
    ['Please reduce the length. Current length is 8193 while limit is 8192'],
    ["This model's maximum prompt length is 131072 but the request contains 537812 tokens."],
    ['The prompt is too long: 140000, model maximum context length: 131071'],
    ['Range of input length should be [1, 30720]'],
    ['Prompt exceeds max length'],
    ['Invalid request: Your request exceeded model token limit: 8192'],
    ['the maximum supported sequence length is just 1024!'],
    ['Requested input length 5000 exceeds maximum input length 4096'],
    ['The estimated number of tokens (8194) exceeded this model context window limit (7968).'],
    ['prompt token count of 70000 exceeds the limit of 64000'],
    ['invalid params, context window exceeds limit'],
    ['Input token count + max_tokens parameter must be less than the context length'],
  ])('context-length in words: %s', (message) => {
    for (const status of [400, 403, 413, 422]) {
      expect(faultOf(status, { error: { message, type: 'BadRequestError', code: status } })).toMatchObject({
        kind: 'context-length',
        message,
      })
    }
  })

  test.each([
    // what is not about the conversation as a whole
    ['n exceeds the limit of 4'],
    ["Invalid 'stop[0]': string exceeds max length of 32"],
    ['max_tokens must be at most 4096'],
    ["Invalid 'tools[0].function.name': string too long"],
  ])('a fault of the request: %s', (message) => {
    expect(faultOf(400, { error: { message } }).kind).toBe('invalid-request')
  })

  test.each([
    ['OpenRouter: flagged', 403, { error: { code: 403, message: 'Your input was flagged for "violence"' } }],
    [
      'OpenAI: flagged',
      400,
      { error: { message: 'your prompt was flagged as potentially violating our usage policy' } },
    ],
    ['Alibaba: inspected', 400, { error: { message: 'Input data may contain inappropriate content.' } }],
    ['xAI: refused', 403, { code: 'x', error: 'Content violates usage guidelines. Failed check: SAFETY' }],
  ] as const)('%s is content-filter, not our key', (_, status, body) => {
    expect(faultOf(status, body).kind).toBe('content-filter')
  })

  test.each([
    // whose fault it is where the words say no more
    [409, 'broken'],
    [412, 'broken'],
    [413, 'invalid-request'],
    [422, 'invalid-request'],
    [424, 'broken'],
    [498, 'overloaded'],
    [499, 'cut'],
    [524, 'timeout'],
  ] as const)('status %d is %s', (status, kind) => {
    expect(faultOf(status, { error: { message: 'no' } }).kind).toBe(kind)
  })

  test.each([
    // what text-generation-inference calls them, in a stream that has no status
    [{ error: 'Model is overloaded', error_type: 'overloaded' }, 'overloaded'],
    [{ error: 'bad grammar', error_type: 'validation' }, 'invalid-request'],
    [{ error: 'generation failed', error_type: 'generation' }, 'broken'],
  ] as const)('%j in a stream is %s', (body, kind) => {
    const frames = [{ event: 'error', data: JSON.stringify(body) }]
    expect(collect(parseFrames(outbound.parser(target), frames)).fault?.kind).toBe(kind)
  })

  test('what broke an answer off stands beside the part of it that there is', () => {
    const error = { code: 429, message: 'Slow down.' }
    const message = { role: 'assistant', content: 'Half of' }
    const body = { choices: [{ index: 0, error, message, finish_reason: 'error' }] }
    const { fault } = collect(outbound.whole({ ...body, usage: { prompt_tokens: 3 } }, target))
    expect(fault).toMatchObject({ kind: 'rate-limited', message: 'Slow down.' })
  })

  test('a 413 without a word is the caller’s', () => {
    expect(faultOf(413, '')).toMatchObject({
      kind: 'invalid-request',
      message: 'The request is too large for the provider.',
    })
  })

  const detail = [
    { type: 'extra_forbidden', loc: ['body', 'messages', 1, 'user', 'name'], msg: 'Extra inputs' },
  ]
  test.each([
    [
      'Mistral: a list inside the message',
      { object: 'error', message: { detail }, type: 'invalid_request_error' },
    ],
    ['Mistral: the same as text', { object: 'error', message: JSON.stringify({ detail }), code: '1000' }],
    ['Mistral: the same twice', { object: 'Error', detail, message: detail, code: 3001 }],
    ['FastAPI: a list', { detail }],
    ['FastAPI: an object', { detail: { error: 'Extra inputs' } }],
    ['FastAPI: a list of texts', { detail: ['Extra inputs'] }],
    ['Hugging Face: a list of texts', { error: ['Extra inputs'], warnings: [] }],
    ['Databricks: its own code', { error_code: 'BAD_REQUEST', message: 'Extra inputs' }],
    ['Z.ai: msg', { code: 1210, msg: 'Extra inputs', success: false }],
    ['NVIDIA: a problem', { type: 'urn:x', title: 'Bad', status: 422, detail: 'Extra inputs' }],
  ])('%s is read', (_, body) => {
    expect(faultOf(422, body)).toMatchObject({ kind: 'invalid-request', message: 'Extra inputs' })
  })

  test('an error without words keeps the meaning of its status', () => {
    expect(faultOf(400, { error: {} }).kind).toBe('invalid-request')
    expect(faultOf(401, { error: { type: 'x' } }).kind).toBe('credentials')
  })

  test('names the field and the code where the provider does', () => {
    expect(
      faultOf(400, { error: { message: 'no', param: 'max_tokens', code: 'unsupported_parameter' } }),
    ).toMatchObject({
      message: 'no',
      param: 'max_tokens',
      providerCode: 'unsupported_parameter',
    })
    expect(faultOf(422, { detail: [{ loc: ['body', 'messages', 0], msg: 'field required' }] })).toMatchObject(
      {
        kind: 'invalid-request',
        message: 'field required',
        param: 'messages.0',
      },
    )
  })

  test('tells the words of the provider behind OpenRouter, not that there was an error', () => {
    const body = {
      error: { message: 'Provider returned error', code: 429, metadata: { raw: 'rate-limited upstream' } },
    }
    expect(faultOf(429, body).message).toBe('rate-limited upstream')
  })

  test('never passes a page of HTML on', () => {
    expect(faultOf(502, '<html>secret</html>').message).toBe('HTTP 502 without an error in JSON')
  })
})

describe('how long to wait', () => {
  test.each([
    // headers                                                                              milliseconds
    [{ 'retry-after': '3' }, 3000],
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    [{ 'retry-after-ms': '0', 'retry-after': '1' }, 1000],
    [{ 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '17.399999999s' }, 17_400],
    [{ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s' }, 360_000],
    [{ 'x-ratelimit-remaining-requests': '12', 'x-ratelimit-reset-requests': '2ms' }, undefined],
    [{ 'retry-after': 'soon' }, undefined],
    [{ 'retry-after': '7.5s' }, 7_500],
    [{ 'x-ratelimit-remaining-tokens-minute': '0', 'x-ratelimit-reset-tokens-minute': '11.382' }, 11_382],
    [{}, undefined],
  ] as const)('%p says %p', (headers, expected) => {
    expect(faultOf(429, { error: { message: 'x' } }, headers).retryAfterMs).toBe(expected)
  })

  test.each([
    ['Rate limit reached. Please try again in 7m12s. Visit https://example.com', 432_000],
    ['Please try again in 1.5s.', 1_500],
    ['Please try again in 200ms.', 200],
    ['Please retry after 6 seconds.', 6_000],
    ['Please wait 52 seconds before retrying.', 52_000],
    ['Try again in about 2 minutes', 120_000],
    ['Try again in 3 parsecs', undefined],
    ['Try again later', undefined],
  ])('%p says %p where no header does', (message, expected) => {
    expect(faultOf(429, { error: { message } }).retryAfterMs).toBe(expected)
    expect(faultOf(429, { error: { message } }, { 'retry-after': '3' }).retryAfterMs).toBe(3_000)
  })

  test('the headers that OpenRouter repeats in its error count, whatever stands in them', () => {
    const body = (headers: unknown) => ({ error: { message: 'x', code: 429, metadata: { headers } } })
    const reset = { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': String(Date.now() + 60_000) }
    expect(faultOf(429, body(reset)).retryAfterMs).toBeGreaterThan(50_000)
    expect(faultOf(429, body({ 'retry-after': '1\n2', 'no header': 3, 'x-y': null })).retryAfterMs).toBe(
      undefined,
    )
  })

  test('a date and a time since 1970 are waits from now', () => {
    const later = Date.now() + 60_000
    const bySeconds = faultOf(429, '', {
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': String(Math.ceil(later / 1000)),
    }).retryAfterMs
    const byDate = faultOf(429, '', { 'retry-after': new Date(later).toUTCString() }).retryAfterMs
    const byEpoch = faultOf(429, '', {
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(later),
    }).retryAfterMs
    for (const wait of [byDate, byEpoch, bySeconds]) {
      expect(wait).toBeGreaterThan(50_000)
      expect(wait).toBeLessThanOrEqual(61_000)
    }
  })
})
