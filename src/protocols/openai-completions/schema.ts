// The wire schemas of legacy text completions (OpenAI's POST /v1/completions): chat completions with a prompt.

import { z } from 'zod'
import { chatCompletion } from '../openai-chat/inbound/answer-schema.ts'
import { chatCompletionRequest } from '../openai-chat/inbound/schema.ts'
import { chatOnly } from './chat-only.ts'

/** Removes `chatOnly` from the schema of a chat request. */
const chatOnlyKeys = Object.fromEntries(chatOnly.map((field) => [field, true])) as Record<
  (typeof chatOnly)[number],
  true
>

export const textCompletionRequest = chatCompletionRequest.omit(chatOnlyKeys).extend({
  prompt: z.union([z.string(), z.array(z.string()).length(1)]),
  suffix: z.string().nullish(),
  echo: z.boolean().nullish(),
  best_of: z.int().min(1).nullish(),
  logprobs: z.int().min(0).nullish(),
})

const choice = z.looseObject({
  index: z.int().min(0),
  text: z.string(),
  logprobs: z.null(),
  finish_reason: z.enum(['stop', 'length', 'content_filter', 'error']).nullable(),
})

/** A whole answer, and each chunk of a stream. */
export const textCompletion = z.looseObject({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(choice),
  usage: chatCompletion.shape.usage.nullish(),
})
