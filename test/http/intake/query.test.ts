// Query parameters: known by the schema, once each.

import { expect, test } from 'bun:test'
import { z } from 'zod'
import { queryOf } from '../../../src/http/intake/read-body.ts'

const schema = z.strictObject({ q: z.string().optional() })
const asked = (query: string) => queryOf(schema, new Request(`http://weir/v1/x?${query}`))

test('a parameter is read, and an empty one counts as absent', () => {
  expect(asked('q=river')).toEqual({ q: 'river' })
  expect(asked('q=')).toEqual({})
})

test.each([
  ['q=a&q=b', 'q: It is there more than once.'],
  ['p=a', 'p: It is not known here.'],
  ['constructor=a', 'constructor: It is not known here.'],
  ['__proto__=a', '__proto__: It is not known here.'],
])('%s is refused: %s', (query, message) => {
  expect(() => asked(query)).toThrow(message)
})
