// What holds tools, their calls or their results is in the request that a provider is sent, whatever it speaks, or the
// request is refused: over all recorded requests of clients, for a provider of every protocol.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { camelCased } from '../../src/protocols/gemini/inbound/read.ts'
import { isObject, parseJson } from '../../src/protocols/lenient.ts'
import { asks, type Client, customRoutes, lowered } from '../chat/routes.ts'
import { cases } from '../support/recordings.ts'
import { hostsOf } from './recorded-hosts.ts'

const clients = {
  chat: 'openai-chat',
  responses: 'openai-responses',
  messages: 'anthropic-messages',
  gemini: 'gemini',
} as const satisfies Partial<Record<Client, string>>

const list = (value: unknown): JsonObject[] =>
  Array.isArray(value) ? value.filter(isObject) : isObject(value) ? [value] : []
const text = (value: unknown): string[] => (typeof value === 'string' ? [value] : [])
/** All strings in some JSON, and in the JSON that is the text of a string. */
const within = (value: unknown): string[] => {
  const parsed = typeof value === 'string' ? (parseJson(value) ?? value) : value
  if (Array.isArray(parsed)) return parsed.flatMap(within)
  return isObject(parsed) ? Object.values(parsed).flatMap(within) : text(parsed)
}
const texts = (value: unknown): string[] =>
  (typeof value === 'string' ? [value] : list(value).flatMap((part) => text(part['text']))).flatMap(within)

/** What must arrive of a request: names of tools, what calls were made with, and what they gave. */
const held: Readonly<Record<keyof typeof clients, (body: JsonObject) => string[]>> = {
  chat: ({ tools, messages }) => [
    ...list(tools).flatMap((tool) => text((tool['function'] as JsonObject | undefined)?.['name'])),
    ...list(messages).flatMap(({ role, content, tool_calls }) => [
      ...(role === 'tool' ? texts(content) : []),
      ...list(tool_calls).flatMap((call) => within((call['function'] as JsonObject)?.['arguments'])),
    ]),
  ],
  responses: ({ tools, input }) => [
    ...list(tools).flatMap(({ type, name }) => (type === 'function' ? text(name) : [])),
    ...list(input).flatMap((item) => [...texts(item['output']), ...within(item['arguments'])]),
  ],
  messages: ({ tools, messages }) => [
    ...list(tools).flatMap(({ type, name }) => (type === undefined || type === 'custom' ? text(name) : [])),
    ...list(messages).flatMap(({ content }) =>
      list(content).flatMap(({ type, input, content: given }) =>
        type === 'tool_use' ? within(input) : type === 'tool_result' ? texts(given) : [],
      ),
    ),
  ],
  gemini: (body) => {
    const { tools, contents } = camelCased(body)
    const parts = list(contents).flatMap((turn) => list(turn['parts']))
    return [
      ...list(tools).flatMap((tool) => list(tool['functionDeclarations']).flatMap(({ name }) => text(name))),
      ...parts.flatMap(({ functionCall, functionResponse }) => [
        ...list(functionCall).flatMap(({ args }) => within(args)),
        ...list(functionResponse).flatMap(({ response }) => within(response)),
      ]),
    ]
  },
}

test.each(Object.keys(clients) as (keyof typeof clients)[])('of clients of %s', async (client) => {
  const lost: unknown[] = []
  let looked = 0
  for (const { folder } of hostsOf(clients[client]))
    for (const { id, status, request } of cases(folder)) {
      if (status !== 200 || request === undefined) continue
      const wanted = held[client](request).filter((each) => each.trim() !== '')
      if (wanted.length === 0) continue
      for (const route of customRoutes) {
        const { model: _, ...body } = structuredClone(request)
        const sent = await sentBy(client, body, route)
        if (sent === undefined) continue
        looked++
        const all = within(sent).join('\n')
        const whole = JSON.stringify(sent)
        const missing = wanted.filter(
          (each) => !all.includes(each) && !whole.includes(JSON.stringify(each).slice(1, -1)),
        )
        if (missing.length > 0) lost.push([id, route.provider.protocol, missing])
      }
    }
  expect(lost).toEqual([])
  expect(looked).toBeGreaterThan(60)
})

async function sentBy(client: Client, body: JsonObject, route: (typeof customRoutes)[number]) {
  try {
    return (await lowered(asks(client, body), route)).body
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}
