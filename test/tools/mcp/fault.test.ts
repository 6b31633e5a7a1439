// What is said of a server that failed: short, on one line, and without the words of the runtime.

import { expect, test } from 'bun:test'
import { faultOf } from '../../../src/tools/mcp/connection.ts'

test.each<[string, Error, string]>([
  [
    'a connection that broke',
    new Error('fetch failed', {
      cause: Object.assign(new TypeError('ECONNRESET: pass `verbose: true`'), { code: 'ECONNRESET' }),
    }),
    'the server closed the connection',
  ],
  [
    'an error of JSON-RPC',
    Object.assign(new Error('no\nsuch\u001b[31m tool'), { code: -32602 }),
    'the server reports: no such [31m tool',
  ],
  ['a status', Object.assign(new Error('oh'), { status: 503 }), 'the server answered HTTP 503'],
  [
    'a permission that lacks',
    Object.assign(new Error('Insufficient scope'), { requiredScope: 'files:write' }),
    'the server has to be authorised again, for more than now: files:write',
  ],
])('%s', (_, error, message) => {
  expect(faultOf(error).message).toBe(message)
})
