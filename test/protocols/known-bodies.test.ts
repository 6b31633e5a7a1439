// A request whose beginning was sent before is read, checked and lowered as if it had not been: over all recorded requests
// of clients, for a provider of the client's protocol and one of another. Its items are those of the earlier request,
// frozen, and what was found out about them is not asked again.

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { parseJson } from '../../src/http/intake/read-body.ts'
import { isSettled, Prefixes } from '../../src/json/scan.ts'
import {
  checkedContent,
  checkRequest,
  messagesRequest,
} from '../../src/protocols/anthropic-messages/inbound/schema.ts'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as gemini, withModel } from '../../src/protocols/gemini/inbound/inbound.ts'
import { inbound as chat } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { chatCompletionRequest } from '../../src/protocols/openai-chat/inbound/schema.ts'
import { responsesCall } from '../../src/protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../src/protocols/openai-responses/inbound/read.ts'
import { checkAddresses } from '../../src/chat/upstream/lower.ts'
import { customRoutes, lowered } from '../chat/routes.ts'
import { cases } from '../support/recordings.ts'
import { hostsOf } from './recorded-hosts.ts'

const hooks = { now: () => 0, keep: () => false, kept: () => undefined }
const long = 'It runs to the sea, "as it always ran".\n'.repeat(500)

const clients = {
  'openai-chat': {
    inbound: chat,
    list: 'messages',
    first: { role: 'user', content: long },
    asks: (body: JsonObject) => ({ inbound: chat, request: chat.parse(body) }),
  },
  'anthropic-messages': {
    inbound: messages,
    list: 'messages',
    first: { role: 'user', content: [{ type: 'text', text: long }] },
    asks: (body: JsonObject) => ({ inbound: messages, request: messages.parse(body) }),
  },
  'openai-responses': {
    inbound: undefined,
    list: 'input',
    first: { role: 'user', content: [{ type: 'input_text', text: long }] },
    asks: (body: JsonObject) => responsesCall(checkedRequest(body), { history: [], items: new Map() }, hooks),
  },
  gemini: {
    inbound: gemini,
    list: 'contents',
    first: { role: 'user', parts: [{ text: long }] },
    asks: (body: JsonObject) => ({ inbound: gemini, request: gemini.parse(withModel(body, 'a/m', false)) }),
  },
} as const
type Client = keyof typeof clients

/** What becomes of a body, or why it is refused. */
async function outcomeOf(client: Client, text: string, prefixes: Prefixes | undefined) {
  const { inbound, asks } = clients[client]
  const other = client === 'anthropic-messages' ? 'openai-chat' : 'anthropic-messages'
  try {
    const json = parseJson(text, 64, 200_000, prefixes && { prefixes, name: 'anna' })
    if (inbound) checkAddresses(json, inbound.addresses, { allowHosts: [], providerFiles: true })
    prefixes?.keep(json)
    const asked = asks(json)
    const request = asked.request.toChatRequest()
    const sent = []
    for (const protocol of [client, other] as const) {
      const route = customRoutes.find(({ provider }) => provider.protocol === protocol)!
      sent.push(await lowered(asked, route).catch(refusal))
    }
    const media = asked.request.promptParts.media()
    return { request, sent, media, again: asked.request.promptParts.media() }
  } catch (error) {
    return refusal(error)
  }
}

function refusal(error: unknown) {
  if (!(error instanceof GatewayError)) throw error
  return { code: error.code, message: error.message, param: error.details.param }
}

test.each(Object.keys(clients) as Client[])('of clients of %s', async (client) => {
  const { list, first } = clients[client]
  let looked = 0
  for (const { folder } of hostsOf(client))
    for (const { id, status, request } of cases(folder)) {
      const items = request?.[list]
      if (status !== 200 || !Array.isArray(items)) continue
      const body = (count: number) =>
        JSON.stringify({ ...request, model: 'a/m', [list]: [first, ...items.slice(0, count)] })
      const prefixes = new Prefixes()
      for (const count of [Math.max(0, items.length - 1), items.length, items.length]) {
        const known = await outcomeOf(client, body(count), prefixes)
        expect({ id, ...known }).toEqual({ id, ...(await outcomeOf(client, body(count), undefined)) })
      }
      looked++
    }
  expect(looked).toBeGreaterThan(10)
})

