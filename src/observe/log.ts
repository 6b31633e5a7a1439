// The log: JSON lines (or pretty ones in a terminal) on stderr, and what keeps secrets out of it.

import { writeSync } from 'node:fs'
import { getAnsiColorFormatter } from '@logtape/logtape'

export type LogFields = Readonly<Record<string, unknown>>

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** `message` is a fixed sentence; variable parts go into `fields`. Calls below the level cost one comparison. */
export interface Log {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

/** The log of a process, which learns of secrets as it goes. */
export interface ProcessLog extends Log {
  /** Replaces these secrets too from now on. */
  hide(secrets: readonly string[]): void
}

export interface LogSettings {
  readonly level: LogLevel
  readonly format: 'auto' | 'json' | 'pretty'
  readonly prompts: boolean
}

/** The destination of lines. `waiting`: bytes accepted but not yet written. */
export interface LogSink {
  readonly terminal: boolean
  /** `line` is made when it is written: a call does not wait for the text of its line. Never throws. */
  write(line: () => string): void
  waiting(): number
}

export interface LogParts {
  readonly sink: LogSink
  readonly clock: () => number
  /** Secrets of this process, replaced wherever they occur. */
  readonly secrets: readonly string[]
  /** What every line says of this process. */
  readonly about?: LogFields
}

const ranks: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }
const tapeLevels = { debug: 'debug', info: 'info', warn: 'warning', error: 'error' } as const

/** If the log's reader is stuck, lines beyond this many bytes are dropped and counted. */
const maxWaitingBytes = 4 * 1024 * 1024

/**
 * The log of one gateway. Uses LogTape's formatters but not its global registry of loggers: two gateways in one test
 * would write into each other's log.
 */
export function createLog(settings: LogSettings, { sink, clock, secrets, about }: LogParts): ProcessLog {
  const known = new Set(secrets)
  let redactor = createRedactor({ secrets, prompts: settings.prompts })
  const format = formatterFor(settings.format, sink.terminal)
  const least = ranks[settings.level]
  let lost = 0

  function emit(level: LogLevel, message: string, fields: LogFields): void {
    if (sink.waiting() > maxWaitingBytes) {
      lost++
      return
    }
    if (lost > 0) {
      const lines = lost
      lost = 0
      emit('warn', 'log lines were dropped: the reader of the log is too slow', { lines })
    }
    const at = clock()
    sink.write(() => {
      const clean = redactor.text(message)
      const properties = redactor.value(about === undefined ? fields : { ...about, ...fields })
      return format(level, clean, isFields(properties) ? properties : { fields: properties }, at)
    })
  }

  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      if (ranks[level] >= least) emit(level, message, fields)
    }
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    hide(more) {
      for (const secret of more) known.add(secret)
      redactor = createRedactor({ secrets: [...known], prompts: settings.prompts })
    },
  }
}

/** How long lines are gathered, milliseconds, and the most of them. */
const gatherMs = 10
const gatheredAtMost = 200
/** What counts for one that is not written yet; that of a call is as long. */
const usualLineBytes = 400

/**
 * Standard error as a sink. Lines are gathered for a few milliseconds, because writing costs more than formatting; the
 * last ones are written when the process ends.
 */
export function standardErrorSink(): LogSink {
  const { stderr } = process
  let gathered: (() => string)[] = []
  const takeLines = () => {
    const lines = gathered
    gathered = []
    return lines.map((line) => line()).join('')
  }
  const flush = () => {
    if (gathered.length > 0) stderr.write(takeLines())
  }
  process.once('exit', () => {
    // The stream may not be able to write any more.
    if (gathered.length > 0) writeSync(stderr.fd, takeLines())
  })
  return {
    terminal: stderr.isTTY === true,
    write: (line) => {
      if (gathered.length === 0) setTimeout(flush, gatherMs)
      if (gathered.push(line) >= gatheredAtMost) flush()
    },
    waiting: () => stderr.writableLength + gathered.length * usualLineBytes,
  }
}

/** Formats a line; `at` is in milliseconds since 1970. */
type LineFormat = (level: LogLevel, message: string, fields: LogFields, at: number) => string

