// Claude's events as Bedrock streams them when the model is invoked directly: each in base64 inside a chunk.

import { exceptionPrefix } from '../aws-event-stream.ts'
import { faultOfException } from '../bedrock-converse/fault.ts'
import { isObject, parseJson } from '../json.ts'
import type { StreamParser } from '../protocol.ts'
import type { Frame } from '../sse.ts'
import { parser, type ParserState } from './parse.ts'

/** The same parser, over chunks. Amazon's own exceptions end the answer as an `error` event would. */
export const chunkParser: StreamParser<ParserState> = {
  initial: () => parser.initial(),
  step: (state, frame) => {
    const exception = frame.event?.startsWith(exceptionPrefix)
    if (!exception || state.ended) return parser.step(state, unwrapped(frame))
    const error = faultOfException(frame.event?.slice(exceptionPrefix.length) ?? '', frame.data)
    return [{ ...state, ended: true }, [{ kind: 'error', fault: error }]]
  },
  end: (state) => parser.end(state),
}

function unwrapped(frame: Frame): Frame {
  const chunk = parseJson(frame.data)
  const bytes = isObject(chunk) && typeof chunk.bytes === 'string' ? chunk.bytes : ''
  return { event: undefined, data: Buffer.from(bytes, 'base64').toString('utf8') }
}
