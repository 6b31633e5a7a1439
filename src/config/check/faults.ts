// Words the schema's faults for an operator, and prints them.

import type { z } from 'zod'
import { nearest } from '../../text/nearest.ts'
import { type ConfigFault, type Draft, type Path, printedOrigin, printPath } from '../read/draft.ts'
import { keysAt, replacedSettings, settings } from '../settings.ts'

type Issue = z.core.$ZodIssue

/** Notes every issue of a parse as a fault; each unknown key is one. */
export function noteIssues(draft: Draft, issues: readonly Issue[], above: Path = []): void {
  for (const issue of issues) {
    const path = [...above, ...issue.path.filter((part) => typeof part !== 'symbol')]
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const instead = replacedSettings[printPath([...path, key])]
        if (instead === undefined) draft.fault([...path, key], 'unknown key', nearestKey(path, key))
        else draft.fault([...path, key], `unknown key: ${instead}`)
      }
      continue
    }
    const meant = issue.code === 'invalid_union' ? branchMeant(issue) : undefined
    if (meant) noteIssues(draft, meant, path)
    else draft.fault(path, problemOf(issue, draft.get(path), isSecret(path)))
  }
}

/** What is wrong with a value of the right type. */
const ofValue: ReadonlySet<string> = new Set(['custom', 'too_small', 'too_big'])

/**
 * The issues of the form that a value was most likely meant to have: the one that was understood the furthest, or whose
 * type it has.
 */
function branchMeant(issue: Issue & { code: 'invalid_union' }): Issue[] | undefined {
  const depth = (issues: Issue[]) =>
    Math.max(...issues.map(({ code, path }) => path.length + (code === 'unrecognized_keys' ? 1 : 0)))
  const deepest = issue.errors.toSorted((a, b) => depth(b) - depth(a))[0]
  if (deepest && depth(deepest) > 0) return deepest
  return issue.errors.find((issues) => issues.every(({ code }) => ofValue.has(code)))
}

/** A suggestion from the keys allowed there; otherwise from settings that end so (`port` means `server.port`). */
function nearestKey(path: Path, key: string): string | undefined {
  const beside = nearest(key, keysAt(path.map(String)))
  if (beside) return printPath([...path, beside])
  const ends = settings().filter((setting) => !setting.path.includes('*') && setting.path.length > 1)
  return ends.find((setting) => setting.path.at(-1) === key)?.path.join('.')
}

function problemOf(issue: Issue, value: unknown, secret: boolean): string {
  switch (issue.code) {
    case 'invalid_type':
      // A message of the schema's own says more than the type that was expected.
      if (!isGeneral(issue)) return `${absent(value)}${issue.message}${got(value, secret)}`
      return `${absent(value)}must be ${nouns[issue.expected] ?? issue.expected}${got(value, secret)}`
    case 'too_small':
      return `must be at least ${issue.minimum}${units[issue.origin] ?? ''}${got(value, secret)}`
    case 'too_big':
      return `must be at most ${issue.maximum}${units[issue.origin] ?? ''}${got(value, secret)}`
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}${got(value, secret)}`
    case 'invalid_union':
      return `${isGeneral(issue) ? 'is not of an allowed form' : issue.message}${got(value, secret)}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'is not an allowed name'
    case 'invalid_format':
    case 'custom':
      return `${issue.message}${got(value, secret)}`
    default:
      return issue.message
  }
}

/** Whether a message is not of the schema, but the library's own. */
function isGeneral({ message }: Issue): boolean {
  return message.startsWith('Invalid input')
}

const nouns: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a mapping',
  record: 'a mapping',
  array: 'a list',
}

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' items' }

function absent(value: unknown): string {
  return value === undefined ? 'is missing; ' : ''
}

function got(value: unknown, secret: boolean): string {
  if (secret || value === undefined) return ''
  const text = withoutCredentials(JSON.stringify(value) ?? String(value))
  return `, not ${text.length > 60 ? `${text.slice(0, 57)}…` : text}`
}

/** Masks the user part and the query values of URLs: people write passwords there. */
function withoutCredentials(text: string): string {
  return text
    .replace(/"([a-z][a-z0-9+.-]*:\/\/)?[^"]*@/gi, '"$1****@')
    .replace(/([?&;][^=&#"]{1,64}=)[^&#"]+/g, '$1****')
    .replace(/#[^"]+/g, '#****')
}

/** Also a value where the section of a secret belongs: a key that was written beside its name. */
function isSecret(path: Path): boolean {
  return settings().some(
    ({ secret, path: known }) =>
      secret &&
      path.length > 0 &&
      known.every((part, at) => at >= path.length || part === '*' || part === String(path[at])),
  )
}

/** One line for each fault: where it is written, the setting, what is wrong, what was probably meant. */
export function renderFaults(faults: readonly ConfigFault[]): string {
  return faults
    .toSorted((a, b) => lineOf(a) - lineOf(b))
    .map(({ path, problem, nearest: meant, origin }) => {
      const place = origin && origin.kind !== 'default' ? `${printedOrigin(origin)}: ` : ''
      return `  ${place}${path}: ${problem}${meant ? `; did you mean ${meant}?` : ''}`
    })
    .join('\n')
}

/** In the order of the file; what is not in it comes first. */
function lineOf({ origin }: ConfigFault): number {
  return origin?.kind === 'file' ? (origin.line ?? 0) : 0
}
