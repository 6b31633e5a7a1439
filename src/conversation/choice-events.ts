// Turns a whole answer into the events of an equivalent stream.

import type { ChatEvent, Choice } from './event.ts'

/** The events of one choice; the order of its parts is not known any more. */
export function eventsOf(answer: Choice): ChatEvent[] {
  const { index: choice } = answer
  return [
    ...answer.reasoning.map((detail): ChatEvent => ({ kind: 'reasoning-delta', choice, detail })),
    ...(answer.items ?? []).map((item): ChatEvent => ({ kind: 'gateway-item', choice, item })),
    ...(answer.text === null ? [] : [{ kind: 'text-delta', choice, text: answer.text } as const]),
    ...answer.annotations.map((annotation): ChatEvent => ({ kind: 'annotation', choice, annotation })),
    ...(answer.logprobs === null ? [] : [{ kind: 'logprobs', choice, ...answer.logprobs } as const]),
    ...(answer.refusal === null ? [] : [{ kind: 'refusal-delta', choice, text: answer.refusal } as const]),
    ...answer.toolCalls.flatMap(({ arguments: json, ...call }, at): ChatEvent[] => [
      { kind: 'tool-call-start', choice, call: at, ...call },
      { kind: 'tool-call-delta', choice, call: at, arguments: json },
    ]),
    ...answer.images.map((image): ChatEvent => ({ kind: 'image', choice, ...image })),
    ...(answer.finish === undefined
      ? []
      : [
          {
            kind: 'choice-finish',
            choice,
            reason: answer.finish,
            native: answer.nativeFinish ?? '',
            ...(answer.stopSequence !== undefined && { stopSequence: answer.stopSequence }),
            ...(answer.paused && { paused: answer.paused }),
            ...(answer.blockedPrompt !== undefined && { blockedPrompt: answer.blockedPrompt }),
          } as const,
        ]),
  ]
}
