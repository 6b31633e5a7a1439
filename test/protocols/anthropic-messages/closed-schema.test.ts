// A schema as Claude's grammar takes it: closed, flat of recursion, its other constraints described in words.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { closedSchema } from '../../../src/protocols/claude/tools.ts'
import { outbound as claude } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { outbound as bedrock } from '../../../src/protocols/bedrock-converse/parse.ts'
import { chat, user } from '../../support/conversation.ts'
import { target as bedrockTarget } from '../bedrock-converse/support.ts'
import { target } from './support.ts'

const string = { type: 'string' }
const objectOf = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
})
const closed = (properties: JsonObject, more: JsonObject = {}): JsonObject =>
  objectOf(properties, { ...more, additionalProperties: false })

describe('what can be said', () => {
  test.each<readonly [string, JsonObject, JsonObject]>([
    ['an open object is closed', objectOf({ a: string }), closed({ a: string })],
    [
      'even if open on purpose',
      objectOf({ a: string }, { additionalProperties: true }),
      closed({ a: string }),
    ],
    ['at every depth', objectOf({ a: objectOf({ b: string }) }), closed({ a: closed({ b: string }) })],
    [
      'in lists and alternatives',
      objectOf({ a: { type: 'array', items: { anyOf: [objectOf({ b: string }), { type: 'null' }] } } }),
      closed({ a: { type: 'array', items: { anyOf: [closed({ b: string }), { type: 'null' }] } } }),
    ],
    [
      'in definitions, whose references stay',
      objectOf({ a: { $ref: '#/$defs/b' } }, { $defs: { b: objectOf({ c: string }) } }),
      closed({ a: { $ref: '#/$defs/b' } }, { $defs: { b: closed({ c: string }) } }),
    ],
    [
      'an object that may be null',
      { ...objectOf({ a: string }), type: ['object', 'null'] },
      { ...closed({ a: string }), type: ['object', 'null'] },
    ],
    ['an object without its type', { properties: { a: string } }, closed({ a: string })],
    ['no arguments at all', closed({}), closed({})],
    ['one of', { oneOf: [string, { type: 'null' }] }, { anyOf: [string, { type: 'null' }] }],
    [
      'enumerations and constants',
      objectOf({ a: { enum: ['x', null] }, b: { const: 1 } }),
      closed({ a: { enum: ['x', null] }, b: { const: 1 } }),
    ],
    [
      'a reference that was wrapped for its description',
      objectOf({ a: { allOf: [{ $ref: '#/$defs/b' }], description: 'd' } }, { $defs: { b: string } }),
      closed({ a: { $ref: '#/$defs/b' } }, { $defs: { b: string } }),
    ],
    ['formats it knows', { type: 'string', format: 'date' }, { type: 'string', format: 'date' }],
    [
      'a list that is not empty',
      { type: 'array', items: string, minItems: 1 },
      { type: 'array', items: string, minItems: 1 },
    ],
    [
      'nothing of the dialect',
      { $schema: 'https://json-schema.org/draft/2020-12/schema', ...string },
      string,
    ],
  ])('%s', (_, schema, expected) => {
    expect(closedSchema(schema)).toEqual({ schema: expected, described: [] })
  })

  test.each<readonly [string, JsonObject, string, string[]]>([
    [
      'bounds',
      { type: 'integer', minimum: 1, maximum: 5 },
      '{minimum: 1, maximum: 5}',
      ['maximum', 'minimum'],
    ],
    [
      'patterns, after what was said',
      { type: 'string', description: 'A code.', pattern: '^a' },
      'A code.\n\n{pattern: "^a"}',
      ['pattern'],
    ],
    ['formats it does not know', { type: 'string', format: 'iban' }, '{format: "iban"}', ['format']],
    ['lengths of lists', { type: 'array', items: string, minItems: 2 }, '{minItems: 2}', ['minItems']],
  ])('%s are described in words', (_, schema, description, described) => {
    const made = closedSchema(objectOf({ a: schema }))
    expect((made!.schema['properties'] as { a: JsonObject }).a['description']).toBe(description)
    expect(made?.described).toEqual(described)
  })
})

test.each<readonly [string, JsonObject]>([
  ['keys that nobody knows', objectOf({ a: { type: 'object', additionalProperties: string } })],
  ['any object', { type: 'object' }],
  ['all of several', { allOf: [objectOf({ a: string }), objectOf({ b: string })] }],
  ['an object in two places', objectOf({ a: string }, { anyOf: [objectOf({ b: string })] })],
  ['any value', objectOf({ a: {} })],
  [
    'a definition inside itself',
    objectOf({ a: { $ref: '#/$defs/a' } }, { $defs: { a: objectOf({ a: { $ref: '#/$defs/a' } }) } }),
  ],
  ['a schema inside itself', objectOf({ a: { $ref: '#' } })],
])('%s cannot be said', (_, schema) => {
  expect(closedSchema(schema)).toBeUndefined()
})

describe('a request', () => {
  const format = (schema: JsonObject) =>
    ({ kind: 'json-schema', name: 'x', description: undefined, schema, strict: undefined }) as const
  const asked = (schema: JsonObject) => chat({ messages: [user('Hi')], responseFormat: format(schema) })

  test('for an answer of an open shape is not refused by Claude, wherever it is hosted', () => {
    const schema = objectOf({ a: { type: 'integer', minimum: 1 } })
    const made = closedSchema(schema)!.schema
    const direct = claude.lower(asked(schema), target())
    expect(direct.body['output_config']).toEqual({ format: { type: 'json_schema', schema: made } })
    expect(direct.warnings.map(({ param }) => param)).toEqual(['response_format'])
    const hosted = bedrock.lower(asked(schema), bedrockTarget())
    expect(JSON.stringify(hosted.body['outputConfig'])).toContain(JSON.stringify(JSON.stringify(made)))
    expect(hosted.warnings.map(({ param }) => param)).toEqual(['response_format'])
  })

  test('for an answer of a shape that cannot be said gets it as a call', () => {
    const schema = { type: 'object', additionalProperties: string }
    const direct = claude.lower(asked(schema), target())
    expect(direct.body).not.toHaveProperty('output_config')
    expect((direct.body['tools'] as JsonObject[])[0]!['input_schema']).toEqual(schema)
    expect(bedrock.lower(asked(schema), bedrockTarget()).body).not.toHaveProperty('outputConfig')
  })

  test('with strict tools has them closed, or not strict', () => {
    const tool = (name: string, parameters: JsonObject | undefined) =>
      ({ name, description: undefined, parameters, strict: true, cache: undefined }) as const
    const { body, warnings } = claude.lower(
      chat({
        messages: [user('Hi')],
        tools: [
          tool('a', objectOf({ b: string })),
          tool('none', undefined),
          tool('open', { type: 'object' }),
        ],
      }),
      target(),
    )
    expect(body['tools']).toEqual([
      { name: 'a', input_schema: closed({ b: string }), strict: true },
      { name: 'none', input_schema: closed({}), strict: true },
      { name: 'open', input_schema: { type: 'object' } },
    ])
    expect(warnings.map(({ message }) => message)).toEqual([
      'This model cannot be held to the schema of open: it is not strict.',
    ])
  })
})
