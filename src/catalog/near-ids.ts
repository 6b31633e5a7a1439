// Suggestions for mistyped ids.

import { editDistance } from '../text/nearest.ts'
import { longestId } from './row.ts'

/** How many ids get the costlier comparison, and the least similarity (0 to 1) for a suggestion. */
const shortlist = 16
const leastAlike = 0.4
/** The least similarity by pairs of letters for that comparison. */
const leastShared = 0.25
/** What a name with two neighbouring letters swapped counts for beside those with pairs in common. */
const swapScore = 0.8

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
  /** The places of each whole name, in lower case. */
  readonly #named = new Map<string, number[]>()

  constructor(ids: Iterable<string>) {
    this.#ids = [...ids]
    this.#pairs = this.#ids.map((id, at) => {
      const name = nameIn(id).toLowerCase()
      const pairs = pairsOf(name)
      for (const pair of pairs) addPlace(this.#containing, pair, at)
      addPlace(this.#named, name, at)
      return pairs.length
    })
  }

  /**
   * The ids most like `wanted`, best first, at most `limit`, of those that `isKnown`. Work is bounded: pairs of letters
   * are compared for every id, edit distance only for the best sixteen and for names in which two neighbouring letters
   * are swapped, which may have no pair in common; a wanted id is cut at 200 characters.
   */
  nearest(wanted: string, isKnown: (id: string) => boolean = () => true, limit = 3): string[] {
    const target = wanted.slice(0, longestId).toLowerCase()
    if (target.trim() === '') return []
    const wantedName = nameIn(target)
    const found = new Map(this.#sharing(pairsOf(wantedName), isKnown).map(({ id, score }) => [id, score]))
    for (const id of this.#idsOfSwaps(wantedName, isKnown))
      found.set(id, Math.max(found.get(id) ?? 0, swapScore))
    return [...found]
      .map(([id, score]) => ({
        id,
        score: (score + likeness(wantedName, nameIn(id).toLowerCase())) / 2 + bonus(target, id),
      }))
      .filter(({ score }) => score >= leastAlike)
      .toSorted(byScore)
      .slice(0, limit)
      .map(({ id }) => id)
  }

  /** The ids whose name is this one with two neighbouring letters swapped; at most sixteen. */
  #idsOfSwaps(wanted: string, isKnown: (id: string) => boolean): readonly string[] {
    const places = new Set<number>()
    for (let at = 1; at < wanted.length; at++) {
      const swapped = wanted.slice(0, at - 1) + wanted[at]! + wanted[at - 1]! + wanted.slice(at + 1)
      for (const place of this.#named.get(swapped) ?? []) places.add(place)
    }
    const known: string[] = []
    for (const place of places) {
      const id = this.#ids[place]!
      if (known.length < shortlist && isKnown(id)) known.push(id)
    }
    return known
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

/** The right name at the wrong provider is similar, the right name at the right provider, or nearly, more so. */
function bonus(target: string, id: string): number {
  const slash = target.indexOf('/')
  if (slash <= 0) return 0
  const alike = likeness(target.slice(0, slash), id.slice(0, id.indexOf('/')).toLowerCase())
  return alike < leastAlike ? 0 : alike * 0.2
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

/** 1 minus the edit distance as a share of the longer text; a swap of neighbours is one edit. */
function likeness(a: string, b: string): number {
  return 1 - editDistance(a, b) / Math.max(a.length, b.length, 1)
}

function addPlace(places: Map<string, number[]>, text: string, at: number): void {
  const known = places.get(text)
  if (known) known.push(at)
  else places.set(text, [at])
}
