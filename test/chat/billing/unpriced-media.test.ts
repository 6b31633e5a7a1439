// Media that a price has no rate for are refused before a provider is asked.

import { describe, expect, test } from 'bun:test'
import { buildPrice } from '../../../src/catalog/prices/price-spec.ts'
import { refuseUnpricedMedia } from '../../../src/chat/billing/need.ts'
import type { ChatRequest, ContentPart, MediaSource } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { chat, textPart } from '../../support/conversation.ts'
import { candidateOf } from '../support.ts'

const flat = { input: '1', output: '2' }
const sound: ContentPart = { kind: 'audio', format: 'wav', data: 'AAAA' }
const file = (source: MediaSource, filename?: string): ContentPart => ({
  kind: 'file',
  source,
  filename,
  cache: undefined,
})
const asking = (...content: ContentPart[]) => chat({ messages: [{ role: 'user', content }] })

function refusalOf(
  request: ChatRequest,
  spec: Record<string, string> = {},
  costFrom: 'rates' | 'reported' = 'rates',
) {
  const candidate = candidateOf('lab', { costFrom })
  const offer = { ...candidate.offer, price: buildPrice({ ...flat, ...spec }) }
  try {
    refuseUnpricedMedia(request, { ...candidate, offer })
    return undefined
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return `${error.code} ${error.details.param}`
  }
}

describe('a price without a rate for sound', () => {
  test.each([
    ['text', asking(textPart('x')), undefined],
    ['sound', asking(textPart('x'), sound), 'unsupported_parameter messages[0].content[1]'],
    [
      'a file of sound',
      asking(file({ kind: 'base64', mediaType: 'audio/mpeg', data: 'A' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'one whose type is written in capitals',
      asking(file({ kind: 'base64', mediaType: 'Audio/WAV', data: 'A' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'the address of one',
      asking(file({ kind: 'url', url: 'https://x.example/a.MP3?y=1' })),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'one at the provider',
      asking(file({ kind: 'provider-file', id: 'f' }, 'talk.wav')),
      'unsupported_parameter messages[0].content[0]',
    ],
    [
      'a document',
      asking(file({ kind: 'base64', mediaType: 'application/pdf', data: 'A' }, 'a.pdf')),
      undefined,
    ],
    ['an answer in text', chat({ rest: { modalities: ['text'] } }), undefined],
    [
      'an answer in sound',
      chat({ rest: { modalities: ['text', 'audio'] } }),
      'unsupported_parameter modalities',
    ],
    ['an answer with images', chat({ rest: { modalities: ['image'] } }), 'unsupported_parameter modalities'],
  ])('%s', (_, request, refusal) => {
    expect(refusalOf(request)).toBe(refusal)
  })

  test('is enough where the provider reports what each call costs', () => {
    expect(refusalOf(asking(sound), {}, 'reported')).toBeUndefined()
  })

  test('is completed by the one rate that is missing', () => {
    expect(refusalOf(asking(sound), { output_audio: '8' })).toBeDefined()
    expect(refusalOf(asking(sound), { input_audio: '8' })).toBeUndefined()
  })
})
