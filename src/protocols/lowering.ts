// What lowering a request has in common for protocols with fewer words than ours: refusing, dropping, choosing tools.

import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
} from '../conversation/request.ts'
import { GatewayError } from '../errors.ts'
import { isObject, parseJson } from './json.ts'
import type { Target, Warning } from './protocol.ts'

/** Names to the client, once, what it asked for and will not get. */
export type Warn = (param: string, message: string) => void

export function warnInto(warnings: Warning[]): Warn {
  return (param, message) => warnings.push({ param, message })
}

/** Warns of a speaker's name, where the protocol has no place for it. `param` is the message's own. */
export function warnOfName(message: Message, param: string, warn: Warn): void {
  if ('name' in message && message.name !== undefined) {
    warn(`${param}.name`, 'Names of speakers are not passed on.')
  }
}

/** Throws GatewayError `unsupported_parameter` for the first of these that is asked for. */
export function refuse(asked: Readonly<Record<string, boolean>>): void {
  const param = Object.entries(asked).find(([, is]) => is)?.[0]
  if (param !== undefined) throw new GatewayError('unsupported_parameter', { param })
}

/** Throws GatewayError `unsupported_parameter` for a part the protocol cannot carry. */
export function refusePart(part: ContentPart, param: string, takes: string): never {
  const what = part.kind === 'file' && part.source.kind !== 'base64' ? 'file by reference' : part.kind
  throw new GatewayError('unsupported_parameter', {
    message: `This model's provider takes ${takes} here, not ${what}.`,
    param,
  })
}

/** Warns of each of these parameters that asks for something. */
export function warnOfUnknown(values: Readonly<Record<string, unknown>>, warn: Warn): void {
  for (const [param, value] of Object.entries(values)) {
    if (!asksNothing(param, value)) warn(param, 'The provider has no such parameter; dropped.')
  }
}

/** The values that change nothing: clients send them always, and leaving them out breaks no promise. */
const neutral: Readonly<Record<string, (value: unknown) => boolean>> = {
  top_k: (value) => value === 0,
  min_p: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  logit_bias: isEmpty,
  metadata: isEmpty,
  parallel_tool_calls: (value) => value === true,
  service_tier: (value) => value === 'auto' || value === 'default',
  store: (value) => value === false,
  modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
}

/** Whether a parameter, by its name in chat completions, is absent or has a value without effect. */
export function asksNothing(param: string, value: unknown): boolean {
  return value === undefined || (Object.hasOwn(neutral, param) && neutral[param]!(value))
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

/** The labels that most providers have no word for, by the client's names. */
export function unknownLabels({ labels }: ChatRequest): Record<string, unknown> {
  return {
    user: labels.user,
    safety_identifier: labels.safetyIdentifier,
    prompt_cache_key: labels.promptCacheKey,
    service_tier: labels.serviceTier,
    verbosity: labels.verbosity,
    store: labels.store,
    metadata: labels.metadata,
  }
}

/** The most tokens to ask for: the client's bound, or the model's own where that is lower, as APIs refuse more. */
export function outputBoundOf(
  { maxOutputTokens: asked }: ChatRequest,
  { maxOutputTokens: most }: Pick<Target, 'maxOutputTokens'>,
  warn: Warn,
): number | undefined {
  if (asked === undefined || most === undefined || asked <= most) return asked
  warn('max_tokens', `The model writes at most ${most} tokens.`)
  return most
}

export function defined(fields: Readonly<Record<string, Json | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, Json] => entry[1] !== undefined),
  )
}

/** The fields of the client's body that are passed on; every other one is warned of. */
export function passedOn(rest: JsonObject, known: ReadonlySet<string>, warn: Warn): JsonObject {
  const passed: JsonObject = {}
  const dropped: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(rest)) (known.has(name) ? passed : dropped)[name] = value
  warnOfUnknown(dropped, warn)
  return passed
}

export interface ToolOffer {
  readonly tools: readonly FunctionTool[]
  readonly choice: 'auto' | 'none' | 'required'
  /** The one tool that must be called. */
  readonly only: string | undefined
}

/**
 * The tools to declare (those that may be called) and how free the model is to call them. Throws GatewayError
 * `invalid_request` for a choice that names no tool of the request.
 */
export function toolOffer(request: ChatRequest): ToolOffer {
  const { toolChoice: choice, tools } = request
  switch (choice?.kind) {
    case undefined:
    case 'auto':
      return { tools, choice: 'auto', only: undefined }
    case 'none':
      return { tools, choice: 'none', only: undefined }
    case 'required':
      return { tools, choice: 'required', only: undefined }
    case 'function':
      named(tools, [choice.name])
      return { tools, choice: 'required', only: choice.name }
    case 'allowed':
      return {
        tools: named(tools, choice.names),
        choice: choice.mode,
        only: choice.mode === 'required' && choice.names.length === 1 ? choice.names[0] : undefined,
      }
    default:
      return choice satisfies never
  }
}

/** The tools for a protocol that cannot name the one to be called: it is shown no other. */
export function narrowed({ tools, only }: ToolOffer): readonly FunctionTool[] {
  return only === undefined ? tools : named(tools, [only])
}

/** A tool in the words of chat completions, which several protocols use; strictness is theirs to add. */
export function functionTool({ name, description, parameters }: FunctionTool): JsonObject {
  return {
    type: 'function',
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
    },
  }
}

function named(tools: readonly FunctionTool[], names: readonly string[]): readonly FunctionTool[] {
  const found = tools.filter((tool) => names.includes(tool.name))
  if (found.length > 0) return found
  throw new GatewayError('invalid_request', {
    message: 'tool_choice names no tool of this request.',
    param: 'tool_choice',
  })
}

/** Whether a text says nothing: APIs that check refuse such blocks. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}

/** The arguments of a call as the object that a protocol without JSON text wants. */
export function argumentsObject(text: string, param: string, warn: Warn): JsonObject {
  const parsed = parseJson(isBlank(text) ? '{}' : text)
  if (parsed === null) return {}
  if (isObject(parsed)) return parsed
  // The protocol takes objects only, and the model should see what it wrote.
  warn(param, 'The arguments of a call are not a JSON object; the model is shown their text.')
  return { invalid_arguments: text }
}

/** The three words that most models know for how hard to think, for all of ours. */
export const threeEfforts: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** Whether reasoning is unsigned plain text, which any provider that takes reasoning back accepts. */
export function isPlain({ format }: ReasoningDetail): boolean {
  return format === null || format === 'unknown'
}

/** The text of all reasoning that is plain, in its order. */
export function plainReasoning(details: readonly ReasoningDetail[]): string {
  return details
    .toSorted((a, b) => a.index - b.index)
    .filter(isPlain)
    .map((detail) => detail.text ?? detail.summary ?? '')
    .join('')
}

/** Warns where reasoning of the history is left out because another provider made it. */
export function warnOfForeignReasoning(
  details: readonly ReasoningDetail[],
  kept: (detail: ReasoningDetail) => boolean,
  param: string,
  warn: Warn,
): void {
  if (details.every(kept)) return
  warn(
    `${param}.reasoning_details`,
    'Reasoning that this provider did not make cannot go back to it and is left out.',
  )
}

/** The text of parts that may hold nothing else. Throws for any other kind of part. */
export function textOf(parts: readonly ContentPart[], param: string): string {
  return parts
    .map((part) =>
      part.kind === 'text' || part.kind === 'refusal' ? part.text : refusePart(part, param, 'only text'),
    )
    .join('')
}
