// The rows: each can be reached and authenticated, and a claim to need no mending is held by its recordings.

import { describe, expect, test } from 'bun:test'
import { defaultQuirks } from '../../src/protocols/openai-chat/outbound/quirks.ts'
import { isObject } from '../../src/protocols/lenient.ts'
import { providerById, providers } from '../../src/providers/registry.ts'
import { cases, framesOf } from '../support/recordings.ts'

describe('the registry', () => {
  test('knows every provider under one id, without a slash', () => {
    const ids = providers.map((provider) => provider.id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^[a-z0-9]+$/)
    for (const provider of providers) expect(providerById(provider.id)).toBe(provider)
    expect(providerById('nobody')).toBeUndefined()
  })

  test('has the providers that clients ask for by name', () => {
    const expected =
      'openai azure groq deepseek mistral xai together fireworks cerebras openrouter perplexity zai alibaba huggingface moonshot nvidia sambanova deepinfra nebius novita hyperbolic github cloudflare databricks vercel anthropic gemini ollama llamacpp vllm lmstudio gpustack sim'
    for (const id of expected.split(' ')) expect(providerById(id)?.id).toBe(id)
  })

  test.each(providers.map((provider) => [provider.id, provider] as const))(
    '%s can be reached',
    (_, provider) => {
      if (provider.transport === 'builtin' || provider.baseUrl === '')
        return expect(provider.baseUrl).not.toMatch(/^http/)
      const url = new URL(provider.baseUrl)
      expect(provider.baseUrl.endsWith('/')).toBe(false)
      // Only a server on this machine may be asked in the clear.
      expect(url.protocol).toBe(provider.local ? 'http:' : 'https:')
      if (provider.local) expect(url.hostname).toBe('127.0.0.1')
      if (provider.auth.kind !== 'none') {
        for (const name of provider.auth.env) expect(name).toMatch(/^[A-Z][A-Z0-9_]+$/)
      }
    },
  )

  test('names only quirks that the protocol has', () => {
    for (const provider of providers.filter((row) => row.protocol === 'openai-chat')) {
      for (const quirk of Object.keys(provider.quirks)) expect(Object.keys(defaultQuirks)).toContain(quirk)
    }
  })

  test('takes a cost from the provider only where its counters are read for one', () => {
    for (const provider of providers.filter((row) => row.costFrom === 'reported')) {
      expect(provider.quirks.reportedCost).toBe('usage.cost')
    }
  })
})

describe('native forwarding', () => {
  const native = providers.filter((row) => row.clientBody === 'forwarded')

  test('is claimed by Anthropic alone, whose recorded streams are as its clients know them', () => {
    expect(native.map(({ id }) => id)).toEqual(['anthropic'])
    expect(breachesOfMessages('anthropic')).toEqual([])
  })
})

describe('streams of chat completions', () => {
  test.each([
    // folder        the first rule its recordings break
    ['openai-chat', 'a choice opens with its role and an empty content'],
    ['groq', 'the first delta of a call has no arguments'],
    ['xai-chat', 'the first delta of a call has no arguments'],
    ['azure-chat', 'only the last chunk has no choices'],
    ['openrouter', 'usage comes on a chunk without choices'],
    ['perplexity', 'usage comes on a chunk without choices'],
    ['mistral', 'usage comes on a chunk without choices'],
    ['deepseek', 'usage comes on a chunk without choices'],
  ] as const)('%s needs mending: %s', (folder, rule) => {
    expect(breaches(folder)).toContain(rule)
  })
})

/** The rules of Anthropic's protocol that the recorded streams of a folder break. */
function breachesOfMessages(folder: string): string[] {
  const streamed = cases(folder).filter((one) => one.streamed)
  expect(streamed.length).toBeGreaterThan(10)
  const broken = new Set<string>()
  for (const recorded of streamed) {
    const frames = framesOf([recorded.stream()])
    const events = frames.map(({ data }) => JSON.parse(data) as { type: string; index?: number })
    if (frames.some(({ event }, at) => event !== events[at]!.type))
      broken.add('events are named as their type')
    if (events[0]?.type !== 'message_start') broken.add('message_start comes first')
    const ending = events.slice(-2).map(({ type }) => type)
    if (ending.join(' ') !== 'message_delta message_stop')
      broken.add('message_delta and message_stop come last')
    let open: number | undefined
    let next = 0
    for (const { type, index } of events) {
      if (type === 'content_block_start') {
        if (open !== undefined || index !== next++) broken.add('one block is open at a time, from 0')
        open = index
      }
      if (type === 'content_block_delta' && index !== open) broken.add('a delta is of the open block')
      if (type === 'content_block_stop') open = undefined
    }
  }
  return [...broken]
}

/** The rules of the wire contract that the recorded streams of a folder break. */
function breaches(folder: string): string[] {
  const broken = new Set<string>()
  for (const recorded of cases(folder).filter((one) => one.streamed)) {
    const frames = framesOf([recorded.stream()])
    if (frames.some((frame) => frame.event !== undefined)) broken.add('frames have no names')
    if (frames.at(-1)?.data !== '[DONE]') broken.add('the stream ends with [DONE]')
    const chunks = frames.filter((frame) => frame.data !== '[DONE]').map((frame) => JSON.parse(frame.data))
    for (const key of ['id', 'created', 'model', 'object']) {
      if (new Set(chunks.map((chunk) => chunk[key])).size > 1) broken.add(`${key} is the same on every chunk`)
    }
    const opened = new Set<unknown>()
    for (const [index, chunk] of chunks.entries()) {
      const choices = Array.isArray(chunk.choices) ? chunk.choices.filter(isObject) : []
      if (choices.length === 0 && index < chunks.length - 1) broken.add('only the last chunk has no choices')
      if (choices.length > 0 && isObject(chunk.usage)) broken.add('usage comes on a chunk without choices')
      for (const choice of choices) {
        inspectChoice(choice, broken)
        const delta = isObject(choice.delta) ? choice.delta : {}
        const opening = delta.role === 'assistant' && delta.content === '' && delta.tool_calls === undefined
        if (!opened.has(choice.index) && !opening)
          broken.add('a choice opens with its role and an empty content')
        if (opened.has(choice.index) && delta.role !== undefined) broken.add('the role is told once')
        opened.add(choice.index)
      }
    }
  }
  return [...broken]
}

function inspectChoice(choice: Record<string, unknown>, broken: Set<string>): void {
  const finish = 'finish_reason is on every choice but told once, on an empty delta'
  if (!('finish_reason' in choice)) broken.add(finish)
  const delta = isObject(choice.delta) ? choice.delta : {}
  if (choice.finish_reason != null && Object.keys(delta).length > 0) broken.add(finish)
  for (const call of Array.isArray(delta.tool_calls) ? delta.tool_calls.filter(isObject) : []) {
    const fn = isObject(call.function) ? call.function : {}
    if (typeof call.index !== 'number') broken.add('a call has an index')
    if (call.id !== undefined && fn.arguments !== '') broken.add('the first delta of a call has no arguments')
  }
}
