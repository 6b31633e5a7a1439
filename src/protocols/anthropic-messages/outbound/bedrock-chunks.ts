// Claude's events as Bedrock's direct invocation streams them: base64 inside chunks.

import type { ChatEvent } from '../../../conversation/event.ts'
import { exceptionPrefix } from '../../framing/aws-event-stream.ts'
import { faultOfException } from '../../aws-fault.ts'
import { isObject, parseJson } from '../../json.ts'
import type { StreamParser } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { streamParser } from './stream.ts'

/** The same parser for chunks. Amazon's own exceptions end the answer like an `error` event. */
export function chunkParser(): StreamParser {
  const events = streamParser()
  let ended = false
  const note = (made: readonly ChatEvent[]) => {
    ended ||= made.some(({ kind }) => kind === 'finish' || kind === 'error')
    return made
  }
  return {
    push(frame) {
      if (ended) return []
      if (!frame.event?.startsWith(exceptionPrefix)) return note(events.push(unwrapFrame(frame)))
      const fault = faultOfException(frame.event.slice(exceptionPrefix.length), frame.data)
      return note([{ kind: 'error', fault }])
    },
    end: () => (ended ? [] : events.end()),
  }
}

function unwrapFrame(frame: Frame): Frame {
  const chunk = parseJson(frame.data)
  const bytes = isObject(chunk) && typeof chunk.bytes === 'string' ? chunk.bytes : ''
  return { event: undefined, data: Buffer.from(bytes, 'base64').toString('utf8') }
}
