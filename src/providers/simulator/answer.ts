// The simulated provider's answers: a plan of reasoning, text and calls, cut to the limits of the request.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { instanceOf } from './schema.ts'
import type { Effort, OfferedTool, SimRequest } from './request.ts'
import { jsonPieces, type Pieces, wordPieces } from './tokens.ts'

/** The answer of a behaviour before limits apply. */
export interface Plan {
  readonly reasoning: string
  readonly text: string | null
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
  /** Whether the plan fills the limit of the request exactly, so that it counts as cut. */
  readonly open?: true
}

export interface AnswerCall {
  readonly id: string
  readonly name: string
  readonly pieces: Pieces
}

/** One answer; every piece is one token. All choices of a request differ only in their ids. */
export interface AnswerChoice {
  readonly index: number
  readonly reasoning: Pieces
  /** null if the answer has only calls. */
  readonly content: Pieces | null
  readonly calls: readonly AnswerCall[]
  readonly finish: 'stop' | 'length' | 'tool_calls'
}

export interface AnswerUsage {
  readonly prompt: number
  readonly cached: number
  readonly audio: number
  readonly completion: number
  readonly reasoning: number
}

/** The limit of what a model writes at length, in tokens: of all choices together where there are several. */
const longestAnswer = 131_072
const usualLength = 2_000

export function echo(request: SimRequest): Plan {
  return { reasoning: '', text: request.prompt, calls: [] }
}

/** Calls the tools; when it has their results it summarises them, so that every tool loop ends. */
export function callTools(request: SimRequest): Plan {
  if (request.results.length > 0) {
    const lines = request.results.map(({ name, text }) => `${name} answered: ${text}`)
    return { reasoning: '', text: lines.join('\n'), calls: [] }
  }
  if (request.tools.length === 0) return echo(request)
  const callable = request.tools.filter((tool) => request.toolsForced || isAnswerable(tool, request))
  if (callable.length === 0) return echo(request)
  const called = request.parallelCalls ? callable : callable.slice(0, 1)
  const calls = called.map((tool) => ({
    name: tool.name,
    arguments: JSON.stringify(argumentsOf(tool, request)),
  }))
  return { reasoning: '', text: null, calls }
}

/** Pages are only opened if the prompt has a URL. */
function isAnswerable({ name }: OfferedTool, { prompt }: SimRequest): boolean {
  return name !== openPage || address.test(prompt)
}

const openPage = 'open_page'
const address = /https?:\/\/[^\s<>"')\]]+/

/** Arguments that fit the schema. A search query is the prompt itself, so that the gateway's tools find something. */
function argumentsOf({ name, parameters }: OfferedTool, { prompt }: SimRequest): unknown {
  if (name === 'web_search' && takes(parameters, 'query')) return { query: prompt.slice(0, longestQuery) }
  const [url] = address.exec(prompt) ?? []
  if (name === openPage && takes(parameters, 'url') && url !== undefined) return { url }
  return parameters === undefined ? {} : instanceOf(parameters)
}

const longestQuery = 300

/** A client's own function may have either name. */
function takes(schema: Json | undefined, property: string): boolean {
  const properties =
    schema !== null && typeof schema === 'object' && !Array.isArray(schema) && schema['properties']
  return typeof properties === 'object' && properties !== null && property in properties
}

export function structuredPlan(request: SimRequest): Plan {
  const instance = request.schema === undefined ? { answer: request.prompt } : instanceOf(request.schema)
  return { reasoning: '', text: JSON.stringify(instance), calls: [] }
}

/** Sentences of reasoning for each effort. */
const thoughts: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1,
  low: 1,
  medium: 2,
  high: 4,
  xhigh: 6,
  max: 8,
}

export function reason(request: SimRequest): Plan {
  return { ...echo(request), reasoning: reasoningOf(request, request.effort ?? 'medium') }
}

