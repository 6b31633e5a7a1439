// What a client has sent before is not parsed again: agents send the same tools, instructions and messages a hundred
// times, with a few more at the end. The items of lists that a text has in common with an earlier one are those of that.

import { LRUCache } from 'lru-cache'
import { charactersAtOnce } from './json.ts'
import { isAsItCame, type ScannedList, type Shape } from './scan.ts'

/** Shorter texts are parsed as quickly as they are compared. */
const leastCharacters = 16_384
/** What all texts that are remembered may have, characters; their items take about twice that. */
const mostCharacters = 8 * 1024 * 1024
/** The texts that are remembered of one name: an agent may have several conversations at once. */
const textsEach = 4

interface Known {
  readonly text: string
  readonly shape: Shape
  readonly json: Readonly<Record<string, unknown>>
}

/** A text whose beginning is known: what is left of it to be parsed, and how the whole is made of that. */
export interface Rest {
  /** The text without the known items: JSON of the same outermost object. */
  readonly text: string
  /** What the known items are made of, to be counted towards the limits. */
  readonly parts: number
  readonly commas: number
  /**
   * Puts the known items into what was parsed of the rest, and gives the shape of the whole; undefined where the whole is
   * no JSON although the rest is.
   */
  join(json: Record<string, unknown>, shape: Shape): Shape | undefined
}

/** Bounded over all names, least recently used first out; no name can take more than its few texts. */
export class Prefixes {
  readonly #known: LRUCache<string, readonly Known[]>
  /** Parsed, and not yet known to stay as they are. */
  readonly #parsed = new WeakMap<object, { readonly name: string } & Omit<Known, 'json'>>()

  constructor(most = mostCharacters) {
    this.#known = new LRUCache({
      maxSize: most,
      // No name may push all others out.
      maxEntrySize: Math.ceil(most / 4),
      sizeCalculation: (texts) => texts.reduce((sum, { text }) => sum + text.length, 1),
    })
  }

  /** Characters of the texts that are remembered. */
  get size(): number {
    return this.#known.calculatedSize
  }

  /** The rest of a text behind what it has in common with an earlier one of this name; undefined if that is little. */
  restOf(name: string, text: string): Rest | undefined {
    if (text.length < leastCharacters) return undefined
    let best: Common | undefined
    for (const known of this.#known.get(name) ?? []) {
      const common = commonWith(known, text)
      if (common !== undefined && (best === undefined || common.end > best.end)) best = common
    }
    return best && best.end >= leastCharacters / 2 ? restBehind(best, text) : undefined
  }

  /** Notes what a text was parsed to, for `keep`. */
  onParsed(name: string, text: string, json: object, shape: Shape): void {
    if (text.length >= leastCharacters && text.length <= charactersAtOnce())
      this.#parsed.set(json, { name, text, shape })
  }

  /** Remembers a body that nobody has changed. Its items are frozen: other requests will have them too. */
  keep(json: Readonly<Record<string, unknown>>): void {
    const parsed = this.#parsed.get(json)
    if (parsed === undefined || !isAsItCame(json)) return
    this.#parsed.delete(json)
    const { name, text, shape } = parsed
    const lists: Record<string, unknown> = {}
    for (const key of shape.lists.keys()) {
      const items = json[key]
      if (!Array.isArray(items)) continue
      for (const item of items) settle(item)
      lists[key] = [...items]
    }
    // A turn takes the place of the one before it.
    const others = (this.#known.get(name) ?? []).filter((known) => !goesOnFrom(known, text))
    const known = [{ text, shape, json: lists }, ...others].slice(0, textsEach)
    while (
      known.length > 1 &&
      known.reduce((sum, each) => sum + each.text.length, 1) > this.#known.maxEntrySize
    )
      known.pop()
    this.#known.set(name, known)
  }
}

/** Items that are remembered, and frozen with all that they hold. */
const settled = new WeakSet<object>()

/**
 * Whether a value is an item that was sent before and that nobody can change: what was found out about it holds. Others,
 * frozen or not, are none.
 */
export function isSettled(value: unknown): value is object {
  return typeof value === 'object' && value !== null && settled.has(value)
}

function settle(item: unknown): void {
  freeze(item)
  if (typeof item === 'object' && item !== null) settled.add(item)
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  Object.freeze(value)
  for (const key in value) freeze((value as Readonly<Record<string, unknown>>)[key])
}

