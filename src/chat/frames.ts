// The frame decoder of each framing a provider may use.

import type { Outbound } from '../protocols/protocol.ts'
import { AwsEventStreamDecoder } from '../protocols/aws-event-stream.ts'
import { NdjsonDecoder } from '../protocols/ndjson.ts'
import { SseDecoder } from '../protocols/sse.ts'
import type { FrameDecoder } from './translate.ts'

const decoders: Readonly<Partial<Record<Outbound['framing'], (maxCharacters: number) => FrameDecoder>>> = {
  sse: (maxCharacters) => new SseDecoder(maxCharacters),
  ndjson: (maxCharacters) => new NdjsonDecoder(maxCharacters),
  'aws-event-stream': (maxBytes) => new AwsEventStreamDecoder(maxBytes),
}

/** A fresh decoder, for events of at most so many bytes. Throws when the framing has none: a fault of this program, not of the caller. */
export function frameDecoder(framing: Outbound['framing'], maxBytes: number): FrameDecoder {
  const make = decoders[framing]
  if (!make) throw new Error(`no decoder for ${framing}`)
  return make(maxBytes)
}