function formatterFor(format: LogSettings['format'], terminal: boolean): LineFormat {
  const pretty = format === 'pretty' || (format === 'auto' && terminal)
  return pretty ? prettyLines() : jsonLines()
}

function prettyLines(): LineFormat {
  const format = getAnsiColorFormatter({
    timestamp: 'time',
    level: 'FULL',
    format: ({ timestamp, level, message, record }) =>
      `${timestamp} ${level} ${message}${oneLine(record.properties).replace(terminalControls, escapeControl)}`,
  })
  return (level, message, properties, timestamp) =>
    format({
      category: ['weir'],
      level: tapeLevels[level],
      message: [message],
      rawMessage: message,
      timestamp,
      properties,
    })
}

/** JSON lines. Every call writes one, and its fields are JSON already: LogTape's way takes four times as long. */
function jsonLines(): LineFormat {
  // Under load several calls end in the same millisecond.
  let shown = { at: 0, time: new Date(0).toISOString() }
  return (level, message, fields, at) => {
    if (at !== shown.at) shown = { at, time: new Date(at).toISOString() }
    const head = `"@timestamp":"${shown.time}","level":"${shownLevels[level]}","message":${JSON.stringify(message)}`
    const line = `{${head},"logger":"weir","fields":${JSON.stringify(fields)}}`
    return `${line.replace(terminalControls, escapeControl)}\n`
  }
}

const shownLevels: Readonly<Record<LogLevel, string>> = {
  debug: 'DEBUG',
  info: 'INFO',
  warn: 'WARN',
  error: 'ERROR',
}

/** Controls but tabs and line breaks: a terminal that shows the log would obey them. */
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const terminalControls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function oneLine(properties: LogFields): string {
  const { stack, ...rest } = properties
  const fields = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`)
  return `${fields.length === 0 ? '' : `  ${fields.join(' ')}`}${typeof stack === 'string' ? `\n${stack}` : ''}`
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// Keeps secrets out of the log: by field name, by form, and known ones by value. One bounded pass.

/** Fields that contain a secret whatever their value. `max_tokens`, `cache_key` and the like do not match. */
const secretField = new RegExp(
  [
    '^(x-)?(proxy-)?(authorization|(set-)?cookies?|credentials?|session[-_]?id|otp|csrf|pwd|jwt|token)$',
    'secret|passw(or)?d|passphrase|bearer',
    '(signature|client[-_]?assertion|code[-_]?verifier)$',
    '(api|access|auth|private|master|signing|encryption|subscription|functions)[-_]?keys?$',
    '(access|refresh|id|auth|session|csrf|security|api|private|bot|vault|webhook|reset|invite)[-_]?token$',
  ].join('|'),
  'i',
)

/** Fields with the text of prompts and answers. */
const promptField =
  /^(prompts?|messages|contents?|input|instructions|system|systemInstruction|body|completion|arguments|(input_|output_|raw_?)?text|tool_?(input|output|result))$/i

/** Formats of keys of this gateway, providers, clouds and payment services. */
const secretForms = new RegExp(
  [
    String.raw`\b(?:sk|rk|pk|whsec|pplx|gsk|xai|csk|nvapi|hf|tvly|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|rzp|key|napi|jina|voyage|pa|sess|ak)[-_][A-Za-z0-9_\-.]{12,}`,
    String.raw`\b(?:mk|ws|wt)-weir-[A-Za-z0-9\-]{12,}`,
    String.raw`\b(?:Bearer|Basic|Token|ApiKey)\s+[A-Za-z0-9+/=_\-.~]{6,}`,
    String.raw`\bAIza[A-Za-z0-9_\-]{20,}`,
    String.raw`\bya29\.[A-Za-z0-9_\-.]{10,}`,
    String.raw`\b(?:AKIA|ASIA|ABIA)[A-Z0-9]{12,}`,
    String.raw`\bBSA[A-Za-z0-9_\-]{20,}`,
    String.raw`\bxox[a-z]-[A-Za-z0-9\-]{10,}`,
    // JSON web tokens, and the private half of a key pair.
    String.raw`\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]+(?:\.[A-Za-z0-9_\-]*)?`,
    String.raw`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
  ].join('|'),
  'g',
)

