// Media that cost more than text must not be sold at the text rate: they are refused if they have no rate.

import type { TokenBucket } from '../../conversation/usage.ts'
import type { ChatRequest, ContentPart } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import type { Candidate } from '../routing/candidates.ts'

/**
 * Throws `unsupported_parameter` if the request contains or asks for a medium that the offer has no rate for. A
 * provider that reports the cost of each call needs no rate.
 */
export function refuseUnpricedMedia(request: ChatRequest, { model, offer, provider }: Candidate): void {
  const { unstated } = offer.price
  if (unstated.length === 0 || provider.costFrom !== 'rates') return
  const media = mediaIn(request)
  if (media.length === 0) return
  const used = media.find(({ bucket }) => unstated.includes(bucket))
  if (!used) return
  throw new GatewayError('unsupported_parameter', {
    message:
      `${model.id} has no price for ${used.what} at ${provider.id}, and text costs less. ` +
      `The operator can state one: price.${used.field} of this model in the configuration.`,
    param: used.param,
    metadata: { model: model.id, provider: provider.id },
  })
}

interface MediumUsed {
  readonly bucket: TokenBucket
  readonly what: string
  readonly field: string
  readonly param: string
}

/** Media in the request or asked for that are priced separately. */
export function mediaIn({ messages, rest }: ChatRequest): readonly MediumUsed[] {
  const used: MediumUsed[] = []
  for (let at = 0; at < messages.length; at++) {
    const part = messages[at]!.content.findIndex(isAudio)
    if (part < 0) continue
    const param = `messages[${at}].content[${part}]`
    used.push({ bucket: 'inputAudio', what: 'audio input', field: 'input_audio', param })
    break
  }
  const { modalities } = rest
  if (!Array.isArray(modalities)) return used
  for (const { modality, ...output } of outputs)
    if (modalities.includes(modality)) used.push({ ...output, param: 'modalities' })
  return used
}

const outputs = [
  { modality: 'audio', bucket: 'outputAudio', what: 'audio output', field: 'output_audio' },
  { modality: 'image', bucket: 'outputImage', what: 'images in answers', field: 'output_image' },
] as const

/** A file may contain audio: decided by its type if inline, by its name if it is an address. */
function isAudio(part: ContentPart): boolean {
  if (part.kind === 'audio') return true
  if (part.kind !== 'file') return false
  switch (part.source.kind) {
    case 'base64':
      return /^audio\//i.test(part.source.mediaType)
    case 'url':
      return audioName.test(pathOf(part.source.url))
    case 'provider-file':
      return part.filename !== undefined && audioName.test(part.filename)
  }
}

const audioName = /\.(aac|aiff?|flac|m4a|mp3|mpga|oga|ogg|opus|wav|weba)$/i

function pathOf(url: string): string {
  return URL.canParse(url) ? new URL(url).pathname : url
}
