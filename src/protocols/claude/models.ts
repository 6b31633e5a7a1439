// What each generation of Claude accepts, as a table.

import type { Json, JsonObject, Reasoning } from '../../conversation/request.ts'
import { isObject } from '../lenient.ts'
import { isReasoningOff, type Warn } from '../lowering.ts'
import type { Prefill } from '../protocol.ts'

type Effort = 'low' | 'medium' | 'high' | 'xhigh' | 'max'

export interface ModelTraits {
  /** `budget`: `thinking.budget_tokens`. `adaptive`: the model decides, guided by an effort. */
  readonly thinking: 'none' | 'budget' | 'adaptive'
  /** Whether a model with adaptive thinking still accepts a budget. */
  readonly takesBudget: boolean
  /** How thinking is turned off: by omitting the field, by a value, or not at all. */
  readonly thinkingOff: 'omit' | 'disabled' | 'never'
  /** Whether `thinking.display` is supported; newer models show no reasoning unless it is `summarized`. */
  readonly display: boolean
  /** The supported effort levels, weakest first; empty without any. */
  readonly efforts: readonly Effort[]
  /** Temperature and top_p together, one of them, or neither. */
  readonly sampling: 'both' | 'one' | 'neither'
  /** Whether the model continues a final assistant message; refused from 4.6 on. */
  readonly prefill: boolean
  /** How answer schemas are sent: in `output_config.format`, or as a tool that the model must call. */
  readonly schema: 'native' | 'tool'
}

const early: ModelTraits = {
  thinking: 'none',
  takesBudget: false,
  thinkingOff: 'omit',
  display: false,
  efforts: [],
  sampling: 'both',
  prefill: true,
  schema: 'tool',
}
const budgeted: ModelTraits = { ...early, thinking: 'budget', takesBudget: true }
const adaptive: ModelTraits = {
  thinking: 'adaptive',
  takesBudget: false,
  thinkingOff: 'omit',
  display: true,
  efforts: ['low', 'medium', 'high', 'xhigh', 'max'],
  sampling: 'neither',
  prefill: false,
  schema: 'native',
}

/**
 * The first row whose pattern the model's name fits. Sources: the vendors' pages on adaptive thinking (4.6 takes
 * both forms, 4.7 and later refuse a budget with 400), and the errors their users report: temperature and top_p
 * exclude each other from Opus 4.1 on and are refused altogether from 4.7 on.
 */
const rows: readonly (readonly [RegExp, ModelTraits])[] = [
  [/claude-(instant|v?[12]\b)/, early],
  [/claude-3[-.]7/, budgeted],
  [/claude-3/, early],
  [/-4[-.]5(?!\d)/, { ...budgeted, sampling: 'one', schema: 'native', display: true }],
  [/-4[-.]1(?!\d)/, { ...budgeted, sampling: 'one' }],
  [
    /-4[-.]6(?!\d)/,
    { ...adaptive, takesBudget: true, efforts: ['low', 'medium', 'high', 'max'], sampling: 'one' },
  ],
  [/-4[-.][7-9](?!\d)/, adaptive],
  [/claude-((opus|sonnet|haiku)-)?4(?![-.][1-9](?!\d))/, budgeted],
  [/claude-(mythos|fable)/, { ...adaptive, thinkingOff: 'never' }],
  // From Claude 5 on thinking is the default, so off must be explicit.
  [/claude/, { ...adaptive, thinkingOff: 'disabled' }],
]

/**
 * What a model accepts. A model of another vendor gets the oldest, most widely supported forms, and thinks if the
 * catalog says that it reasons.
 */
export function traitsOf(model: string, reasons: boolean, overrides: Partial<ModelTraits>): ModelTraits {
  const name = model.toLowerCase()
  const known = rows.find(([pattern]) => pattern.test(name))?.[1]
  return { ...(known ?? (reasons ? budgeted : early)), ...overrides }
}

/** Parameters that a model refuses in any case. Models of other vendors refuse none. */
export function ignoredByClaude(model: string, reasons: boolean): readonly string[] {
  return traitsOf(model, reasons, {}).sampling === 'neither' ? ['temperature', 'top_p', 'top_k'] : []
}

/** How a model goes on with an answer that is begun for it, while it does not think. Of other vendors' nothing is known. */
export function prefillOfClaude(model: string, overrides: Partial<ModelTraits> = {}): Prefill | undefined {
  return /claude/i.test(model) && traitsOf(model, false, overrides).prefill ? 'rest' : undefined
}

// Fixed names that identify parts of Claude's requests and answers in every protocol.

/** The format of reasoning details that only this protocol accepts back. */
export const reasoningFormat = 'anthropic-claude-v1'

/** The id that marks a `reasoning.summary` detail as a compaction block. */
export const compactionId = 'compaction'

/**
 * The tool that carries a structured answer on models without native support. The parser does not know the request: a
 * call of a tool with this name is the answer's text.
 */
export const answerTool = 'weir_structured_answer'

/** The user message added after an assistant message that the model may not continue. */
export const continuation = 'Continue.'

// Sets how hard the model thinks: a token budget for older models, an effort for newer ones.

interface ThinkingQuestion {
  readonly reasoning: Reasoning | undefined
  /** Anthropic's own `thinking` field, from a client that knows it. */
  readonly native: Json | undefined
  readonly traits: ModelTraits
  readonly maxTokens: number
  /** Whether the model must call a tool, which the API does not allow together with thinking. */
  readonly forced: boolean
  /** Whether the turn to continue has lost its thinking blocks. */
  readonly lost: boolean
  readonly warn: Warn
}

export interface Thinking {
  /** The `thinking` field, or nothing to send. */
  readonly field: Json | undefined
  readonly effort: Effort | undefined
  /** Whether the model will think, requested or by default. */
  readonly on: boolean
}

