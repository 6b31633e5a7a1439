// S3: every place of every protocol where a client may write text is known to be words, or may hold an address. A field
// that is new in a schema fails here until somebody has said which.

import { expect, test } from 'bun:test'
import { z } from 'zod'
import type { Parts, Place } from '../../src/protocols/request/prompt-parts.ts'
import { addresses as messages } from '../../src/protocols/anthropic-messages/inbound/read.ts'
import { messagesRequest } from '../../src/protocols/anthropic-messages/inbound/schema.ts'
import { addresses as chat, embeddingAddresses } from '../../src/protocols/openai-chat/inbound/read.ts'
import { inbound as gemini } from '../../src/protocols/gemini/inbound/inbound.ts'
import { generateContentRequest } from '../../src/protocols/gemini/inbound/schema.ts'
import { embeddingRequest } from '../../src/protocols/embeddings/openai.ts'
import { chatCompletionRequest } from '../../src/protocols/openai-chat/inbound/schema.ts'
import { addresses as responses } from '../../src/protocols/openai-responses/inbound/read.ts'
import {
  inbound as textCompletions,
  textCompletionRequest,
} from '../../src/protocols/openai-completions/inbound.ts'
import { responsesRequest } from '../../src/protocols/openai-responses/inbound/schema.ts'

/** Every way to a free text in a schema; lists are transparent, as in the descriptions. */
function textsOf(schema: z.core.$ZodType, path: readonly string[] = []): string[][] {
  const { def } = schema._zod as unknown as { def: Record<string, unknown> & { type: string } }
  const inner = (type: unknown) => textsOf(type as z.core.$ZodType, path)
  switch (def.type) {
    case 'string':
      return [[...path]]
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
      return inner(def['innerType'])
    case 'lazy':
      return inner((def['getter'] as () => unknown)())
    case 'array':
      return inner(def['element'])
    case 'record':
      return textsOf(def['valueType'] as z.core.$ZodType, path)
    case 'union':
      return (def['options'] as unknown[]).flatMap(inner)
    case 'object':
      return Object.entries(def['shape'] as Record<string, z.core.$ZodType>).flatMap(([member, type]) =>
        textsOf(type, [...path, member]),
      )
    case 'number':
    case 'int':
    case 'boolean':
    case 'enum':
    case 'literal':
    case 'unknown':
      return []
    default:
      throw new Error(`a kind of schema that this test does not know: ${def.type}`)
  }
}

/** What a description says of a way; undefined where it says nothing. */
function placeAt(root: Parts, path: readonly string[]): Place | 'never-sent' | undefined {
  let at: Place = root
  for (const member of path) {
    if (typeof at === 'string') return at
    const next: Place | undefined = Object.hasOwn(at.fields, member) ? at.fields[member] : undefined
    if (next === undefined) return at.others === 'never-sent' ? 'never-sent' : undefined
    at = next
  }
  return at
}

const described: readonly [name: string, schema: z.ZodType, places: Parts][] = [
  ['chat completions', chatCompletionRequest, chat],
  ['text completions', textCompletionRequest, textCompletions.addresses],
  ['generateContent', generateContentRequest, gemini.addresses],
  ['embeddings', embeddingRequest, embeddingAddresses],
  ['messages', messagesRequest, messages],
]

test.each(described)('S3 every text of %s is described', (_, schema, places) => {
  const texts = textsOf(schema)
  expect(texts.length).toBeGreaterThan(3)
  const unknown = texts.filter((path) => placeAt(places, path) === undefined).map((path) => path.join('.'))
  expect([...new Set(unknown)]).toEqual([])
})

test('S3 of responses, whose unknown fields no provider is sent, every text of media is', () => {
  const media = textsOf(responsesRequest).filter((path) =>
    /url$|_data$|^data$|file|image|audio/.test(path.at(-1)!),
  )
  const named = media.map((path) => {
    const place = placeAt(responses, path)
    return [path.join('.'), typeof place === 'object' ? place.text : place] as const
  })
  expect(Object.fromEntries(named)).toEqual({
    'input.content.image_url': 'address',
    'input.content.file_id': 'reference',
    'input.content.file_data': 'data',
    'input.content.file_url': 'address',
    'input.content.filename': 'never-sent',
    'input.content.input_audio.data': 'data',
    'input.output.image_url': 'address',
    'input.output.file_id': 'reference',
    'input.output.file_data': 'data',
    'input.output.file_url': 'address',
    'input.output.filename': 'never-sent',
    'input.output.input_audio.data': 'data',
  })
})

test('S3 whatever is called a URL in a schema is an address', () => {
  for (const [, schema, places] of described) {
    for (const path of textsOf(schema).filter((way) => /url$/i.test(way.at(-1)!))) {
      const place = placeAt(places, path)
      expect([path.join('.'), typeof place === 'object' && place !== null ? place.text : place]).toEqual([
        path.join('.'),
        'address',
      ])
    }
  }
})
