// Errors and warnings name the field that the client wrote, in its own protocol's words.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { errorFor, fieldOf } from '../../src/protocols/request/fields.ts'
import { asks, type Client, lowered, routeTo } from './routes.ts'

const cohere = routeTo('cohere', 'command-r', false)
const sound = { data: 'aWs=', format: 'wav' }

async function named(client: Client, more: JsonObject) {
  try {
    return (await lowered(asks(client, more), cohere)).warnings.map(({ param }) => param)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.code} ${error.details.param}`
  }
}

const assistant = { role: 'assistant', content: 'Yes.' }

describe('an error about a part', () => {
  test.each<[Client, JsonObject, string]>([
    [
      'chat',
      { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: sound }] }] },
      'messages[0].content',
    ],
    [
      'responses',
      {
        instructions: 'Be brief.',
        input: [
          { role: 'user', content: 'Hi' },
          { ...assistant },
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output: 'ok' },
          { role: 'user', content: [{ type: 'input_audio', input_audio: sound }] },
        ],
      },
      'input[4].content',
    ],
    [
      'messages',
      {
        system: 'Be brief.',
        messages: [
          { role: 'user', content: 'Hi' },
          assistant,
          { role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] },
        ],
      },
      'messages.2.content',
    ],
  ])('of a client of %s', async (client, more, param) => {
    expect(await named(client, more)).toStartWith(`unsupported_parameter ${param}`)
  })
})

describe('a warning about a parameter', () => {
  const schema = { type: 'object', properties: {} }

  test.each<[Client, JsonObject, string[]]>([
    ['responses', { text: { verbosity: 'low' } }, ['text.verbosity']],
    ['responses', { metadata: { a: 'b' }, user: 'u' }, ['user']],
    ['messages', { metadata: { user_id: 'u' } }, ['metadata.user_id']],
    ['messages', { thinking: { type: 'enabled', budget_tokens: 1024 } }, ['thinking']],
    ['messages', { stop_sequences: ['1', '2', '3', '4', '5', '6'] }, ['stop_sequences']],
    [
      'chat',
      { response_format: { type: 'json_schema', json_schema: { name: 'x', description: 'd', schema } } },
      ['response_format.json_schema.description'],
    ],
  ])('of a client of %s: %j', async (client, more, params) => {
    expect(await named(client, more)).toEqual(params)
  })

  test('is not about a message that was sent before', async () => {
    const { fields } = asks('responses', { input: [{ role: 'user', content: 'Hi' }] }).request
    expect(fields!.messages()).toEqual(['input[0]'])
  })

  test('that is not about one of them names what holds them all', () => {
    const { fields } = asks('responses', { input: '' }).request
    expect(fieldOf('messages', fields)).toBe('input')
  })
})

describe('a function that leaves `strict` out', () => {
  const route = routeTo('openai', 'gpt-5', true)
  const parameters = { type: 'object', properties: {} }
  const tool = { type: 'function', name: 'f', parameters }

  test.each<[JsonObject, JsonObject]>([
    [{}, {}],
    [{ strict: null }, {}],
    [{ strict: false }, { strict: false }],
    [{ strict: true }, { strict: true }],
  ])('of a client of Responses goes on as it is: %j', async (said, sent) => {
    const { body } = await lowered(asks('responses', { tools: [{ ...tool, ...said }] }), route)
    expect(body['tools']).toEqual([{ ...tool, ...sent }])
  })

  test('of a client of chat completions is not strict, as it is there', async () => {
    const { body } = await lowered(
      asks('chat', { tools: [{ type: 'function', function: { name: 'f', parameters } }] }),
      route,
    )
    expect(body['tools']).toEqual([{ ...tool, strict: false }])
  })
})

test('a name that is one letter is replaced where it stands for the field, and not within words', () => {
  const fields = { messages: () => [], names: { n: 'generationConfig.candidateCount' } }
  const message = "Only one answer can be made: leave 'n' out, or send n: 1."
  const error = errorFor(new GatewayError('unsupported_parameter', { message, param: 'n' }), fields)
  expect((error as GatewayError).message).toBe(
    "Only one answer can be made: leave 'generationConfig.candidateCount' out, or send generationConfig.candidateCount: 1.",
  )
})