/** Thinking tokens for models that take a number. Our choice: there is no official value per effort. */
const budgets: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 4096,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: 65_536,
}
const smallestBudget = 1024

/** The thinking parameters that come closest to the request; what cannot be honoured is warned of. */
export function thinkingOf(question: ThinkingQuestion): Thinking {
  const wanted = wantedThinking(question)
  const conflict = conflictOf(question, wanted)
  if (conflict === undefined) return wanted
  if (asksToThink(question)) question.warn(question.native === undefined ? 'reasoning' : 'thinking', conflict)
  return off(question.traits)
}

/** Why the model may not think on this request. */
function conflictOf(question: ThinkingQuestion, wanted: Thinking): string | undefined {
  if (!wanted.on || question.traits.thinkingOff === 'never') return undefined
  if (question.forced) return 'The model cannot think and be made to call a tool at once; it does not think.'
  // The check only applies to budgets: adaptive thinking accepts any history.
  if (question.lost && isObject(wanted.field) && wanted.field.type === 'enabled') {
    return 'The assistant message before the tool results came back without its reasoning_details; the model does not think.'
  }
  return undefined
}

function asksToThink(question: ThinkingQuestion): boolean {
  return question.reasoning !== undefined || question.native !== undefined
}

function wantedThinking(question: ThinkingQuestion): Thinking {
  const { native, reasoning, traits, warn } = question
  if (isObject(native) && native.type === 'enabled') return budgetAsSent(question, native)
  if (native !== undefined && native !== null) {
    return { field: native, effort: undefined, on: isObject(native) && native.type !== 'disabled' }
  }
  if (reasoning === undefined)
    return { field: undefined, effort: undefined, on: traits.thinkingOff !== 'omit' }
  if (isReasoningOff(reasoning)) {
    if (traits.thinkingOff === 'never') warn('reasoning', 'This model always thinks.')
    return off(traits)
  }
  if (traits.thinking === 'none') {
    warn('reasoning', 'This model does not think.')
    return off(traits)
  }
  const byBudget = traits.thinking === 'budget' || (traits.takesBudget && reasoning.maxTokens !== undefined)
  return byBudget ? budgetedThinking(question, reasoning) : adaptiveThinking(question, reasoning)
}

function off(traits: ModelTraits): Thinking {
  const field = traits.thinkingOff === 'disabled' ? { type: 'disabled' } : undefined
  return { field, effort: undefined, on: traits.thinkingOff === 'never' }
}

function adaptiveThinking({ traits, warn }: ThinkingQuestion, reasoning: Reasoning): Thinking {
  if (reasoning.maxTokens !== undefined) {
    warn('reasoning.max_tokens', 'This model takes no budget; it decides by itself how much to think.')
  }
  // Newer models show no reasoning by default.
  const display: JsonObject = traits.display
    ? { display: reasoning.exclude === true ? 'omitted' : 'summarized' }
    : {}
  return { field: { type: 'adaptive', ...display }, effort: effortOf(reasoning, traits, warn), on: true }
}

/** The client's own setting, unless max_tokens (lowered to what is affordable, perhaps) forbids it. */
function budgetAsSent({ traits, maxTokens, warn }: ThinkingQuestion, native: JsonObject): Thinking {
  const asked = native.budget_tokens
  if (typeof asked !== 'number' || asked < maxTokens) return { field: native, effort: undefined, on: true }
  if (maxTokens <= smallestBudget) {
    warn('thinking', `Thinking needs max_tokens above ${smallestBudget}; the model does not think.`)
    return off(traits)
  }
  warn('thinking.budget_tokens', `The budget must be below max_tokens: it is ${maxTokens - 1}.`)
  return { field: { ...native, budget_tokens: maxTokens - 1 }, effort: undefined, on: true }
}

/** The effort itself, or the next weaker one that the model supports. */
function effortOf(reasoning: Reasoning, traits: ModelTraits, warn: Warn): Effort | undefined {
  const asked = reasoning.effort
  if (asked === undefined || asked === 'none' || traits.efforts.length === 0) return undefined
  const scale = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']
  const rank = scale.indexOf(asked)
  const granted = traits.efforts.findLast((level) => scale.indexOf(level) <= rank) ?? traits.efforts[0]!
  if (granted !== asked)
    warn('reasoning.effort', `This model has no effort "${asked}"; it gets "${granted}".`)
  return granted
}

function budgetedThinking({ traits, maxTokens, warn }: ThinkingQuestion, reasoning: Reasoning): Thinking {
  // The budget must be smaller than max_tokens, so a short answer leaves no room for thinking.
  if (maxTokens <= smallestBudget) {
    warn('reasoning', `Thinking needs max_tokens above ${smallestBudget}; the model does not think.`)
    return off(traits)
  }
  const asked = reasoning.maxTokens
  const wanted = asked ?? budgets[reasoning.effort ?? 'medium']!
  // By default a fifth of the tokens is kept for the answer.
  const most = asked === undefined ? Math.max(smallestBudget, Math.floor(maxTokens * 0.8)) : maxTokens - 1
  const budget = Math.min(Math.max(Math.floor(wanted), smallestBudget), most)
  if (asked !== undefined && budget !== asked) {
    warn(
      'reasoning.max_tokens',
      `The budget must be at least ${smallestBudget} and below max_tokens: it is ${budget}.`,
    )
  }
  const hidden = reasoning.exclude === true
  if (hidden && !traits.display) warn('reasoning.exclude', 'This model always shows its thinking.')
  const display: JsonObject = hidden && traits.display ? { display: 'omitted' } : {}
  return { field: { type: 'enabled', budget_tokens: budget, ...display }, effort: undefined, on: true }
}
