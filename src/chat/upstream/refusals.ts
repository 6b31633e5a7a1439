// What models refuse, learned from their providers' own words: a 400 that says that a setting or one of its values is
// not supported. Tables by a model's name go stale with each new model; this does not. A setting that was refused is left
// out, or set to what is allowed, for that model of that provider, and the request is sent once more.

import { LRUCache } from 'lru-cache'
import { atMost } from '../../async/async.ts'
import type { Fault } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject } from '../../protocols/lenient.ts'
import type { Warning } from '../../protocols/lowering.ts'
import { refusesPrefill } from '../routing/fault-error.ts'

/** How long a refusal is believed, milliseconds: providers change what their models take. */
const believedMs = 24 * 3_600_000
/** Models about which anything is remembered at once. */
const mostModels = 1_000
/** Of one model; more mean that the provider refuses something else. */
const mostOfModel = 16

/**
 * Settings that may be left out or changed without changing what the call may cost or what its answer is: no limit of
 * tokens, no number of answers, no tier, no tool and no format of the answer is among them.
 */
interface Setting {
  /** Its name in chat completions. */
  readonly param: string
  /** Where the protocols of providers have it. */
  readonly paths: readonly string[]
  /** What refusals call it. */
  readonly called: RegExp
}

const samplers = (param: string, ...names: readonly string[]): Setting => ({
  param,
  paths: names.flatMap((name) => [
    name,
    `generationConfig.${name}`,
    `inferenceConfig.${name}`,
    `options.${name}`,
    `additionalModelRequestFields.${name}`,
  ]),
  called: new RegExp(`(?<![\\w-])(?:${names.join('|')})(?![\\w-])`),
})

const settings: readonly Setting[] = [
  {
    param: 'reasoning',
    paths: [
      'reasoning_effort',
      'reasoning.effort',
      'output_config.effort',
      'additionalModelRequestFields.output_config.effort',
      'generationConfig.thinkingConfig.thinkingLevel',
    ],
    called:
      /reasoning[ _.]?effort|reasoning\.effort|output_config\.effort|(?<![\w.])effort\b|thinking[ _]?level/i,
  },
  {
    param: 'reasoning',
    paths: ['thinking', 'additionalModelRequestFields.thinking'],
    called: /\bthinking(?:\.type)?\b/i,
  },
  { param: 'reasoning.summary', paths: ['reasoning.summary'], called: /reasoning\.summary/ },
  { param: 'verbosity', paths: ['verbosity', 'text.verbosity'], called: /\b(?:text\.)?verbosity\b/ },
  { param: 'parallel_tool_calls', paths: ['parallel_tool_calls'], called: /\bparallel_tool_calls\b/ },
  {
    param: 'tool_choice',
    paths: ['tool_choice'],
    called: /\btool_choice\b|\bforced? tool|\btool use is forced/i,
  },
  samplers('temperature', 'temperature'),
  samplers('top_p', 'top_p', 'topP'),
  samplers('top_k', 'top_k', 'topK'),
  samplers('seed', 'seed'),
  samplers('presence_penalty', 'presence_penalty', 'presencePenalty'),
  samplers('frequency_penalty', 'frequency_penalty', 'frequencyPenalty'),
  samplers('logit_bias', 'logit_bias'),
]

/** One setting, as a model refused it. */
interface Refusal {
  readonly setting: Setting
  readonly path: string
  /** The value that was refused; absent where the setting is refused whatever its value. */
  readonly value?: string
  /** The values that the provider named; absent where it named none. */
  readonly allowed?: readonly string[]
}

/** Words by which a provider says that what it was sent cannot be, and not merely that it is malformed. */
const refusing =
  /not (?:a )?support|unsupported|is deprecated|must be (?:one of|in)|(?:allowed|supported|valid|permitted|accepted) values|expected one of|not allowed|not permitted|not available for|does not (?:accept|allow)|unknown (?:parameter|field|name)|unrecognized/i

/** A request that names both of two settings: which of them is at fault is not the model's to remember. */
const ofCombination =
  /cannot both|together|may not be enabled when|only (?:one|be (?:set|used)) .*(?:when|with)/i

export class LearnedRefusals {
  /** Of each model; its size tells whether there is anything to heed. */
  readonly byModel = new LRUCache<string, readonly Refusal[]>({ ...atMost(mostModels), ttl: believedMs })

  /** Those that do not go on with an answer that is begun for them. */
  readonly withoutPrefill = new LRUCache<string, true>({ ...atMost(mostModels), ttl: believedMs })

  /** Learns from the fault of a request with this body. Whether there was anything to learn that was not known. */
  learn(model: string, fault: Fault, body: unknown): boolean {
    if (refusesPrefill(fault)) this.withoutPrefill.set(model, true)
    const found = isObject(body) ? refusalIn(fault, body) : undefined
    if (found === undefined) return false
    const known = this.byModel.get(model) ?? []
    const isKnown = known.some((each) => each.path === found.path && each.value === found.value)
    if (isKnown || known.length >= mostOfModel) return false
    this.byModel.set(model, [...known, found])
    return true
  }

