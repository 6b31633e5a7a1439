// The frame decoder of each framing a provider may use.

import type { Outbound } from '../protocol.ts'
import { AwsEventStreamDecoder } from './aws-event-stream.ts'
import { NdjsonDecoder } from './ndjson.ts'
import { type Frame, SseDecoder } from './sse.ts'

/** Bytes of one framing, cut anywhere, to frames. */
export interface FrameDecoder {
  push(bytes: Uint8Array): readonly Frame[]
  end(): readonly Frame[]
}

const decoders: Readonly<Partial<Record<Outbound['framing'], (maxCharacters: number) => FrameDecoder>>> = {
  sse: (maxCharacters) => new SseDecoder(maxCharacters),
  ndjson: (maxCharacters) => new NdjsonDecoder(maxCharacters),
  'aws-event-stream': (maxBytes) => new AwsEventStreamDecoder(maxBytes),
}

/** A new decoder for events of at most `bytes`. Throws if the protocol has no framing, which is a bug. */
export function frameDecoder(framing: Outbound['framing'], maxBytes: number): FrameDecoder {
  const make = decoders[framing]
  if (!make) throw new Error(`no decoder for ${framing}`)
  return make(maxBytes)
}