test('an item that does not fit is refused, whatever was found out about the others before', () => {
  const prefixes = new Prefixes()
  const read = (more: readonly object[]) => {
    const said = [{ role: 'user', content: [{ type: 'text', text: long }] }, ...more]
    const tools = [{ name: 'read', input_schema: { type: 'object' }, cache_control: { type: 'ephemeral' } }]
    const text = JSON.stringify({ model: 'a/m', max_tokens: 9, tools, messages: said })
    const json = parseJson(text, 64, 200_000, { prefixes, name: 'anna' })
    prefixes.keep(json)
    return { json, checked: checkRequest(json) }
  }
  const answer = { role: 'assistant', content: [{ type: 'text', text: 'Yes.' }] }
  read([answer])
  const { json, checked } = read([answer, { role: 'user', content: [{ type: 'text', text: 'Go on.' }] }])
  expect(checked).toBe(json as typeof checked)
  expect(isSettled(checked.messages[1])).toBe(true)
  expect(() => read([answer, { role: 'user', content: [{ type: '' }] }])).toThrow('messages.2.content.0.type')
  // Kept with the body, and still at fault.
  expect(() => read([answer, { role: 'user', content: [{ type: '' }] }])).toThrow('messages.2.content.0.type')
  expect(() => read([answer, { role: 'bot', content: 'x' }])).toThrow('messages.2.role')
})

test('tools of the usual shape are taken exactly when the schema takes them', () => {
  const usual = { name: 'f', description: 'd', parameters: { type: 'object' }, strict: true }
  const values = ['', 'x', null, 1, {}, [], true, undefined, 'y'.repeat(256), 'y'.repeat(257)]
  const isTaken = (tools: unknown) => {
    try {
      chat.parse({ model: 'a/m', messages: [{ role: 'user', content: 'x' }], tools } as JsonObject)
      return true
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      expect(error.details.param).toStartWith('tools')
      return false
    }
  }
  let refused = 0
  for (const value of values)
    for (const tool of [
      ...[...Object.keys(usual), 'other'].map((name) => ({
        type: 'function',
        function: { ...usual, [name]: value },
      })),
      ...['function', 'cache_control', 'other'].map((name) => ({
        type: 'function',
        function: usual,
        [name]: value,
      })),
    ]) {
      const given = JSON.parse(JSON.stringify([tool])) as unknown
      const fits = chatCompletionRequest.shape.tools.safeParse(given).success
      expect({ tool, isTaken: isTaken(given) }).toEqual({ tool, isTaken: fits })
      if (!fits) refused++
    }
  expect(refused).toBeGreaterThan(20)
  const many = Array.from({ length: 1_025 }, () => ({ type: 'function', function: usual }))
  expect([isTaken(many), isTaken(many.slice(1))]).toEqual([false, true])
})

test('the content of a result is taken exactly when the schema takes it', () => {
  const block = { type: 'text', text: 'Here.' }
  const values = [
    '',
    'x',
    null,
    1,
    {},
    [],
    true,
    undefined,
    { type: 'ephemeral' },
    { type: 'ephemeral', ttl: '2h' },
  ]
  let refused = 0
  for (const value of [
    ...values,
    ...values.flatMap((each) =>
      Object.keys({ ...block, cache_control: 0 }).map((name) => [block, { ...block, [name]: each }]),
    ),
  ]) {
    const body = { model: 'a/m', max_tokens: 9, messages: [{ role: 'user', content: value }] }
    const fits = messagesRequest.safeParse(body).success
    const isTaken = () => {
      try {
        checkedContent(value, 'x')
        return true
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error
        return false
      }
    }
    expect({ value, isTaken: isTaken() }).toEqual({ value, isTaken: fits })
    if (!fits) refused++
  }
  expect(refused).toBeGreaterThan(10)
})
