import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/errors/errors.ts'
import { checkHeaders } from '../../src/http/intake/answer.ts'

function codeOf(headers: Readonly<Record<string, string>>, maxBytes = 1_000): string | undefined {
  try {
    checkHeaders(new Headers(headers), maxBytes)
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

describe('headers', () => {
  test.each([
    'localhost',
    'localhost:8787',
    '127.0.0.1',
    '[::1]',
    '[::1]:80',
    'gw',
    'weir_1.internal',
    'A.B-C.example:443',
  ])('with the host %s pass', (host) => expect(codeOf({ host })).toBeUndefined())

  test.each([
    '',
    ' ',
    'a b',
    'a/b',
    'a?b',
    'a#b',
    'a@b',
    'a\\b',
    'a:b',
    'a:123456',
    'a, b',
    'a,b',
    '-a',
    '.a',
    '[::1',
    '::1',
    'a%00',
    '1.2.3.999',
    '1.2.3.4.5',
    '999999999999',
    '[:::]',
    '[1::2::3]',
    'xn--a',
    'a:99999',
    'é',
  ])('with the host %p are refused', (host) => expect(codeOf({ host })).toBe('invalid_request'))

  test('without a host are refused', () => expect(codeOf({})).toBe('invalid_request'))

  test.each(['5, 5', '+5', '-5', '0x5', '', '1e3', '9'.repeat(16)])(
    'with the length %p are refused',
    (length) => expect(codeOf({ host: 'a', 'content-length': length })).toBe('invalid_request'),
  )

  test('are measured together, names and separators included', () => {
    expect(codeOf({ host: 'a', 'x-a': 'v'.repeat(980) }, 1_000)).toBeUndefined()
    expect(codeOf({ host: 'a', 'x-a': 'v'.repeat(985) }, 1_000)).toBe('headers_too_large')
  })
})
