// Images and files by URL: who fetches them, for which providers, and within which bounds. Public addresses are played
// by a resolver, their servers by a fetcher.

import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { describe, expect, test } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import {
  checkAddresses,
  LearnedRefusals,
  loweredFor,
  media,
  type MediaLimits,
  quirksFor,
} from '../../../src/chat/upstream/lower.ts'
import type { Candidate } from '../../../src/chat/routing/candidates.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { inbound as messages } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { inbound as chat } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import type { Inbound } from '../../../src/protocols/protocol.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import { LargeBodies } from '../../../src/http/intake/read-body.ts'
import { candidateOf } from '../support.ts'

const limits: MediaLimits = { fileBytes: 1000, requestBytes: 2500, timeoutMs: 2000 }
const bytes = Buffer.from('picture')

/** A network of names, and what of it was fetched. */
function network(names: Readonly<Record<string, readonly string[]>>, answer = () => new Response(bytes)) {
  const fetched: string[] = []
  const resolve = async (host: string) => {
    const addresses = names[host]
    if (addresses === undefined) throw new Error('ENOTFOUND')
    return addresses
  }
  const fetcher = async (url: string) => {
    fetched.push(url)
    return answer()
  }
  return { fetched, media: media({ allowHosts: ['friend.example'], limits, resolve, fetcher }) }
}

const names = {
  'good.example': ['93.184.216.34'],
  'friend.example': ['10.0.0.9'],
  'inside.example': ['10.0.0.5'],
  'api.example': ['93.184.216.35'],
}

/** What a provider would be sent of a body. */
async function sent(
  { media: fetching }: Pick<ReturnType<typeof network>, 'media'>,
  candidate: Candidate,
  body: JsonObject,
  inbound: Inbound = chat,
): Promise<JsonObject> {
  const { addresses } = checkAddresses(body, inbound.addresses, {
    allowHosts: ['friend.example'],
    providerFiles: false,
  })
  const request = { ...inbound.parse(body), addresses }
  const call = { inbound, request, signal: new AbortController().signal } as unknown as IncomingCall
  const { provider, offer } = candidate
  const outbound = outbounds[provider.protocol]
  const target = {
    model: offer.upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: 4096,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  const parts = {
    media: fetching,
    scheduler: new Scheduler(),
    largeBodies: new LargeBodies(),
    refusals: new LearnedRefusals(),
  }
  return JSON.parse((await loweredFor(parts, call, candidate, outbound, target, undefined)).body)
}

const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const asked = (...urls: string[]): JsonObject => ({
  model: 'a/b',
  messages: [{ role: 'user', content: urls.map(image) }],
})
const imagesIn = (body: JsonObject) => JSON.stringify(body).match(/"url":"[^"]*"/g)
const inlined = `"url":"data:application/octet-stream;base64,${bytes.toString('base64')}"`

async function refusalOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
    return 'it was sent'
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return [error.code, error.details.param]
  }
}

describe('S5 a provider in a private network', () => {
  const inside = candidateOf('lab', { baseUrl: 'http://10.0.0.7:8000/v1' })

  test('is sent the bytes, so that it resolves no name of a caller', async () => {
    const lab = network(names)
    const body = await sent(lab, inside, asked('http://good.example/a.png'))
    expect(imagesIn(body)).toEqual([inlined])
    expect(lab.fetched).toEqual(['http://93.184.216.34/a.png'])
  })

  test('a public name that resolves privately is refused', async () => {
    const lab = network(names)
    const work = sent(lab, inside, asked('http://inside.example/a.png'))
    expect(await refusalOf(work)).toEqual(['url_not_allowed', 'messages[0].content[0]'])
    expect(lab.fetched).toEqual([])
  })

  test('so is the id of a file that is such an address', async () => {
    const file = { type: 'file', file: { file_id: 'http://inside.example/a.pdf' } }
    const body = { model: 'a/b', messages: [{ role: 'user', content: [file] }] }
    expect(await refusalOf(sent(network(names), inside, body))).toEqual([
      'url_not_allowed',
      'messages[0].content[0].file.file_id',
    ])
  })

  test('in the system prompt of a message as well', async () => {
    const candidate = candidateOf('lab', {
      baseUrl: 'http://10.0.0.7:8000/v1',
      protocol: 'anthropic-messages',
      clientBody: 'forwarded',
    })
    const picture = { type: 'image', source: { type: 'url', url: 'https://inside.example/a.png' } }
    const body = {
      model: 'a/b',
      max_tokens: 5,
      system: [picture],
      messages: [{ role: 'user', content: 'x' }],
    }
    expect(await refusalOf(sent(network(names), candidate, body as JsonObject, messages))).toEqual([
      'url_not_allowed',
      'system.0',
    ])
  })

  test('reaches itself what the operator allows everybody to reach', async () => {
    const lab = network(names)
    const body = await sent(lab, inside, asked('http://friend.example/a.png'))
    expect(imagesIn(body)).toEqual(['"url":"http://friend.example/a.png"'])
    expect(lab.fetched).toEqual([])
  })

  test.each(['http://inside.example:8000/v1', 'http://nobody-knows.example/v1', 'http://localhost:8000/v1'])(
    'is one by its name, or by a name that nobody knows: %s',
    async (baseUrl) => {
      const lab = network({ ...names, localhost: ['127.0.0.1'] })
      const body = await sent(lab, candidateOf('lab', { baseUrl }), asked('http://good.example/a.png'))
      expect(imagesIn(body)).toEqual([inlined])
    },
  )
})

test('a provider on the internet fetches by itself', async () => {
  const lab = network(names)
  const far = candidateOf('far', { baseUrl: 'https://api.example/v1' })
  const body = await sent(lab, far, asked('http://good.example\\@127.0.0.1/a.png'))
  expect(imagesIn(body)).toEqual(['"url":"http://good.example/@127.0.0.1/a.png"'])
  expect(lab.fetched).toEqual([])
})

describe('the files of one request', () => {
  const inside = candidateOf('lab', { baseUrl: 'http://10.0.0.7:8000/v1' })
  const urls = (count: number) => Array.from({ length: count }, (_, at) => `http://good.example/${at}`)

  test('are together no larger than the bound', async () => {
    const lab = network(names, () => new Response(new Uint8Array(900)))
    expect(await refusalOf(sent(lab, inside, asked(...urls(2))))).toBe('it was sent')
    const [code] = (await refusalOf(sent(lab, inside, asked(...urls(40))))) as [string]
    expect(code).toBe('invalid_request')
    expect(lab.fetched.length).toBeLessThan(2 + 10)
  })

  test('are fetched in the time of one', async () => {
    const slow = {
      media: media({
        allowHosts: [],
        limits: { ...limits, timeoutMs: 50 },
        resolve: async () => ['93.184.216.34'],
        fetcher: (_, { signal }) =>
          new Promise((_resolve, reject) =>
            signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
          ),
      }),
    }
    const began = performance.now()
    expect(await refusalOf(sent(slow, inside, asked(...urls(40))))).toEqual([
      'invalid_request',
      expect.stringContaining('messages[0]'),
    ])
    expect(performance.now() - began).toBeLessThan(1000)
  })
})
