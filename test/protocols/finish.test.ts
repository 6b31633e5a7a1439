import { describe, expect, test } from 'bun:test'
import { failureOf, finishReasonOf } from '../../src/protocols/openai/usage.ts'

describe('a finish reason of a provider', () => {
  test.each(['constructor', 'toString', '__proto__', 'something_new'])(
    '%p does not finish an answer well',
    (word) => {
      expect(failureOf(word)).toBeUndefined()
      expect(finishReasonOf(word, 'none')).toBe('other')
      expect(finishReasonOf(word, 'whole')).toBe('tool_calls')
    },
  )

  test('is known in capitals and with words behind it', () => {
    expect(finishReasonOf('MAX_TOKENS', 'none')).toBe('length')
    expect(finishReasonOf('content_filter: RECITATION', 'none')).toBe('content_filter')
    expect(failureOf('function_call_filter: MALFORMED_FUNCTION_CALL')).toBe('unusable-output')
  })
})
