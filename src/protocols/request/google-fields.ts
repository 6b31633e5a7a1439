// What only Google's own protocol has words for: fields of Gemini's clients that no other protocol has, and
// `extra_body.google` of chat completions, as Google's compatible endpoint takes it. Google gets them as they are; of
// other providers, what would be lost in silence is refused.

import { z } from 'zod'
import type { ChatRequest, GoogleMembers, Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isObject } from '../lenient.ts'
import { type Warning, warnInto } from '../lowering.ts'
import { invalidParam } from './fields.ts'

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
  throw invalidParam(paramOf(issue?.path.join('.') ?? ''), issue?.message ?? 'it cannot be read.')
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
    ...Object.fromEntries(unknown.map(([field, value]) => [paramOf(field), value])),
  }
}

/** How chat completions name one of them. */
function paramOf(field: string): string {
  return `extra_body.google.${field}`
}

/** Google reads both notations; names within schemas, arguments and labels are the client's. */
function inCamelCase(fields: JsonObject): JsonObject {
  const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
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
    if (value != null) warn(paramOf(field), 'Only Google itself knows this field; dropped.')
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
    ...new Set(Object.values(functions).flatMap((each) => Object.keys(each).map(pathOfMember))),
    ...Object.keys(search).map((member) => `tools.googleSearch.${member}`),
  ]
}

function pathOfMember(member: string): string {
  return `tools.functionDeclarations.${member}`
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
  return new GatewayError('unsupported_parameter', { message, param: paramOf(field) })
}
