// A provider that refuses in every way that providers have, and tells things that no caller may see.

import { plain, type Script } from './scripted-provider.ts'

/** What stands in the words of every failure; it must reach nobody where the fault is the provider's. */
export const leak = 'PROVIDER-INTERNALS'

/** Answers with a status and an error: of chat completions, or the text of a page. */
export const refuses =
  (status: number, error: object | string, headers: Readonly<Record<string, string>> = {}): Script =>
  async (wire) => {
    const [type, body] =
      typeof error === 'string'
        ? ['text/html', error]
        : ['application/json', JSON.stringify({ error: { message: leak, ...error } })]
    await wire.write(plain(status, type, body, headers))
    wire.end()
  }

/** By the name of the model. */
export const failures: Readonly<Record<string, Script>> = {
  limited: refuses(429, { type: 'rate_limit_error' }, { 'retry-after': '7' }),
  'limited-ms': refuses(429, {}, { 'retry-after-ms': '1500', 'retry-after': '2' }),
  'no-key': refuses(401, { code: 'invalid_api_key' }),
  forbidden: refuses(403, { type: 'permission_error' }),
  'no-money': refuses(402, { code: 'insufficient_quota' }),
  quota: refuses(429, { code: 'insufficient_quota' }),
  broken: refuses(500, {}),
  'broken-html': refuses(500, `<html>${leak}</html>`),
  'broken-text': refuses(502, leak),
  busy: refuses(503, {}),
  'too-long': refuses(400, {
    message: 'maximum context length is 8192 tokens',
    code: 'context_length_exceeded',
  }),
  filtered: refuses(400, { message: 'The prompt was refused.', code: 'content_policy_violation' }),
  strict: refuses(400, { message: 'top_k is too high', param: 'top_k', type: 'invalid_request_error' }),
  retired: refuses(404, { code: 'model_not_found' }),
  'bad-call': refuses(400, { message: 'Failed to call a function.', code: 'tool_use_failed' }),
  'no-eyes': refuses(500, { message: 'image input is not supported - hint: use another model' }),
  'said-in-text': async (wire) => {
    await wire.write(plain(422, 'text/plain', 'temperature must be at most 1'))
    wire.end()
  },
  silent: () => undefined,
}
