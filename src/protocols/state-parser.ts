// A stream parser that goes from one state to the next.

import type { ChatEvent } from '../conversation/event.ts'
import type { StreamParser } from './protocol.ts'
import type { Frame } from './framing/sse.ts'

/**
 * The parser of one stream that begins in this state: `step` gives the state after a frame with the events of the frame,
 * `end` the events that the end of the body stands for.
 */
export function stateParser<State>(
  initial: State,
  step: (state: State, frame: Frame) => readonly [State, readonly ChatEvent[]],
  end: (state: State) => readonly ChatEvent[],
): StreamParser {
  let state = initial
  return {
    push(frame) {
      const [next, events] = step(state, frame)
      state = next
      return events
    },
    end: () => end(state),
  }
}
