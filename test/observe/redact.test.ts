// S29: a secret of ours does not leave in anybody's words, whatever form they quote it in.

import { describe, expect, test } from 'bun:test'
import { secretFilter } from '../../src/observe/log.ts'
import { processorMsOf } from '../support/processor-time.ts'

const key = ['sk', 'proj', 'A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6'].join('-')
const plain = 'Zq9xWv7uTs5rQp3oNm1lKj8iHg6fEd4c'
const odd = 'p/q+r=s&t u%v"w\\xyz-0123456789'
const aws = ['AKIAABCDEFGHIJ234567', 'wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY'].join(':')
const filter = secretFilter([key, plain, odd, aws, 'Basic ' + btoa('user:pass-of-basic'), 'short'])

describe('S29 a secret', () => {
  test.each([
    ['whole', `Incorrect API key provided: ${key}.`],
    ['masked, with its end', `Incorrect API key provided: sk-proj-********************O5p6.`],
    ['masked, with more of its end', `Incorrect API key provided: sk-proj-A1b2...3n4O5p6`],
    ['masked, with its beginning', `Bad key ${key.slice(0, 12)}…`],
    ['cut short', `{"error":"Bad key ${key.slice(0, 20)}`],
    ['without its beginning', `ends in ${key.slice(-14)}`],
    ['of no known form', `token ${plain} is bad`],
    ['of no known form, masked', `token Zq9x****Ed4c is bad`],
    ['of no known form, only its end', `token ...fEd4c is bad`],
    ['in a URL', `GET /v1?key=${encodeURIComponent(odd)}`],
    ['in JSON', JSON.stringify({ error: odd })],
    ['in base64', btoa(plain)],
    ['in basic authentication', `Basic ${btoa(`:${plain}`)}`],
    ['that is part of another', `signature of wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY`],
    ['as a password', `no user with pass-of-basic`],
    ['of somebody else, by its form', `bad key ${['gsk', 'q1w2e3r4t5y6u7i8o9p0'].join('_')}`],
  ])('%s', (_, text) => {
    const clean = filter(text)
    expect(clean).toContain('[redacted]')
    for (const part of ['O5p6', 'A1b2', 'Ed4c', 'Zq9x', '0123456789', 'XUtn', 'pass-of', 'q1w2'])
      expect(clean).not.toContain(part)
  })
})

test.each([
  "Invalid value: 'developer'. Supported values are: 'system', 'assistant', 'user'.",
  'Unexpected token: expected a number at messages[0].content...',
  'This model’s maximum context length is 128000 tokens. However, your messages resulted in 128,001 tokens.',
  "tools[0].function.name 'key_value_store_get_2' is too long",
  'image_url: https://example.com/sk-1/a.png could not be fetched',
  'short of credit',
])('what is no secret stays: %s', (text) => {
  expect(filter(text)).toBe(text)
})

test('a long text is read in no time', () => {
  // As long as the longest line of the log.
  const rows = ['*', 'a', 'sk-', '.', 'sk-proj-', 'sk-proj-A1b2C3d', 'sk-a*', 'eyJhbGciOiJ.'].map((unit) =>
    unit.repeat(8192 / unit.length),
  )
  for (const text of rows) {
    expect([text.slice(0, 8), processorMsOf(() => filter(text)) < 100]).toEqual([text.slice(0, 8), true])
  }
})
