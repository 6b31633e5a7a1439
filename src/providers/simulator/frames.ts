// Writes an answer of the simulated provider in the chat-completions protocol: one JSON body, or frame by frame.

import type { JsonObject } from '../../conversation/request.ts'
import { type AnswerChoice, type AnswerUsage, usageBody } from './answer.ts'

export interface Envelope {
  readonly id: string
  readonly model: string
  readonly logprobs: boolean
  readonly alternatives: boolean
  readonly includeUsage: boolean
}

/** All answers have the same time, 2026-01-01 00:00 UTC. */
const created = 1_767_225_600
const fingerprint = 'fp_sim'

export function wholeBody(envelope: Envelope, choices: readonly AnswerChoice[], usage: AnswerUsage): string {
  return JSON.stringify({
    id: envelope.id,
    object: 'chat.completion',
    created,
    model: envelope.model,
    choices: choices.map((choice) => ({
      index: choice.index,
      message: messageOf(choice),
      logprobs: envelope.logprobs
        ? { content: Array.from(choice.content ?? [], (token) => logprobOf(token, envelope)), refusal: null }
        : null,
      finish_reason: choice.finish,
    })),
    usage: usageBody(usage),
    service_tier: 'default',
    system_fingerprint: fingerprint,
  })
}

function messageOf(choice: AnswerChoice): JsonObject {
  const reasoning = choice.reasoning.text
  return {
    role: 'assistant',
    content: choice.content === null ? null : choice.content.text,
    refusal: null,
    annotations: [],
    ...(reasoning === '' ? {} : reasoningFields(reasoning)),
    ...(choice.calls.length === 0
      ? {}
      : {
          tool_calls: choice.calls.map((call) => ({
            id: call.id,
            type: 'function',
            function: { name: call.name, arguments: call.pieces.text },
          })),
        }),
  }
}

function reasoningFields(text: string): JsonObject {
  return {
    reasoning_content: text,
    reasoning_details: [{ type: 'reasoning.text', format: null, index: 0, text }],
  }
}

/** The same for every token: the simulated model is certain and has no alternatives. */
function logprobOf(token: string, { alternatives }: Pick<Envelope, 'alternatives'>): JsonObject {
  const certain = { token, logprob: 0, bytes: [...Buffer.from(token, 'utf8')] }
  return { ...certain, top_logprobs: alternatives ? [{ ...certain }] : [] }
}

/** A streamed answer in three parts: delivery may be slowed down or broken off in the middle. */
export interface Transcript {
  readonly opening: string
  readonly middle: Iterator<string, undefined>
  readonly closing: string
}

/** The frames of an answer. The middle is made while it is read, so that long answers are never in memory whole. */
export function transcript(
  envelope: Envelope,
  choices: readonly AnswerChoice[],
  usage: AnswerUsage,
): Transcript {
  const head =
    `data: {"id":${JSON.stringify(envelope.id)},"object":"chat.completion.chunk","created":${created},` +
    `"model":${JSON.stringify(envelope.model)},"service_tier":"default","system_fingerprint":"${fingerprint}",`
  const tail = envelope.includeUsage ? ',"usage":null}\n\n' : '}\n\n'
  const frame = (index: number, delta: string, logprobs: string, finish: string) =>
    `${head}"choices":[{"index":${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${finish}}]${tail}`

  const opening = choices.map(({ index }) =>
    frame(index, '{"role":"assistant","content":""}', 'null', 'null'),
  )
  const closing = choices.map(({ index, finish }) => frame(index, '{}', 'null', `"${finish}"`))
  if (envelope.includeUsage)
    closing.push(`${head}"choices":[],"usage":${JSON.stringify(usageBody(usage))}}\n\n`)
  closing.push('data: [DONE]\n\n')

  const deltas = choices.map((choice) => deltasOf(choice, envelope))
  return { opening: opening.join(''), middle: interleaveFrames(deltas, frame), closing: closing.join('') }
}

interface Delta {
  readonly delta: string
  readonly logprobs: string
}

/** One delta of each choice in turn, until all are done. */
function* interleaveFrames(
  choices: readonly Iterator<Delta>[],
  frame: (index: number, delta: string, logprobs: string, finish: string) => string,
): Generator<string, undefined> {
  const running = new Map(choices.entries())
  while (running.size > 0) {
    for (const [index, deltas] of running) {
      const next = deltas.next()
      if (next.done) running.delete(index)
      else yield frame(index, next.value.delta, next.value.logprobs, 'null')
    }
  }
}

function* deltasOf(choice: AnswerChoice, envelope: Envelope): Generator<Delta> {
  for (const piece of choice.reasoning)
    yield { delta: JSON.stringify(reasoningFields(piece)), logprobs: 'null' }
  for (const piece of choice.content ?? []) {
    const probability = envelope.logprobs
      ? JSON.stringify({ content: [logprobOf(piece, envelope)], refusal: null })
      : 'null'
    yield { delta: `{"content":${JSON.stringify(piece)}}`, logprobs: probability }
  }
  for (const [index, call] of choice.calls.entries()) {
    yield callDelta({ index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } })
    for (const piece of call.pieces) yield callDelta({ index, function: { arguments: piece } })
  }
}

function callDelta(call: JsonObject): Delta {
  return { delta: JSON.stringify({ tool_calls: [call] }), logprobs: 'null' }
}
