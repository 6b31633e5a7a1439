// What a provider's error means. The bodies marked (recorded) are from recordings; the others are written from the
// providers' documentation, for none was recorded.

import { describe, expect, test } from 'bun:test'
import { outbound } from '../../../src/protocols/openai-chat/outbound.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/quirks.ts'
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
      'broken',
    ],
    [
      'any other 400',
      400,
      { error: { message: 'Unsupported parameter', param: 'max_tokens', code: 'unsupported_parameter' } },
      'invalid-request',
    ],
  ] as const)('%s is told apart', (_, status, body, kind) => {
    expect(faultOf(status, body)).toMatchObject({ kind, status })
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
    [{}, undefined],
  ] as const)('%p says %p', (headers, expected) => {
    expect(faultOf(429, { error: { message: 'x' } }, headers).retryAfterMs).toBe(expected)
  })

  test('a date and a time since 1970 are waits from now', () => {
    const later = Date.now() + 60_000
    const byDate = faultOf(429, '', { 'retry-after': new Date(later).toUTCString() }).retryAfterMs
    const byEpoch = faultOf(429, '', {
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(later),
    }).retryAfterMs
    for (const wait of [byDate, byEpoch]) {
      expect(wait).toBeGreaterThan(50_000)
      expect(wait).toBeLessThanOrEqual(61_000)
    }
  })
})