/** Whether a text has all items of an earlier one, and more. */
function goesOnFrom(known: Known, text: string): boolean {
  const ends = endsOf(known)
  const last = ends.at(-1)
  return last !== undefined && agrees(known.text, text, 0, last.end)
}

interface End {
  readonly key: string
  readonly list: ScannedList
  /** The item, and the position behind it. */
  readonly at: number
  readonly end: number
}

interface Common extends End {
  readonly known: Known
}

const ends = new WeakMap<Known, readonly End[]>()

/** The ends of all items, in the order of the text. */
function endsOf(known: Known): readonly End[] {
  let all = ends.get(known)
  if (all === undefined) {
    all = [...known.shape.lists].flatMap(([key, list]) => {
      const items = known.json[key]
      if (!Array.isArray(items)) return []
      return items.map((_, at) => ({ key, list, at, end: list.spans[2 * at + 1]! }))
    })
    ends.set(known, all)
  }
  return all
}

function agrees(a: string, b: string, from: number, to: number): boolean {
  return b.length >= to && b.startsWith(a.slice(from, to), from)
}

/** The last item up to whose end both texts are the same. */
function commonWith(known: Known, text: string): Common | undefined {
  const all = endsOf(known)
  let [low, high] = [0, all.length]
  // Nothing is compared twice, and first of all the whole: a turn mostly goes on from the one before it.
  let same = 0
  let next = high - 1
  while (low < high) {
    const { end } = all[next]!
    if (agrees(known.text, text, same, end)) [low, same] = [next + 1, end]
    else high = next
    next = (low + high) >> 1
  }
  // A number may go on behind what both have: only what stands in brackets or quotes has an end of its own.
  for (let at = low - 1; at >= 0; at--) {
    const item = all[at]!
    if (/[\]}"]\s*$/.test(known.text.slice(Math.max(0, item.end - 64), item.end))) return { ...item, known }
  }
  return undefined
}

function restBehind({ known, key, list, at, end }: Common, text: string): Rest {
  const behind = /^\s*,/.exec(text.slice(end, end + 64))
  const to = behind ? end + behind[0].length : end
  let rest = ''
  let from = 0
  const reused: { readonly key: string; readonly count: number }[] = []
  for (const [name, { spans }] of known.shape.lists) {
    const isLast = name === key
    const items = known.json[name]
    if (Array.isArray(items) && items.length > 0) {
      rest += text.slice(from, spans[0])
      from = isLast ? to : spans[2 * items.length - 1]!
      reused.push({ key: name, count: isLast ? at + 1 : items.length })
    }
    if (isLast) break
  }
  rest += text.slice(from)
  const removed = text.length - rest.length
  return {
    text: rest,
    parts: list.counts[2 * at]!,
    commas: list.counts[2 * at + 1]!,
    join(json, shape) {
      // A comma stands before what follows, and behind nothing.
      const following = json[key] as readonly unknown[]
      if ((behind !== null) !== following.length > 0) return undefined
      const lists = new Map<string, ScannedList>()
      for (const { key: name, count } of reused) {
        const before = known.shape.lists.get(name)!
        const items = (known.json[name] as readonly unknown[]).slice(0, count)
        const own = json[name] as readonly unknown[]
        json[name] = own.length === 0 ? items : [...items, ...own]
        const more =
          name === key && own.length > 0 ? movedBy(shape.lists.get(name)!, removed, at, list) : none
        lists.set(name, {
          spans: [...before.spans.slice(0, 2 * count), ...more.spans],
          counts: [...before.counts.slice(0, 2 * count), ...more.counts],
        })
      }
      for (const [name, later] of shape.lists)
        if (!lists.has(name)) lists.set(name, movedBy(later, removed, at, list))
      return { colons: shape.colons, lists }
    },
  }
}

const none: ScannedList = { spans: [], counts: [] }

/** A list of the rest as it stands in the whole. */
function movedBy(
  { spans, counts }: ScannedList,
  removed: number,
  at: number,
  behind: ScannedList,
): ScannedList {
  const before = [behind.counts[2 * at]!, behind.counts[2 * at + 1]!]
  return {
    spans: spans.map((position) => position + removed),
    counts: counts.map((count, index) => count + before[index % 2]!),
  }
}
