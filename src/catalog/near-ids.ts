// Suggestions for mistyped ids.

import { longestId } from './model-id.ts'

/** How many ids get the costlier comparison, and the least similarity (0 to 1) for a suggestion. */
const shortlist = 16
const leastAlike = 0.4
/** The least similarity by pairs of letters for that comparison. */
const leastShared = 0.25

interface Candidate {
  readonly id: string
  readonly score: number
}

/** Ids, indexed by the pairs of letters in their names, since clients often repeat requests for unknown ids. */
export class NearIds {
  readonly #ids: readonly string[]
  /** How many pairs each name has. */
  readonly #pairs: readonly number[]
  /** Which names contain a pair, by their places. */
  readonly #containing = new Map<string, number[]>()

  constructor(ids: Iterable<string>) {
    this.#ids = [...ids]
    this.#pairs = this.#ids.map((id, at) => {
      const pairs = pairsOf(nameIn(id).toLowerCase())
      for (const pair of pairs) {
        const places = this.#containing.get(pair)
        if (places) places.push(at)
        else this.#containing.set(pair, [at])
      }
      return pairs.length
    })
  }

  /**
   * The ids most like `wanted`, best first, at most `limit`, of those that `isKnown`. Work is bounded: pairs of letters
   * are compared for every id, edit distance only for the best sixteen, and a wanted id is cut at 200 characters.
   */
  nearest(wanted: string, isKnown: (id: string) => boolean = () => true, limit = 3): string[] {
    const target = wanted.slice(0, longestId).toLowerCase()
    if (target.trim() === '') return []
    const wantedName = nameIn(target)
    return this.#sharing(pairsOf(wantedName), isKnown)
      .map(({ id, score }) => ({
        id,
        score: (score + likeness(wantedName, nameIn(id).toLowerCase())) / 2 + bonus(target, id),
      }))
      .filter(({ score }) => score >= leastAlike)
      .toSorted(byScore)
      .slice(0, limit)
      .map(({ id }) => id)
  }

  /** The best by Dice's coefficient over pairs of letters: 1 for the same name, 0 for nothing in common. */
  #sharing(wanted: readonly string[], isKnown: (id: string) => boolean): readonly Candidate[] {
    const shared = new Uint16Array(this.#ids.length)
    for (const pair of wanted) for (const at of this.#containing.get(pair) ?? []) shared[at]!++
    const best: Candidate[] = []
    for (let at = 0; at < shared.length; at++) {
      if (shared[at] === 0) continue
      const score = (2 * shared[at]!) / (this.#pairs[at]! + wanted.length)
      const last = best.length === shortlist ? best[shortlist - 1]!.score : leastShared
      if (score <= leastShared || score < last) continue
      const candidate = { id: this.#ids[at]!, score }
      if (!isKnown(candidate.id)) continue
      let place = best.length
      while (place > 0 && byScore(candidate, best[place - 1]!) < 0) place--
      best.splice(place, 0, candidate)
      if (best.length > shortlist) best.pop()
    }
    return best
  }
}

function byScore(a: Candidate, b: Candidate): number {
  return b.score - a.score || (a.id < b.id ? -1 : 1)
}

function nameIn(id: string): string {
  return id.slice(id.indexOf('/') + 1)
}

/** The right name at the wrong provider is similar, the right name at the right provider more so. */
function bonus(target: string, id: string): number {
  const slash = target.indexOf('/')
  return slash > 0 && id.toLowerCase().startsWith(target.slice(0, slash + 1)) ? 0.2 : 0
}

/** The pairs of neighbouring letters of a text; repeated pairs are numbered, so that each counts once. */
function pairsOf(text: string): string[] {
  const seen = new Map<string, number>()
  const pairs: string[] = []
  for (let at = 0; at < text.length - 1; at++) {
    const pair = text.slice(at, at + 2)
    const before = seen.get(pair) ?? 0
    seen.set(pair, before + 1)
    pairs.push(before === 0 ? pair : `${pair}${before}`)
  }
  return pairs
}

/** 1 minus the edit distance as a share of the longer text. */
function likeness(a: string, b: string): number {
  const row = new Uint16Array(b.length + 1)
  for (let j = 1; j <= b.length; j++) row[j] = j
  for (let i = 1; i <= a.length; i++) {
    const letter = a.charCodeAt(i - 1)
    let diagonal = row[0]!
    row[0] = i
    for (let j = 1; j <= b.length; j++) {
      const above = row[j]!
      const replaced = diagonal + (letter === b.charCodeAt(j - 1) ? 0 : 1)
      row[j] = Math.min(replaced, above + 1, row[j - 1]! + 1)
      diagonal = above
    }
  }
  return 1 - row[b.length]! / Math.max(a.length, b.length, 1)
}
