// What agents send: much that they have read, many tools, and the same beginning turn after turn.

import { another } from './wrk.ts'

/** About as many characters of what agents read: code and prose, with line ends and quotes. */
export function reading(characters: number): string {
  const line =
    'if (river.isHigh("weir")) { return "open the gate" } // It runs to the sea, as it always ran.\n'
  return line.repeat(Math.ceil(characters / line.length))
}

/** A turn of an agent that has read much: with another beginning each time, or the one that was sent before. */
export function turnOf(characters: number, beginning: string) {
  const half = characters / 2
  return {
    messages: [
      { role: 'system', content: `You write programs. ${beginning}\n${reading(half)}` },
      ...Array.from({ length: 20 }, (_, at) => ({
        role: at % 2 === 0 ? 'user' : 'assistant',
        content: reading(half / 20),
      })),
      { role: 'user', content: 'Go on, please.' },
    ],
  }
}

const parameters = {
  type: 'object',
  properties: {
    path: { type: 'string', description: 'Where the file is, from the root of the project.' },
    lines: { type: 'array', items: { type: 'integer' }, description: 'The first and the last line, from 1.' },
    mode: { type: 'string', enum: ['read', 'write', 'append'] },
  },
  required: ['path'],
  additionalProperties: false,
}
const definitions = Array.from({ length: 40 }, (_, at) => ({
  name: `tool_${at}`,
  description: reading(300),
  parameters,
}))
const instructions = `You write programs.\n${reading(12_000)}`
const given = (at: number) => ({ path: `src/gate${at}.ts`, lines: [1, 200], mode: 'read' })
const nextWords = `Go on, please: ${another}`
const turns = <Item>(count: number, turn: (at: number) => readonly Item[]) =>
  Array.from({ length: count }, (_, at) => turn(at)).flat()

/** 28 kB of tools, in the form of chat completions. */
export const tools = definitions.map((definition) => ({ type: 'function', function: definition }))

/** A conversation of so many calls of tools and their results, 4 kB each; what is said last differs each time. */
export const conversations = {
  chat: (count: number) => ({
    tools,
    messages: [
      { role: 'system', content: instructions },
      { role: 'user', content: 'Mend the gate.' },
      ...turns<object>(count, (at) => [
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: `call_${at}`,
              type: 'function',
              function: { name: `tool_${at % 40}`, arguments: JSON.stringify(given(at)) },
            },
          ],
        },
        { role: 'tool', tool_call_id: `call_${at}`, content: reading(4_000) },
      ]),
      { role: 'user', content: nextWords },
    ],
  }),
  messages: (count: number) => ({
    tools: definitions.map(({ parameters: schema, ...definition }) => ({
      ...definition,
      input_schema: schema,
    })),
    system: [{ type: 'text', text: instructions, cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Mend the gate.' }] },
      ...turns<object>(count, (at) => [
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'I read.' },
            { type: 'tool_use', id: `toolu_${at}`, name: `tool_${at % 40}`, input: given(at) },
          ],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: `toolu_${at}`,
              content: [{ type: 'text', text: reading(4_000) }],
            },
          ],
        },
      ]),
      { role: 'user', content: [{ type: 'text', text: nextWords }] },
    ],
  }),
  responses: (count: number) => ({
    store: false,
    instructions,
    tools: definitions.map((definition) => ({ type: 'function', ...definition, strict: false })),
    input: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Mend the gate.' }] },
      ...turns<object>(count, (at) => [
        {
          type: 'function_call',
          call_id: `call_${at}`,
          name: `tool_${at % 40}`,
          arguments: JSON.stringify(given(at)),
        },
        { type: 'function_call_output', call_id: `call_${at}`, output: reading(4_000) },
      ]),
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: nextWords }] },
    ],
  }),
} as const
