// The simulated provider's answers: a plan of reasoning, text and calls, cut to the limits of the request.

import { z } from 'zod'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject } from '../../protocols/lenient.ts'
import {
  type Effort,
  jsonPieces,
  type SimulatedTool,
  type Pieces,
  Refusal,
  type SimRequest,
  textTokens,
  wordPieces,
} from './request.ts'

/** The answer of a behaviour before limits apply. */
export interface Plan {
  readonly reasoning: string
  readonly text: string | null
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
  /** Whether the plan fills the limit of the request exactly, so that it counts as cut. */
  readonly open?: true
}

interface AnswerCall {
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
  if (request.tools.length === 0)
    return request.schema === undefined ? echo(request) : structuredPlan(request)
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
function isAnswerable({ name }: SimulatedTool, { prompt }: SimRequest): boolean {
  return name !== openPage || address.test(prompt)
}

const openPage = 'open_page'
const address = /https?:\/\/[^\s<>"')\]]+/

/** Arguments that fit the schema. A search query is the prompt itself, so that the gateway's tools find something. */
function argumentsOf({ name, parameters }: SimulatedTool, { prompt }: SimRequest): unknown {
  if (name === 'web_search' && takes(parameters, 'query')) return { query: prompt.slice(0, longestQuery) }
  const [url] = address.exec(prompt) ?? []
  if (name === openPage && takes(parameters, 'url') && url !== undefined) return { url }
  return parameters === undefined ? {} : instanceOf(parameters)
}

const longestQuery = 300

/** A client's own function may have either name. */
function takes(schema: Json | undefined, property: string): boolean {
  const properties = isObject(schema) ? schema['properties'] : undefined
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

// An instance of a JSON Schema, for the simulated provider's tool arguments and structured answers.

/** Below the first depth only required properties are filled, below the second none: schemas may be recursive. */
const optionalDepth = 5
const deepest = 24
/** The limit for items and characters, whatever the schema requires. */
const mostItems = 64
const mostCharacters = 4096
/** The limit for values of one instance: nested items would otherwise multiply. */
const mostValues = 2_000
/**
 * The limit for the characters of one instance, and for the members and characters of the schema that are read for it:
 * a long name, constant or pattern may be used for every value.
 */
const mostWork = 131_072

/**
 * A value that the schema allows, the same for the same schema. Takes a schema from any client: keywords it
 * does not know are ignored, and references are resolved inside the schema only. `name` colours the strings.
 */
export function instanceOf(schema: Json | undefined, name = 'value'): Json {
  return fill(schema, {
    root: schema ?? true,
    budget: { values: mostValues, work: mostWork },
    depth: 0,
    name,
    item: 0,
  })
}

/** What is left for the whole instance. */
interface Budget {
  values: number
  work: number
}

interface Place {
  readonly root: Json
  readonly budget: Budget
  readonly depth: number
  readonly name: string
  /** Position in an array, so that the items of a set differ. */
  readonly item: number
}

function fill(given: Json | undefined, place: Place): Json {
  place.budget.values -= 1
  if (isSpent(place)) return null
  if (!isObject(given) || place.depth > deepest) return sampleText({}, place)
  const schema = flatten(given, place)
  if (schema['const'] !== undefined) return spendOn(schema['const'], place)
  const choices = schema['enum']
  if (Array.isArray(choices) && choices.length > 0)
    return spendOn(choices[place.item % choices.length]!, place)
  return makers[typeOf(schema)](schema, place)
}

function isSpent({ budget }: Place): boolean {
  return budget.values < 0 || budget.work < 0
}

function spend({ budget }: Place, work: number): void {
  budget.work -= work
}

/** The value, if the instance has room for it. */
function spendOn(value: Json, place: Place): Json {
  spend(place, typeof value === 'string' ? value.length : JSON.stringify(value).length)
  return isSpent(place) ? null : value
}

type TypeName = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean' | 'null'

const makers: Readonly<Record<TypeName, (schema: JsonObject, place: Place) => Json>> = {
  object: fillObject,
  array: fillArray,
  string: sampleText,
  number: (schema, place) => sampleNumber(schema, place, schema['multipleOf']),
  integer: (schema, place) => sampleNumber(schema, place, schema['multipleOf'] ?? 1),
  boolean: (_, place) => place.item % 2 === 0,
  null: () => null,
}

/** The schema with its reference followed, its branches taken and its `allOf` joined. */
function flatten(given: JsonObject, place: Place): JsonObject {
  let schema = given
  // Each round takes one keyword away; a chain of references longer than this is a circle.
  for (let round = 0; round < 32; round++) {
    if (isSpent(place)) return {}
    const { $ref: ref, allOf, anyOf, oneOf, ...rest } = schema
    spend(place, membersOf(schema))
    if (typeof ref === 'string') {
      spend(place, ref.length)
      schema = merge(rest, resolve(ref, place.root), { allOf, anyOf, oneOf })
    } else if (Array.isArray(allOf) && allOf.length > 0) {
      place.budget.values -= allOf.length
      schema = merge(rest, ...allOf, { anyOf, oneOf })
    } else if (Array.isArray(anyOf) && anyOf.length > 0) {
      schema = merge(rest, branch(anyOf, place), { oneOf })
    } else if (Array.isArray(oneOf) && oneOf.length > 0) {
      schema = merge(rest, branch(oneOf, place))
    } else {
      return rest
    }
  }
  return {}
}

/** How many members merging the schema copies. */
function membersOf(schema: JsonObject): number {
  const { properties, required } = schema
  return (
    Object.keys(schema).length +
    (isObject(properties) ? Object.keys(properties).length : 0) +
    (Array.isArray(required) ? required.length : 0)
  )
}

/** The first branch that is not null; at depth the last, which in recursive types usually ends the recursion. */
function branch(branches: readonly Json[], place: Place): Json {
  spend(place, branches.length)
  if (place.depth > optionalDepth) {
    return branches.find((each) => isObject(each) && each['type'] === 'null') ?? branches.at(-1)!
  }
  return branches.find((each) => !isObject(each) || each['type'] !== 'null') ?? branches[0]!
}

function merge(...schemas: (Json | Record<string, Json | undefined>)[]): JsonObject {
  const merged: JsonObject = {}
  for (const schema of schemas) {
    if (!isObject(schema)) continue
    for (const [key, value] of Object.entries(schema)) {
      if (value === undefined || key === '__proto__') continue
      const before = merged[key]
      if (key === 'properties' && isObject(before) && isObject(value)) merged[key] = { ...before, ...value }
      else if (key === 'required' && Array.isArray(before) && Array.isArray(value))
        merged[key] = [...before, ...value]
      else merged[key] = value
    }
  }
  return merged
}

function resolve(ref: string, root: Json): Json {
  if (!ref.startsWith('#')) return true
  let at: Json | undefined = root
  for (const step of ref.slice(1).split('/').filter(Boolean)) {
    const key = unescapeStep(step)
    if (Array.isArray(at)) at = at[Number(key)]
    else if (isObject(at) && Object.hasOwn(at, key)) at = at[key]
    else return true
  }
  return at ?? true
}

function unescapeStep(step: string): string {
  const plain = step.replaceAll('~1', '/').replaceAll('~0', '~')
  try {
    return decodeURIComponent(plain)
  } catch {
    return plain
  }
}

function typeOf(schema: JsonObject): TypeName {
  const type = schema['type']
  const named = Array.isArray(type) ? (type.find((each) => each !== 'null') ?? type[0]) : type
  if (typeof named === 'string' && Object.hasOwn(makers, named)) return named as TypeName
  if (schema['properties'] !== undefined || schema['required'] !== undefined) return 'object'
  if (schema['items'] !== undefined || schema['prefixItems'] !== undefined) return 'array'
  if (schema['minimum'] !== undefined || schema['maximum'] !== undefined) return 'number'
  return 'string'
}

function fillObject(schema: JsonObject, place: Place): Json {
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : [])
  const filled: [string, Json][] = []
  for (const [key, property] of Object.entries(properties)) {
    if (isSpent(place)) break
    if (place.depth >= optionalDepth && !required.has(key)) continue
    spend(place, key.length)
    filled.push([key, fill(property, { ...place, depth: place.depth + 1, name: key })])
  }
  const more = isObject(schema['additionalProperties']) ? schema['additionalProperties'] : true
  for (const key of required) {
    if (isSpent(place)) break
    if (typeof key !== 'string' || Object.hasOwn(properties, key)) continue
    spend(place, key.length)
    filled.push([key, fill(more, { ...place, depth: place.depth + 1, name: key })])
  }
  const wanted = Math.min(numberAt(schema, 'minProperties') ?? 0, mostItems)
  for (let extra = 1; filled.length < wanted; extra++) {
    const key = `key_${extra}`
    filled.push([key, fill(more, { ...place, depth: place.depth + 1, name: key })])
  }
  return Object.fromEntries(filled)
}

function fillArray(schema: JsonObject, place: Place): Json {
  const leading = Array.isArray(schema['prefixItems']) ? schema['prefixItems'] : []
  const least = numberAt(schema, 'minItems') ?? Math.max(leading.length, place.depth >= optionalDepth ? 0 : 1)
  const length = Math.min(least, numberAt(schema, 'maxItems') ?? least, mostItems)
  return Array.from({ length }, (_, item) =>
    fill(leading[item] ?? schema['items'], { ...place, depth: place.depth + 1, item }),
  )
}

const formats: Readonly<Record<string, string>> = {
  date: '2026-01-01',
  time: '12:00:00Z',
  'date-time': '2026-01-01T12:00:00Z',
  duration: 'PT1H',
  email: 'sample@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
}

function sampleText(schema: JsonObject, place: Place): Json {
  const format = schema['format']
  if (typeof format === 'string' && Object.hasOwn(formats, format)) return formats[format]!
  const pattern = typeof schema['pattern'] === 'string' ? schema['pattern'] : ''
  spend(place, pattern.length)
  const matching = pattern === '' || isSpent(place) ? undefined : sampleOf(pattern)
  if (matching !== undefined) return spendOn(matching, place)
  const text = place.item === 0 ? `sample ${place.name}` : `sample ${place.name} ${place.item + 1}`
  const least = Math.min(numberAt(schema, 'minLength') ?? 0, mostCharacters)
  return spendOn(
    text.padEnd(least, '.').slice(0, numberAt(schema, 'maxLength') ?? text.length + least),
    place,
  )
}

/** The smallest allowed number from 1 up, or the largest allowed one if that is less than 1. */
function sampleNumber(schema: JsonObject, place: Place, multipleOf: Json | undefined): Json {
  const step = typeof multipleOf === 'number' && multipleOf > 0 ? multipleOf : undefined
  const gap = step ?? 0.5
  const low = lowest(schema, gap)
  const high = highest(schema, gap)
  const wanted = Math.min(Math.max(1 + place.item, low ?? -Infinity), high ?? Infinity)
  if (step === undefined) return wanted
  const up = Math.ceil(wanted / step) * step
  return high !== undefined && up > high ? Math.floor(high / step) * step : up
}

function lowest(schema: JsonObject, gap: number): number | undefined {
  const exclusive = numberAt(schema, 'exclusiveMinimum')
  const inclusive = numberAt(schema, 'minimum')
  if (exclusive === undefined) return inclusive
  const above = numberAt(schema, 'exclusiveMaximum') ?? numberAt(schema, 'maximum')
  return Math.max(inside(exclusive, above, gap), inclusive ?? -Infinity)
}

function highest(schema: JsonObject, gap: number): number | undefined {
  const exclusive = numberAt(schema, 'exclusiveMaximum')
  const inclusive = numberAt(schema, 'maximum')
  if (exclusive === undefined) return inclusive
  const below = numberAt(schema, 'exclusiveMinimum') ?? numberAt(schema, 'minimum')
  return Math.min(inside(exclusive, below, -gap), inclusive ?? Infinity)
}

/** A number next to an exclusive bound: a step away, or halfway to the other bound if that is nearer. */
function inside(bound: number, other: number | undefined, gap: number): number {
  if (other === undefined || Math.abs(other - bound) > Math.abs(gap)) return bound + gap
  return (bound + other) / 2
}

function numberAt(schema: JsonObject, key: string): number | undefined {
  const value = schema[key]
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

// A text that a regular expression matches, found without running it: clients' patterns may take exponential time.

/** The limit for repetitions in a pattern. */
const mostRepeats = 256

/**
 * The shortest text that matches the pattern, taking the first alternative everywhere. Takes the source of an
 * expression in the subset that schemas use: literals, classes, escapes, groups, alternatives, quantifiers,
 * anchors. Gives undefined for anything else (look-around, back references, properties).
 */
export function sampleOf(pattern: string): string | undefined {
  const reader = new Reader(pattern)
  const sample = reader.alternatives(0)
  return sample === undefined || !reader.done || sample.length > mostCharacters ? undefined : sample
}

const escapes: Readonly<Record<string, string>> = {
  d: '0',
  w: 'a',
  s: ' ',
  D: 'a',
  W: '-',
  S: 'a',
  t: '\t',
  n: '\n',
  r: '\r',
}
/** Tried in this order for a class that names what it excludes. */
const candidates = 'a0-A_ .z9Z!'
const sets: Readonly<Record<string, string>> = {
  d: '09',
  w: 'a0A_z9Z',
  s: ' ',
  D: 'a-A_ .zZ!',
  W: '- .!',
  S: 'a0-A_.z9Z!',
}

class Reader {
  readonly #source: string
  #at = 0

  constructor(source: string) {
    this.#source = source
  }

  get done(): boolean {
    return this.#at >= this.#source.length
  }

  /** Reads `a|b|c` and returns a match of the first. */
  alternatives(depth: number): string | undefined {
    if (depth > 32) return undefined
    let first = this.#sequence(depth)
    while (first !== undefined && this.#take('|')) {
      if (this.#sequence(depth) === undefined) first = undefined
    }
    return first
  }

  #sequence(depth: number): string | undefined {
    let sample = ''
    while (!this.done && !this.#isNext('|') && !this.#isNext(')')) {
      const atom = this.#atom(depth)
      const times = this.#quantifier()
      if (atom === undefined || times === undefined) return undefined
      if (sample.length + atom.length * times > mostCharacters) return undefined
      sample += atom.repeat(times)
    }
    return sample
  }

  #atom(depth: number): string | undefined {
    const character = this.#next()
    switch (character) {
      case '^':
      case '$':
        return ''
      case '.':
        return 'a'
      case '(':
        return this.#group(depth)
      case '[':
        return this.#class()
      case '\\':
        return this.#escape()
      case '*':
      case '+':
      case '?':
        return undefined
      default:
        return character
    }
  }

  #group(depth: number): string | undefined {
    if (this.#take('?')) {
      if (this.#take('<')) {
        // A named group; `(?<=` and `(?<!` are lookbehinds, which are not supported.
        if (this.#isNext('=') || this.#isNext('!')) return undefined
        while (!this.done && this.#next() !== '>');
      } else if (!this.#take(':')) return undefined
    }
    const sample = this.alternatives(depth + 1)
    return this.#take(')') ? sample : undefined
  }

  #escape(): string | undefined {
    const letter = this.#next()
    if (letter === 'b') return ''
    if (/[pPuxkcB1-9]/.test(letter)) return undefined
    return Object.hasOwn(escapes, letter) ? escapes[letter] : letter
  }

  #class(): string | undefined {
    const negated = this.#take('^')
    const members: string[] = []
    while (!this.done && !this.#isNext(']')) {
      const set = this.#set()
      if (set !== undefined) {
        members.push(...set)
        continue
      }
      const member = this.#take('\\') ? this.#escape() : this.#next()
      if (member === undefined) return undefined
      members.push(member)
      if (this.#isNext('-') && this.#source[this.#at + 1] !== ']') {
        this.#next()
        const end = this.#take('\\') ? this.#escape() : this.#next()
        if (end === undefined) return undefined
        for (const each of candidates) if (each >= member && each <= end) members.push(each)
      }
    }
    if (!this.#take(']')) return undefined
    return negated ? [...candidates].find((each) => !members.includes(each)) : members[0]
  }

  /** The candidates in a set such as `\w`, where one comes next inside a class. */
  #set(): string | undefined {
    const set = this.#isNext('\\') ? sets[this.#source[this.#at + 1] ?? ''] : undefined
    if (set !== undefined) this.#at += 2
    return set
  }

  /** The number of repetitions of the atom before it; undefined for an invalid quantifier. */
  #quantifier(): number | undefined {
    const times = this.#bareQuantifier()
    // A lazy or possessive mark changes nothing about what matches.
    if (times.quantified) this.#take('?')
    return times.least > mostRepeats ? undefined : times.least
  }

  #bareQuantifier(): { least: number; quantified: boolean } {
    if (this.#take('*') || this.#take('?')) return { least: 0, quantified: true }
    if (this.#take('+')) return { least: 1, quantified: true }
    const braces = /^\{(\d{1,6})(,\d{0,6})?\}/.exec(this.#source.slice(this.#at, this.#at + 16))
    if (!braces) return { least: 1, quantified: false }
    this.#at += braces[0].length
    return { least: Number(braces[1]), quantified: true }
  }

  #isNext(character: string): boolean {
    return this.#source[this.#at] === character
  }

  #take(character: string): boolean {
    if (!this.#isNext(character)) return false
    this.#at += 1
    return true
  }

  #next(): string {
    return this.#source[this.#at++] ?? ''
  }
}

// Embeddings of the simulated provider: vectors are derived from the input's hash, so equal inputs have equal vectors.

const usualDimensions = 256

const body = z.looseObject({
  model: z.string().min(1),
  input: z.union([z.string().min(1), z.array(z.unknown()).min(1)]),
  dimensions: z.int().min(1).max(4096).optional(),
})

/**
 * The answer to a request for embeddings, given as JSON text: in pieces, because all vectors of a large one take a second.
 * Throws Refusal for a bad one.
 */
export function embed(text: string): Iterator<string, undefined> {
  return answerTo(parseBody(text))
}

function* answerTo({ model, input, dimensions }: z.infer<typeof body>): Generator<string, undefined> {
  const inputs = typeof input === 'string' || typeof input[0] === 'number' ? [input] : input
  yield '{"object":"list","data":['
  for (const [index, one] of inputs.entries()) {
    const embedding = unitVector(JSON.stringify(one), dimensions ?? usualDimensions)
    yield (index === 0 ? '' : ',') + JSON.stringify({ object: 'embedding', index, embedding })
  }
  const tokens = inputs.map(tokensOf).reduce((sum, count) => sum + count, 0)
  const usage = { prompt_tokens: tokens, total_tokens: tokens }
  yield `],"model":${JSON.stringify(model)},"usage":${JSON.stringify(usage)}}`
}

function parseBody(text: string): z.infer<typeof body> {
  try {
    return body.parse(JSON.parse(text))
  } catch {
    throw new Refusal('The body is no request for embeddings.', null, 'invalid_request')
  }
}

function tokensOf(input: unknown): number {
  if (Array.isArray(input)) return input.length
  return typeof input === 'string' ? textTokens(input) : 0
}

/** A pseudo-random vector of length one, always the same for the same text. */
function unitVector(text: string, dimensions: number): number[] {
  let state = Number(Bun.hash.xxHash32(text)) || 1
  const raw = Array.from({ length: dimensions }, () => {
    // xorshift: plain, and its period is far longer than any vector.
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 31 - 1
  })
  const length = Math.hypot(...raw)
  return raw.map((number) => Math.fround(number / length))
}
