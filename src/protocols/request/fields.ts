// What errors and warnings call a field: providers' protocols are lowered from one request, and speak of it in the
// words of chat completions; errors name the field as the client wrote it.

import { z } from 'zod'
import type { ChatRequest, GoogleMembers, Json, JsonObject, Message } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isRaw, type RawInteger } from '../../json/json.ts'
import { isSettled } from '../../json/scan.ts'
import { isObject } from '../lenient.ts'
import { type Warning, warnInto } from '../lowering.ts'

/** How a client of another protocol than chat completions calls what it sent. */
export interface ClientFields {
  /** Where it wrote each message of the request, in its own notation. */
  messages(): readonly string[]
  /** Its names of the parameters that are called otherwise in chat completions. */
  readonly names: Readonly<Record<string, string>>
  /** Whether it writes places in a list as `.1`, not as `[1]`. */
  readonly dotted?: boolean
  /** Its messages have other members than those of chat completions: an error names the message alone. */
  readonly membersDiffer?: boolean
}

/** A message of a request with where its client wrote it. */
export interface PlacedMessage {
  readonly message: Message
  readonly field: string
}

/** Fields that hold the content of a message and nothing else of it. */
const instructionFields: ReadonlySet<string> = new Set(['system', 'instructions'])

/** The client's own name of a field; itself for a client of chat completions. */
export function fieldOf(param: string, fields: ClientFields | undefined): string {
  if (fields === undefined) return param
  const message = /^messages\[(\d+)\](.*)$/.exec(param)
  if (message) {
    const own = fields.messages()[Number(message[1])]
    if (own === undefined) return param
    if (fields.membersDiffer === true) return own
    const within = instructionFields.has(own) ? message[2]!.replace(/^\.content/, '') : message[2]!
    return own + (fields.dotted === true ? within.replaceAll(/\[(\d+)\]/g, '.$1') : within)
  }
  if (Object.hasOwn(fields.names, param)) return fields.names[param]!
  const [, name = param, rest = ''] = /^([^.[]+)(.*)$/.exec(param) ?? []
  return Object.hasOwn(fields.names, name) ? fields.names[name]! + rest : param
}

/** The same warnings under the client's own names. */
export function warningsFor(
  warnings: readonly Warning[],
  fields: ClientFields | undefined,
): readonly Warning[] {
  if (fields === undefined || warnings.length === 0) return warnings
  // Reading all messages again for each warning would take seconds: a long conversation may have one for each message.
  let places: readonly string[] | undefined
  const read: ClientFields = { ...fields, messages: () => (places ??= fields.messages()) }
  return warnings.map((warning) => ({ ...warning, param: fieldOf(warning.param, read) }))
}

/** The same error under the client's own name; anything else as it is. */
export function errorFor(error: unknown, fields: ClientFields | undefined): unknown {
  if (!(error instanceof GatewayError) || error.details.param == null) return error
  const param = fieldOf(error.details.param, fields)
  if (param === error.details.param) return error
  // As a word of its own: `n` is a letter of others.
  const name = error.details.param.replaceAll(/[^\w]/g, String.raw`\$&`)
  const message = error.message.replaceAll(new RegExp(String.raw`(?<![\w.])${name}(?!\w)`, 'g'), () => param)
  return new GatewayError(error.code, { ...error.details, message, param, cause: error })
}

// Fields as most calls have them. Every protocol that has them allows them so, and asking its schema would take longer
// than all the rest of reading the call.

/** Whether the field has a value that needs no schema to be known as valid. False says nothing about it. */
export function isPlainField(name: string, value: unknown): boolean {
  switch (name) {
    case 'model':
      return typeof value === 'string' && value !== '' && value.length <= 512
    case 'messages':
      return Array.isArray(value) && value.length > 0 && value.every(isPlainMessage)
    case 'input':
    case 'instructions':
      return typeof value === 'string'
    case 'max_tokens':
    case 'max_output_tokens':
      return typeof value === 'number' && Number.isSafeInteger(value) && value >= 1
    case 'temperature':
      return isBetween(value, 0, 2)
    case 'top_p':
      return isBetween(value, 0, 1)
    case 'stream':
    case 'store':
      return typeof value === 'boolean'
    default:
      return false
  }
}

/** What the fields of a body are checked against: each by itself, and the items of long lists one by one. */
export interface FieldSchemas {
  readonly required: readonly string[]
  readonly fields: Readonly<Record<string, z.ZodType>>
  /** Lists with the schema of their items, and how many they may have. */
  readonly lists: Readonly<Record<string, ItemsSchema>>
}

interface ItemsSchema {
  readonly item: z.ZodType
  readonly least: number
  readonly most: number
}

/** Whether the body has these fields, and every field fits. What does not, the schema of the whole body names. */
export function fitsByFields(body: JsonObject, schemas: FieldSchemas): boolean {
  const { required, lists } = schemas
  if (!required.every((name) => name in body)) return false
  for (const name in body) {
    const value = body[name]
    if (isPlainField(name, value)) continue
    const list = Object.hasOwn(lists, name) ? lists[name] : undefined
    if (list && Array.isArray(value)) {
      if (value.length < list.least || value.length > list.most) return false
      if (misfitIn(list.item, value) >= 0) return false
      continue
    }
    // Made when they are first needed: most requests are plain.
    const { fields } = schemas
    if (!Object.hasOwn(fields, name)) continue
    const field = fields[name]
    if (field && !safeParsed(field, value).success) return false
  }
  return true
}

/** The items that fitted a schema and cannot have changed since. */
const fitting = new WeakMap<z.ZodType, WeakSet<object>>()

/** The place of the first item that does not fit the schema; -1 if all do. One that was sent before is not checked again. */
export function misfitIn(schema: z.ZodType, items: readonly unknown[]): number {
  let known = fitting.get(schema)
  if (known === undefined) fitting.set(schema, (known = new WeakSet()))
  for (let at = 0; at < items.length; at++) {
    const item = items[at]
    const isKept = isSettled(item)
    if (isKept && known.has(item)) continue
    if (!safeParsed(schema, item).success) return at
    if (isKept) known.add(item)
  }
  return -1
}

/** A text, and who says it. */
export function isPlainMessage(message: unknown): boolean {
  if (!isObject(message) || typeof message['content'] !== 'string') return false
  const { role } = message
  if (role !== 'user' && role !== 'assistant' && role !== 'system') return false
  for (const name in message) if (name !== 'role' && name !== 'content') return false
  return true
}

function isBetween(value: unknown, least: number, most: number): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

// The seed of a request. OpenAI's and Cohere's have 64 bits, more than a double holds.

/** A whole number; as it was written where it is beyond 2^53: rounded, the largest would be refused. */
export const seed = z
  .unknown()
  .refine(
    (value): value is number | RawInteger => Number.isInteger(value) || isRaw(value),
    'must be a whole number',
  )
  .meta({ type: 'integer' })

// What zod found wrong, as one GatewayError that names the field the way OpenAI's API does.

type Path = readonly PropertyKey[]

/** A path in OpenAI's notation: `messages[0].content[1].type`. */
function paramOf(path: Path): string {
  let param = ''
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`
    else param += param === '' ? String(key) : `.${String(key)}`
  }
  return param
}

/**
 * The first thing wrong with a body, as `invalid_request` with its `param`: `within` is the path to what was looked
 * at. Never repeats a value of the body.
 */
export function invalidRequest(error: z.ZodError, within: Path = []): GatewayError {
  const [first] = error.issues
  if (first === undefined) return new GatewayError('invalid_request', { cause: error })
  const { path, message } = deepest(first, within)
  const param = paramOf(path)
  return new GatewayError('invalid_request', {
    message:
      param === '' ? `The body is not valid: ${message}.` : `Invalid value for '${param}': ${message}.`,
    ...(param === '' ? {} : { param }),
    cause: error,
  })
}

/**
 * A union fails with the failures of all its branches; the branch that got furthest is the one the client meant,
 * so a wrong part of a content list is named rather than the list. Of those that got as far, one that takes the type.
 */
function deepest(issue: z.core.$ZodIssue, before: Path): { path: Path; message: string } {
  const path = [...before, ...issue.path]
  const own = { path, message: issue.message.replace(/^Invalid input: /, '').replace(/\.$/, '') }
  if (issue.code !== 'invalid_union') return own
  const branches = issue.errors.flatMap((issues) => issues.slice(0, 1)).map((inner) => deepest(inner, path))
  const furthest = branches.reduce((a, b) => (isFurther(b.path, a.path) ? b : a), own)
  if (furthest !== own) return furthest
  const reasons = [...new Set(branches.map((branch) => branch.message))]
  return reasons.length === 0 ? own : { path, message: reasons.join(', or ') }
}

function isFurther(path: Path, than: Path): boolean {
  if (path.length !== than.length) return path.length > than.length
  return than.at(-1) === 'type' && path.at(-1) !== 'type'
}

/** The same for a fault that no schema covers; `message` follows the name of the field. */
export function invalidParam(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', { message: `Invalid value for '${param}': ${message}`, param })
}

/** The body of a request. Throws `invalid_request` for one that is no object. */
export function bodyObject(body: unknown): JsonObject {
  if (isObject(body)) return body
  throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
}

/** For what is understood and not served. */
export function unsupportedParam(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_parameter', {
    message: `'${param}' cannot be honoured: ${message}`,
    param,
  })
}

// What a schema says of something that a client sent, whatever that is.

/** The outcome, with its faults where it has any. Throws `invalid_request` for what the schema cannot be held against. */
export function safeParsed<Checked>(
  schema: z.ZodType<Checked>,
  sent: unknown,
): z.ZodSafeParseResult<Checked> {
  try {
    return schema.safeParse(sent)
  } catch (cause) {
    // zod compares the `length` of what is no string, too, and an object that is no number at all throws there.
    throw new GatewayError('invalid_request', { message: 'The body is not valid.', cause })
  }
}

// What only Google's own protocol has words for: fields of Gemini's clients that no other protocol has, and
// `extra_body.google` of chat completions, as Google's compatible endpoint takes it. Google gets them as they are; of
// other providers, what would be lost in silence is refused.

const json = z.looseObject({})

const thinkingConfig = z.looseObject({
  includeThoughts: z.boolean().nullish(),
  thinkingBudget: z.int().min(-1).nullish(),
  thinkingLevel: z.string().nullish(),
})

const googleFields = z.looseObject({
  safetySettings: z.array(z.looseObject({ category: z.string(), threshold: z.string() })).nullish(),
  labels: z.record(z.string(), z.string()).nullish(),
  mediaResolution: z.string().nullish(),
  /** `VALIDATED` has no word in chat completions: the model may call, and its calls fit their schemas. */
  callingMode: z.enum(['VALIDATED']).nullish(),
  /** Tools that Google runs. */
  tools: z.array(json).nullish(),
  thinkingConfig: thinkingConfig.nullish(),
})

export type GoogleFields = z.infer<typeof googleFields>

/** Tools that Google runs at no price of their own: what they read and write counts as tokens. */
const unpricedTools: ReadonlySet<string> = new Set(['urlContext', 'codeExecution'])

/** Google's own fields in a request; undefined where it has none. Throws `invalid_request` naming the field. */
export function googleFieldsOf({ rest }: Pick<ChatRequest, 'rest'>): GoogleFields | undefined {
  const given = rest['extra_body']
  if (!isObject(given) || !isObject(given['google'])) return undefined
  const { data, error } = googleFields.safeParse(inCamelCase(given['google']))
  if (data !== undefined) return data
  const [issue] = error.issues
  throw invalidParam(googleParamOf(issue?.path.join('.') ?? ''), issue?.message ?? 'it cannot be read.')
}

/**
 * What of `extra_body` not even Google is sent, by the names of the fields. `extra_body` itself is undefined among them if
 * it was read.
 */
export function unreadGoogleFields({ rest }: Pick<ChatRequest, 'rest'>): Record<string, Json | undefined> {
  const { extra_body: given } = rest
  if (!isObject(given) || !isObject(given['google'])) return {}
  const { google, ...others } = given
  const unknown = Object.entries(inCamelCase(google as JsonObject)).filter(
    ([field]) => !Object.hasOwn(googleFields.shape, field),
  )
  return {
    extra_body: undefined,
    ...Object.fromEntries(Object.entries(others).map(([name, value]) => [`extra_body.${name}`, value])),
    ...Object.fromEntries(unknown.map(([field, value]) => [googleParamOf(field), value])),
  }
}

/** How chat completions name one of them. */
function googleParamOf(field: string): string {
  return `extra_body.google.${field}`
}

/** A name in Google's own notation, which reads both. */
export function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/** Google reads both notations; names within schemas, arguments and labels are the client's. */
function inCamelCase(fields: JsonObject): JsonObject {
  const withCamelKeys = (value: Json): Json =>
    isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([name, member]) => [camel(name), member]))
      : value
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const field = camel(name)
      if (field === 'tools' && Array.isArray(value)) return [field, value.map(withCamelKeys)]
      return [field, field === 'labels' ? value : withCamelKeys(value)]
    }),
  )
}

/** Thresholds under which Google blocks nothing: a provider without such filters does as much. */
const looseThresholds: ReadonlySet<string> = new Set([
  'BLOCK_NONE',
  'OFF',
  'HARM_BLOCK_THRESHOLD_UNSPECIFIED',
])

/**
 * The request for a provider that does not speak Google's protocol. Throws `unsupported_parameter` for safety settings
 * that block something and for tools that Google runs; names what else is left out.
 */
export function withoutGoogleFields(request: ChatRequest): {
  readonly request: ChatRequest
  readonly warnings: readonly Warning[]
} {
  const fields = googleFieldsOf(request)
  const google = fields ?? {}
  const { googleMembers, ...asked } = request
  const strict = google.safetySettings?.some(({ threshold }) => !looseThresholds.has(threshold.toUpperCase()))
  if (strict)
    throw refusal(
      'safetySettings',
      'Only Google filters by safety settings, and this provider is not Google.',
    )
  if (google.tools?.some((tool) => Object.keys(tool).length > 0))
    throw refusal('tools', 'These tools are run by Google itself, and this provider is not Google.')
  if (googleMembers?.body['modelArmorConfig'] != null)
    throw new GatewayError('unsupported_parameter', {
      message: 'Only Google filters with Model Armor, and this provider is not Google.',
      param: 'modelArmorConfig',
    })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  for (const param of googleMembers === undefined ? [] : pathsOf(googleMembers))
    warn(param, 'Only Google itself knows this field; dropped.')
  for (const [field, value] of Object.entries(google))
    if (value != null) warn(googleParamOf(field), 'Only Google itself knows this field; dropped.')
  if (fields === undefined) return { request: asked, warnings }
  const { extra_body: _, ...rest } = request.rest
  return { request: { ...asked, rest }, warnings }
}

/** Where a client of Gemini's API wrote them. */
function pathsOf({ body, functions, search }: GoogleMembers): string[] {
  const within = ([name, value]: [string, Json]): string[] =>
    isObject(value) ? Object.keys(value).map((member) => `${name}.${member}`) : [name]
  return [
    ...Object.entries(body).flatMap(within),
    ...new Set(
      Object.values(functions).flatMap((each) =>
        Object.keys(each).map((member) => `tools.functionDeclarations.${member}`),
      ),
    ),
    ...Object.keys(search).map((member) => `tools.googleSearch.${member}`),
  ]
}

/** The tools that Google is to run, each as Google declares it. Throws `unsupported_parameter` for one whose price nobody knows. */
export function googleToolsOf({ tools }: GoogleFields): readonly JsonObject[] {
  return (tools ?? []).flatMap((tool) =>
    Object.entries(tool).map(([kind, settings]): JsonObject => {
      if (!unpricedTools.has(kind))
        throw refusal(
          'tools',
          `Google's tool '${kind}' has a price of its own that the catalog does not know.`,
        )
      return { [kind]: settings as Json }
    }),
  )
}

function refusal(field: string, message: string): GatewayError {
  return new GatewayError('unsupported_parameter', { message, param: googleParamOf(field) })
}
