// Model ids: `<provider>/<model_name>`, split at the first slash, and the ids that a mistyped one may have meant.

import { GatewayError } from '../errors.ts'

export interface ModelId {
  readonly provider: string
  /** May itself contain slashes. */
  readonly name: string
}

/** Longer ids are no model's; the bound also keeps the search for near ones cheap. */
const longestId = 200

// No spaces and no control characters: they come from a paste gone wrong and would travel into URLs and logs.
const wellFormed = /^([A-Za-z0-9][A-Za-z0-9._-]*)\/([^\s\p{C}]+)$/u

/**
 * Splits an id at its first slash. Throws GatewayError `invalid_model_id` for one without a provider or a name;
 * `known` are the ids to suggest from (`gpt-4o` → `openai/gpt-4o`).
 */
export function parseModelId(text: string, known: Iterable<string> = []): ModelId {
  const match = text.length <= longestId ? wellFormed.exec(text) : null
  if (match) return { provider: match[1]!, name: match[2]! }
  const nearest = nearestIds(text, known)
  throw new GatewayError('invalid_model_id', {
    message: `${quoted(text)} is not a model id of the form provider/model_name.${suggestion(nearest)}`,
    param: 'model',
    metadata: { model: clipped(text), nearest },
  })
}

/** ` Did you mean a, b or c?`, or nothing when nothing is near. */
export function suggestion(nearest: readonly string[]): string {
  if (nearest.length === 0) return ''
  const last = nearest.at(-1)!
  return ` Did you mean ${nearest.length === 1 ? last : `${nearest.slice(0, -1).join(', ')} or ${last}`}?`
}

/** An id from a request, short enough and plain enough to be put into a message. */
export function quoted(id: string): string {
  return JSON.stringify(clipped(id))
}

function clipped(id: string): string {
  return id.length <= longestId ? id : `${id.slice(0, longestId)}…`
}

/** How many ids get the costlier comparison, and how alike (0 to 1) one must be to be suggested at all. */
const shortlist = 16
const leastAlike = 0.4

/**
 * The known ids most like `wanted`, best first, at most `limit`. Work is bounded: pairs of letters are compared for
 * every id, edit distance only for the best sixteen, and a wanted id is cut at 200 characters.
 */
export function nearestIds(wanted: string, known: Iterable<string>, limit = 3): string[] {
  const target = wanted.slice(0, longestId).toLowerCase()
  if (target.trim() === '') return []
  const wantedName = target.slice(target.indexOf('/') + 1)
  const wantedPairs = pairsOf(wantedName)
  const candidates: { id: string; name: string; score: number }[] = []
  for (const id of known) {
    const name = id.slice(id.indexOf('/') + 1).toLowerCase()
    const score = overlap(wantedPairs, name)
    if (score > 0.25) candidates.push({ id, name, score })
  }
  return candidates
    .toSorted((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1))
    .slice(0, shortlist)
    .map(({ id, name, score }) => ({
      id,
      score: (score + likeness(wantedName, name)) / 2 + bonus(target, id),
    }))
    .filter(({ score }) => score >= leastAlike)
    .toSorted((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1))
    .slice(0, limit)
    .map(({ id }) => id)
}

/** The right name at the wrong provider is near, the right name at the right provider is nearer. */
function bonus(target: string, id: string): number {
  const slash = target.indexOf('/')
  return slash > 0 && id.toLowerCase().startsWith(target.slice(0, slash + 1)) ? 0.2 : 0
}

function pairsOf(text: string): Map<string, number> {
  const pairs = new Map<string, number>()
  for (let i = 0; i < text.length - 1; i++) {
    const pair = text.slice(i, i + 2)
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1)
  }
  return pairs
}

/** Dice's coefficient over pairs of letters: 1 for the same text, 0 for nothing in common. */
function overlap(wanted: ReadonlyMap<string, number>, text: string): number {
  let shared = 0
  let total = Math.max(text.length - 1, 0)
  for (const count of wanted.values()) total += count
  if (total === 0) return 0
  const used = new Map<string, number>()
  for (let i = 0; i < text.length - 1; i++) {
    const pair = text.slice(i, i + 2)
    const seen = used.get(pair) ?? 0
    if (seen >= (wanted.get(pair) ?? 0)) continue
    used.set(pair, seen + 1)
    shared++
  }
  return (2 * shared) / total
}

/** 1 minus the edit distance as a share of the longer text. */
function likeness(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return 1 - row[b.length]! / Math.max(a.length, b.length, 1)
}