  /** The body without what this model is known to refuse, and what has changed. The same body where that is nothing. */
  heed(
    model: string,
    body: JsonObject,
  ): { readonly body: JsonObject; readonly warnings: readonly Warning[] } {
    const known = this.byModel.get(model)
    const warnings: Warning[] = []
    if (known === undefined) return { body, warnings }
    let heeded = body
    for (const refusal of known) {
      const { path, setting } = refusal
      const value = valueAt(heeded, path)
      if (value === undefined || !isRefused(value, refusal)) continue
      const next = replacementFor(
        value,
        known.filter((each) => each.path === path),
      )
      heeded = withValue(heeded, path.split('.'), next) as JsonObject
      const done = next === undefined ? 'was left out' : `became ${JSON.stringify(next)}`
      warnings.push({
        param: setting.param,
        message: `${JSON.stringify(value)} ${done}: the provider says that the model does not support it.`,
      })
    }
    return { body: heeded, warnings }
  }
}

/** What a fault says that the model refuses of this body; undefined if it says no such thing. Exported for its test. */
export function refusalIn({ kind, status, message, param }: Fault, body: JsonObject): Refusal | undefined {
  if (kind !== 'invalid-request' || (status !== 400 && status !== 422)) return undefined
  if (!refusing.test(message) || ofCombination.test(message)) return undefined
  for (const setting of settings) {
    // A provider that names the field means no other that its sentence may name as well.
    if (!setting.called.test(param ?? message)) continue
    const path = setting.paths.find((each) => valueAt(body, each) !== undefined)
    if (path === undefined) continue
    const value = valueAt(body, path)
    const word = wordOf(value)
    // A choice of tools is refused for what it forces: to be free not to call any is the client's right everywhere.
    if (setting.param === 'tool_choice' && (word === 'none' || word === 'auto')) return undefined
    if (word === undefined) return { setting, path }
    const allowed = valuesIn(message, word)
    const isNamed = new RegExp(`(?:\\b|_)${patternOf(word)}\\b`, 'i').test(message)
    if (allowed === undefined && !isNamed && setting.param !== 'tool_choice') return { setting, path }
    return { setting, path, value: word, ...(allowed !== undefined && { allowed }) }
  }
  return undefined
}

/** The word that says which value it is: of an object its type; undefined for a number and the like. */
function wordOf(value: Json | undefined): string | undefined {
  const word = isObject(value) ? value['type'] : value
  return typeof word === 'string' ? word : undefined
}

function patternOf(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

/** The values that a sentence names as those that would do, in the notation of `refused`; undefined if it names none. */
function valuesIn(message: string, refused: string): readonly string[] | undefined {
  const list =
    /(?:(?:allowed|supported|valid|permitted|accepted) values(?: are)?|must be (?:one of|in)|expected one of)\s*:?\s*([^.]{1,300})/i.exec(
      message,
    )?.[1] ?? ofUse.exec(message)?.[1]
  if (list === undefined) return undefined
  const quoted = [...list.matchAll(/['"`‘“]([\w-]+)['"`’”]/g)].map(([, word]) => word!)
  const words = quoted.length > 0 ? quoted : list.split(/[\s,[\]()]+|\bor\b|\band\b/).filter(Boolean)
  const isUpper = refused === refused.toUpperCase()
  const values = words.map((word) => (isUpper ? word.toUpperCase() : word)).filter((word) => word !== refused)
  return values.length === 0 ? undefined : values
}

/** Anthropic's way: `Use "thinking.type.adaptive" and …`. */
const ofUse = /\buse ["“`']?thinking\.type\.(\w+)/i

/** From the least to the most that a model may think. */
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

function isRefused(value: Json, { value: refused, allowed }: Refusal): boolean {
  if (refused === undefined) return true
  const word = wordOf(value)
  return word === refused || (word !== undefined && allowed !== undefined && !allowed.includes(word))
}

/** What stands for a refused value: of efforts the next one up, so that nobody gets less than asked for, else down. */
function replacementFor(value: Json, refusals: readonly Refusal[]): Json | undefined {
  const word = wordOf(value)
  if (word === undefined) return undefined
  // Whatever else a choice of tools says still holds.
  if (isObject(value) && value['disable_parallel_tool_use'] === true)
    return { type: 'auto', disable_parallel_tool_use: true }
  const [named] = refusals.flatMap(({ allowed }) => (allowed === undefined ? [] : [allowed]))
  const rank = isObject(value) ? -1 : efforts.indexOf(word.toLowerCase())
  const refused = new Set(refusals.flatMap((each) => each.value ?? []))
  const isUpper = word !== word.toLowerCase()
  if (rank < 0) {
    const only = named?.length === 1 ? named[0] : undefined
    return only !== undefined && isObject(value) ? { type: only } : only
  }
  const options = named ?? efforts.slice(1, 5).map((effort) => (isUpper ? effort.toUpperCase() : effort))
  const able = options.filter((each) => !refused.has(each))
  const rankOf = (each: string) => efforts.indexOf(each.toLowerCase())
  const ranked = able.filter((each) => rankOf(each) >= 0).toSorted((a, b) => rankOf(a) - rankOf(b))
  return ranked.find((each) => rankOf(each) > rank) ?? ranked.at(-1)
}

function valueAt(body: JsonObject, path: string): Json | undefined {
  let value: Json | undefined = body
  for (const name of path.split('.')) {
    if (!isObject(value)) return undefined
    value = value[name]
  }
  return value ?? undefined
}

/** The object with another value there; without the member where there is none, nor an object that held nothing else. */
function withValue(
  object: JsonObject,
  [name = '', ...inner]: readonly string[],
  value: Json | undefined,
): Json | undefined {
  const { [name]: before, ...rest } = object
  const after = inner.length > 0 && isObject(before) ? withValue(before, inner, value) : value
  if (after !== undefined) return { ...object, [name]: after }
  return Object.keys(rest).length === 0 ? undefined : rest
}