function reasoningOf(request: SimRequest, effort: Effort): string {
  const words = request.prompt.split(/\s+/).filter(Boolean).length
  return Array.from(
    { length: thoughts[effort] },
    (_, step) => `Step ${step + 1}: the question has ${words} words, and repeating them answers it.`,
  ).join(' ')
}

/** Any model reasons if an effort is set. */
function asAsked(plan: Plan, request: SimRequest): Plan {
  if (plan.reasoning !== '' || request.effort === undefined) return plan
  return { ...plan, reasoning: reasoningOf(request, request.effort) }
}

let longestText: string | undefined

export function long(request: SimRequest): Plan {
  const length = Math.min(request.maxTokens ?? usualLength, longestAnswer)
  // A part of one text, which all long answers share.
  longestText ??= 'word'.concat(' word'.repeat(longestAnswer - 1))
  const plan: Plan = { reasoning: '', text: longestText.slice(0, ' word'.length * length - 1), calls: [] }
  return request.maxTokens === length ? { ...plan, open: true } : plan
}

export function slow(request: SimRequest): Plan {
  return { reasoning: '', text: 'slow'.concat(' slow'.repeat(request.pace.frames - 1)), calls: [] }
}

/** The choices of an answer and their usage. Ids of calls are derived from `seed`. */
export function answer(
  plan: Plan,
  request: SimRequest,
  seed: string,
): { choices: readonly AnswerChoice[]; usage: AnswerUsage } {
  const cut = cutToLimits(asAsked(plan, request), request)
  const choices = Array.from({ length: request.n }, (_, index) => ({
    ...cut,
    index,
    calls: cut.calls.map((call, at) => ({
      ...call,
      id: `call_${seed}${index.toString(36)}${at.toString(36)}`,
    })),
  }))
  const reasoning = cut.reasoning.length
  const called = cut.calls.reduce((sum, call) => sum + call.pieces.length, 0)
  const tokens = reasoning + (cut.content?.length ?? 0) + called
  return {
    choices,
    usage: {
      prompt: request.promptTokens,
      cached: request.cachedTokens,
      audio: request.audioTokens,
      completion: tokens * request.n,
      reasoning: reasoning * request.n,
    },
  }
}

/** Reasoning, text and arguments share one budget, in this order. */
function cutToLimits(plan: Plan, request: SimRequest) {
  let left = mostTokens(request)
  let short = plan.open ?? false
  const take = (text: string): Pieces => {
    const taken = wordPieces(text, left)
    short ||= taken.text.length < text.length
    left -= taken.length
    return taken
  }
  const reasoning = take(plan.reasoning)
  const content = plan.text === null ? null : take(cutAtStop(plan.text, request.stop))
  // A call is made whole or not at all: incomplete arguments are useless.
  const calls: { name: string; pieces: Pieces }[] = []
  for (const call of plan.calls) {
    const pieces = jsonPieces(call.arguments)
    short ||= pieces.length > left
    if (short) break
    left -= pieces.length
    calls.push({ name: call.name, pieces })
  }
  const finish: AnswerChoice['finish'] = calls.length > 0 ? 'tool_calls' : short ? 'length' : 'stop'
  return { reasoning, content, calls, finish }
}

/**
 * The tokens of each choice. An answer with several, or with log probabilities, takes many times the memory of its text,
 * so that those have a limit of their own.
 */
function mostTokens({ maxTokens, n, logprobs }: SimRequest): number {
  const asked = maxTokens ?? Number.POSITIVE_INFINITY
  return n === 1 && !logprobs ? asked : Math.min(asked, Math.floor(longestAnswer / n))
}

/** The text up to the first stop string, which is not part of the answer. */
function cutAtStop(text: string, stops: readonly string[]): string {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)
  return found.length === 0 ? text : text.slice(0, Math.min(...found))
}

/** OpenAI's usage object, with every counter present. */
export function usageBody(usage: AnswerUsage): JsonObject {
  return {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: { cached_tokens: usage.cached, cache_write_tokens: 0, audio_tokens: usage.audio },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}