/**
 * What begins like some keys and is a name: `key_limit_exceeded`, `voyage-multimodal-3`. A name is of lower-case words
 * and numbers, none as long as the random part of a key.
 */
const likeKey =
  /^(?:xai|csk|hf|r8|fw|tgp|rzp|key|jina|voyage|pa|sess|ak)(?:[-_.]+(?:[a-z]{1,19}|[a-z0-9]{1,9})(?![a-z0-9]))+[-_.]*$/

/** No text of these formats is shorter: `Basic` plus six characters. */
const shortestForm = 12

/** `api_key=…`, `"x-api-key": "…"`, `?token=…`, `Cookie: …` inside running text. */
const secretAssignment =
  /((?:x-|x_|proxy-|set-)?(?:authorization|(?:api|private|master|signing|encryption)[-_]?key|access[-_]?token|refresh[-_]?token|auth[-_]?token|client[-_]?secret|secret(?:[-_]?access)?(?:[-_]?key)?|password|passwd|cookie|signature|token|[?&]key)["'\\]{0,3}\s{0,3}[=:]\s{0,3}["'\\]{0,3})(?!\[redacted\])([^\s"'\\;&<>(){}]{3,}(?:;\s?[^\s"'\\;&<>(){}=]{1,64}=[^\s"'\\;&<>(){}]+)*)/gi

/** `https://user:password@host` */
const addressCredentials = /(\b[a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']{1,256}@/gi

/** Values are cut beyond these limits, so that a log line stays small. */
const maxDepth = 6
const maxEntries = 64
const maxText = 8_192
const longestSecret = 2_048
/** How many field names are cached, and the longest. */
const maxKnownFields = 1_000
const longestKnownField = 64
/** The same for texts without secrets: every line has the name of a model, a provider, an account. */
const maxCleanTexts = 1_000
const longestCleanText = 64
/** Ids that this gateway makes: each line has a new one, and no secret is of their form. */
const ownId = /^(?:req|acct)_[0-9a-f]{18,32}$/

interface Redaction {
  /** Secrets that this process holds, exactly. */
  readonly secrets: readonly string[]
  /** Whether prompts and answers may be logged. */
  readonly prompts: boolean
}

export interface Redactor {
  text(value: string): string
  /** A JSON-safe copy of a value without secrets. Never throws. */
  value(value: unknown): unknown
}

/** Creates a redactor; the pattern of the known secrets is built once. */
export function createRedactor({ secrets, prompts }: Redaction): Redactor {
  const known = patternOf(secrets)
  const cleanTexts = new Set<string>()

  function text(value: string): string {
    if (value.length <= longestCleanText) return shortText(value)
    if (value.length <= maxText) return replacementOf(value)
    // The cut may leave half a secret, so the text just before it is removed too.
    return `${replacementOf(value.slice(0, maxText)).slice(0, -longestSecret)}…`
  }

  function shortText(value: string): string {
    if (cleanTexts.has(value) || ownId.test(value)) return value
    const shown = replacementOf(value)
    if (shown !== value) return shown
    if (cleanTexts.size >= maxCleanTexts) cleanTexts.clear()
    cleanTexts.add(value)
    return value
  }

  function replacementOf(value: string): string {
    let clean = known ? value.replace(known, redactedText) : value
    // Most texts are words and ids: patterns are not tried on texts that are too short or lack a required character.
    if (clean.length >= shortestForm) clean = clean.replace(secretForms, withoutNames)
    if (clean.includes('://')) clean = clean.replace(addressCredentials, `$1${redactedText}@`)
    if (clean.includes('=') || clean.includes(':'))
      clean = clean.replace(secretAssignment, `$1${redactedText}`)
    return clean
  }

  function plain(value: unknown, depth: number, within: Within | undefined): unknown {
    if (typeof value === 'string') return text(value)
    if (typeof value === 'bigint') return value.toString()
    if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
    if (typeof value === 'boolean' || value === null || value === undefined) return value
    if (typeof value !== 'object') return `[${typeof value}]`
    for (let outer = within; outer; outer = outer.within) if (outer.value === value) return '[circular]'
    if (depth >= maxDepth) return '[deeper]'
    return structure(value, depth + 1, { value, within })
  }

  function structure(value: object, depth: number, seen: Within): unknown {
    if (isPlain(value)) return ownFields(value, depth, seen)
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
    if (value instanceof URL) return text(value.href)
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`
    if (Array.isArray(value)) return value.slice(0, maxEntries).map((item) => plain(item, depth, seen))
    if (value instanceof Set) return structure([...value].slice(0, maxEntries), depth, seen)
    if (value instanceof Map || value instanceof Headers) return fields([...value.entries()], depth, seen)
    if (value instanceof Error) return errorFields(value, depth, seen)
    return ownFields(value, depth, seen)
  }

  function fields(entries: readonly (readonly [unknown, unknown])[], depth: number, seen: Within) {
    const result: Record<string, unknown> = {}
    for (const [key, value] of entries.slice(0, maxEntries)) addField(result, String(key), value, depth, seen)
    return result
  }

  function ownFields(value: object, depth: number, seen: Within) {
    const result: Record<string, unknown> = {}
    let left = maxEntries
    for (const key of Object.keys(value)) {
      if (left-- === 0) break
      addField(result, key, (value as Readonly<Record<string, unknown>>)[key], depth, seen)
    }
    return result
  }

  function addField(
    result: Record<string, unknown>,
    key: string,
    value: unknown,
    depth: number,
    seen: Within,
  ): void {
    const { name, hide } = fieldOf(key)
    result[name] = hide && holdsWords(value) ? redactedText : plain(value, depth, seen)
  }

  // Most lines have the same few fields: caching their kind makes a line three times as cheap.
  const knownFields = new Map<string, { name: string; hide: boolean }>()

  function fieldOf(key: string): { name: string; hide: boolean } {
    const known = knownFields.get(key)
    if (known) return known
    const hide = secretField.test(key) || (!prompts && promptField.test(key))
    const field = { name: text(key), hide }
    if (knownFields.size < maxKnownFields && key.length <= longestKnownField) knownFields.set(key, field)
    return field
  }

  function errorFields(error: Error, depth: number, seen: Within) {
    const own = Object.entries(error).filter(
      ([key]) => key !== 'stack' && key !== 'message' && key !== 'cause',
    )
    const { name, message, stack, cause } = error
    return {
      name: text(name),
      message: text(message),
      ...fields(own, depth, seen),
      ...(cause === undefined ? {} : { cause: plain(cause, depth, seen) }),
      ...(stack === undefined ? {} : { stack: text(stack) }),
    }
  }

  return {
    text,
    value(value) {
      try {
        return plain(value, 0, undefined)
      } catch {
        // A throwing getter must not turn a log line into a failed request.
        return '[unreadable]'
      }
    },
  }
}

function withoutNames(found: string): string {
  return likeKey.test(found) ? found : redactedText
}

/** A value, and the values that contain it. */
interface Within {
  readonly value: object
  readonly within: Within | undefined
}

/** Most logged values are object literals, which need no further checks. */
function isPlain(value: object): boolean {
  return Object.getPrototypeOf(value) === Object.prototype
}

/** Numbers and booleans are not secrets, whatever their field is called. */
function holdsWords(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null)
}

// Removes this process's secrets from outgoing text: whole, encoded, cut short, or masked in the middle, as providers
// repeat a bad key.

/** What stands where a secret stood. */
const redactedText = '[redacted]'

/** Shorter secrets are not replaced: replacing `a` everywhere would destroy the text and reveal the secret. */
const shortest = 8
/** From this length on parts of a secret are recognised too. */
const shortestWithParts = 20
/** This many characters from its beginning or end identify a secret. */
const telling = 12

/** Keys in the formats of providers, whoever owns them: an error may quote the key of a gateway behind the provider. */
const keyForms = [
  String.raw`\b(?:sk|rk|gsk|xai|csk|pplx|nvapi|hf|r8|fw|tgp|tvly|ghp|glpat)[-_](?=[A-Za-z_\-]{0,64}\d)[A-Za-z0-9_\-]{16,512}`,
  // Masked in the middle: sk-proj-********abcd, gsk_ab...xyz
  String.raw`\b(?:sk|rk|gsk|xai|csk|pplx|nvapi|hf|r8|fw|tgp|tvly)[-_][A-Za-z0-9_\-]{0,24}(?:[*•]{2,64}|\.{3,64}|…)[A-Za-z0-9_\-]{0,12}`,
  String.raw`\bAIza[A-Za-z0-9_\-]{20,}`,
  String.raw`\bya29\.[A-Za-z0-9_\-.]{10,4096}`,
  String.raw`\b(?:AKIA|ASIA|ABIA)[A-Z0-9]{12,}`,
  String.raw`\beyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{1,4096}(?:\.[A-Za-z0-9_\-]{0,4096})?`,
  String.raw`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
]

type SecretFilter = (text: string) => string

/** A pattern of these secrets in all their forms; undefined if there are none. */
function patternOf(secrets: readonly string[]): RegExp | undefined {
  const forms = formsOf(secrets)
  return forms.length === 0 ? undefined : new RegExp(forms.join('|'), 'g')
}

/** Returns the function that replaces these secrets and anything in the format of a provider's key. */
export function secretFilter(secrets: readonly string[]): SecretFilter {
  const pattern = new RegExp([...formsOf(secrets), ...keyForms].join('|'), 'g')
  return (text) => text.replace(pattern, redactedText)
}

function formsOf(secrets: readonly string[]): string[] {
  const whole = [...new Set(secrets.flatMap(partsOf))].filter((secret) => secret.length >= shortest)
  // Longest first: otherwise a prefix of a secret would be replaced and leave its rest.
  const exact = [...new Set(whole.flatMap(encodingsOf))].toSorted((a, b) => b.length - a.length)
  return [
    ...whole.filter((secret) => secret.length >= shortestWithParts).flatMap(pieces),
    ...exact.map((form) => RegExp.escape(form)),
  ]
}

/** A secret and its parts: `Bearer x`, AWS keys joined by colons, a service account's JSON. */
function partsOf(secret: string): string[] {
  const bare = /^(?:Bearer|Basic|Token|ApiKey)\s+(\S+)$/i.exec(secret)?.[1]
  if (bare !== undefined) return [secret, bare, ...Buffer.from(bare, 'base64').toString().split(':').slice(1)]
  if (secret.startsWith('{')) return [secret, ...privateKeyIn(secret)]
  return secret.includes(':') ? [secret, ...secret.split(':').filter((part) => part.length >= 16)] : [secret]
}

function privateKeyIn(document: string): string[] {
  const key = /"private_key"\s*:\s*"([^"]+)"/.exec(document)?.[1]
  if (key === undefined) return []
  // Each line of the key separately, since quotations rarely keep line ends.
  return key.split(/\\n|\n/).filter((line) => line.length >= shortestWithParts && !line.includes('-----'))
}

function encodingsOf(secret: string): string[] {
  const basic = [secret, `:${secret}`, `${secret}:`].flatMap((text) => {
    const encoded = Buffer.from(text).toString('base64')
    return [encoded, encoded.replace(/=+$/, ''), Buffer.from(text).toString('base64url')]
  })
  return [secret, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1), ...basic]
}

/**
 * Patterns for a secret that was cut or masked: its beginning, its end, or both around dots or stars. Every repetition
 * is bounded, because the text may be hostile.
 */
function pieces(secret: string): string[] {
  const start = RegExp.escape(secret.slice(0, telling))
  const end = RegExp.escape(secret.slice(-telling))
  const tails = [8, 6, 5, 4, 3].map((length) => RegExp.escape(secret.slice(-length))).join('|')
  return [
    `${start}[A-Za-z0-9_+/=.~*•…-]{0,512}`,
    `[A-Za-z0-9_-]{0,64}${end}`,
    `${RegExp.escape(secret.slice(0, 4))}[A-Za-z0-9_-]{0,40}${mask}(?:[A-Za-z0-9_-]{0,12})`,
    `${mask}(?:${tails})(?![A-Za-z0-9])`,
  ]
}

/** What providers write instead of the middle of a key. The lookbehind makes a long row of stars match once. */
const mask = '(?:(?<![*•.…])(?:[*•.…]{2,64}|…))'
