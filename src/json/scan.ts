// What a JSON text is made of, before it is parsed: one pass over it, without recursion. A text that would block the
// process, or mean something else to another parser, is refused by what this finds; where the items of its lists stand
// lets them be sent on as they came.

import { LRUCache } from 'lru-cache'
import { atOnce, charactersAtOnce, isEscaped, stepCharacters, type Steps } from './json.ts'

/** How much a text may be made of. What is absent has no limit. */
export interface ShapeLimits {
  /** How deep objects and arrays may nest. */
  readonly depth: number
  /** Objects, arrays and keys. */
  readonly parts?: number
  readonly commas?: number
  /** Objects, arrays, and what stands behind a comma. */
  readonly values?: number
  /** Numbers must be within the range of a double. */
  readonly finite?: boolean
}

export interface ShapeFault {
  readonly kind: 'depth' | 'parts' | 'commas' | 'values' | 'infinite'
  /** The limit that it is beyond; 0 for a number. */
  readonly most: number
}

/** A list that is a member of the outermost object. */
export interface ScannedList {
  /** Where its items stand in the text: from, to, from, to, … */
  readonly spans: readonly number[]
  /** What the text is made of up to the end of each item: parts, commas, parts, commas, … */
  readonly counts: readonly number[]
}

export interface Shape {
  /** Colons outside of strings: as many as the text has keys. */
  readonly colons: number
  /** In the order of the text, by the key as it is written. */
  readonly lists: ReadonlyMap<string, ScannedList>
}

export type Scanned =
  { readonly kind: 'shape'; readonly shape: Shape } | { readonly kind: 'fault'; readonly fault: ShapeFault }

/** Scans at once. Whether the text is JSON at all is left to the parser: of one that is not, anything may be found. */
export function scan(text: string, limits: ShapeLimits): Scanned {
  return new Scan(text, limits).upTo(text.length)!
}

/** As `scan`, in steps. */
export function* scanSteps(text: string, limits: ShapeLimits): Steps<Scanned> {
  const scanned = new Scan(text, limits)
  for (let end = stepCharacters; ; end += stepCharacters) {
    const found = scanned.upTo(end)
    if (found !== undefined) return found
    yield
  }
}

const quote = 0x22
const anyBlanks = /[ \t\r\n]+/y
const unlimited = Number.POSITIVE_INFINITY

class Scan {
  readonly #text: string
  readonly #limits: ShapeLimits
  readonly #parts: number
  readonly #commaLimit: number
  readonly #values: number
  readonly #lists = new Map<string, { readonly spans: number[]; readonly counts: number[] }>()
  #at = 0
  #isInString = false
  #depth = 0
  #opened = 0
  #colons = 0
  #commas = 0
  #exponents = 0
  /** Where the last string of the outermost object stands: the key, when a list begins. */
  #keyFrom = 0
  #keyTo = 0
  /** The list that is read, if it is a member of the outermost object. */
  #list: { readonly spans: number[]; readonly counts: number[] } | undefined

  constructor(text: string, limits: ShapeLimits) {
    this.#text = text
    this.#limits = limits
    this.#parts = limits.parts ?? unlimited
    this.#commaLimit = limits.commas ?? unlimited
    this.#values = limits.values ?? unlimited
  }

  /** Reads on to about the character `end`. Gives what was found once it is known. */
  upTo(end: number): Scanned | undefined {
    const text = this.#text
    const last = Math.min(end, text.length)
    let at = this.#at
    while (at < last) {
      if (this.#isInString) {
        const close = text.indexOf('"', at)
        if (close < 0) return this.#shape()
        this.#isInString = text.charCodeAt(close - 1) === 0x5c && isEscaped(text, close)
        at = close + 1
        if (this.#depth === 1) this.#keyTo = close
        continue
      }
      switch (text.charCodeAt(at++)) {
        case quote:
          this.#isInString = true
          if (this.#depth === 1) this.#keyFrom = at
          break
        case 0x5b: // [
          if (this.#depth === 1) this.#beginList(at)
          if (++this.#depth > this.#limits.depth) return faultOf('depth', this.#limits.depth)
          if (this.#isFullAfter(++this.#opened)) return this.#tooMany()
          break
        case 0x7b: // {
          if (++this.#depth > this.#limits.depth) return faultOf('depth', this.#limits.depth)
          if (this.#isFullAfter(++this.#opened)) return this.#tooMany()
          break
        case 0x5d: // ]
          if (--this.#depth === 1 && this.#list !== undefined) {
            this.#endItem(this.#list, at - 1)
            this.#list = undefined
          }
          break
        case 0x7d: // }
          this.#depth--
          break
        case 0x3a: // :
          if (this.#opened + ++this.#colons > this.#parts) return this.#tooMany()
          break
        case 0x2c: // ,
          if (++this.#commas > this.#commaLimit) return faultOf('commas', this.#commaLimit)
          if (this.#opened + this.#commas > this.#values) return this.#tooMany()
          if (this.#depth === 2 && this.#list !== undefined) {
            this.#endItem(this.#list, at - 1)
            this.#list.spans.push(at)
          }
          break
        case 0x20:
        case 0x0a:
          // Skipping ten million blanks one by one would take as long as the rest of the text.
          anyBlanks.lastIndex = at
          if (anyBlanks.test(text)) at = anyBlanks.lastIndex
          break
        case 0x45: // E
        case 0x65: // e
          if (this.#limits.finite !== true) break
          if (isInfinite(text, at - 1)) return faultOf('infinite', 0)
          // A value has at most one `e`, and follows a comma, colon or bracket: more of them cannot be JSON.
          if (++this.#exponents > this.#commas + this.#colons + this.#opened + 1) return this.#shape()
          break
      }
    }
    this.#at = at
    return at < text.length ? undefined : this.#shape()
  }

  #isFullAfter(opened: number): boolean {
    return opened + this.#colons > this.#parts || opened + this.#commas > this.#values
  }

  #tooMany(): Scanned {
    return this.#opened + this.#colons > this.#parts
      ? faultOf('parts', this.#parts)
      : faultOf('values', this.#values)
  }

  #beginList(at: number): void {
    const key = this.#text.slice(this.#keyFrom, this.#keyTo)
    this.#list = { spans: [at], counts: [] }
    this.#lists.set(key, this.#list)
  }

  #endItem({ spans, counts }: { readonly spans: number[]; readonly counts: number[] }, at: number): void {
    spans.push(at)
    counts.push(this.#opened + this.#colons, this.#commas)
  }

  #shape(): Scanned {
    return { kind: 'shape', shape: { colons: this.#colons, lists: this.#lists } }
  }
}

function faultOf(kind: ShapeFault['kind'], most: number): Scanned {
  return { kind: 'fault', fault: { kind, most } }
}

/** Whether the number whose exponent begins at `at` is too large for a double: JSON.parse would return Infinity. */
function isInfinite(text: string, at: number): boolean {
  const before = /[\d.]{1,40}$/.exec(text.slice(Math.max(0, at - 40), at))
  const after = /^[eE]\+?\d{1,40}/.exec(text.slice(at, at + 42))
  return before !== null && after !== null && !Number.isFinite(Number(before[0] + after[0]))
}

// Shapes of what is not a client's request: answers, events, tools' results.

/** How deep JSON may nest that comes in: deeper, it can be parsed, but no answer can be written of it again. */
const maxDepth = 128
/** More objects, arrays, members and items than this would hold up every other call while they are read. */
const maxValues = 200_000
/** What a text this short can hold, in characters, does no harm. */
const harmlessLength = 4_096

/** Why the JSON in a text must not be parsed: it nests too deep, or is made of more than `mostValues`. */
export function shapeFault(text: string, mostValues = maxValues): string | undefined {
  return text.length <= harmlessLength ? undefined : atOnce(shapeFaultSteps(text, mostValues))
}

/** As `shapeFault`, in steps. */
export function* shapeFaultSteps(text: string, mostValues = maxValues): Steps<string | undefined> {
  const scanned = yield* scanSteps(text, { depth: maxDepth, values: mostValues })
  if (scanned.kind === 'shape') return undefined
  const { kind, most } = scanned.fault
  return kind === 'depth' ? `nests deeper than ${most} levels` : `holds more than ${most} values`
}

// ---- what came, to be sent on ------------------------------------------------------------------------------

interface Source {
  readonly text: string
  readonly lists: Shape['lists']
}

const sources = new WeakMap<object, Source>()

/** Remembers the text that a body was parsed from, until that is forgotten or the body is no longer held. */
export function rememberSource(body: object, text: string, { lists }: Shape): void {
  if (lists.size > 0) sources.set(body, { text, lists })
}

/** Whether the body still says what it was parsed from. */
export function isAsItCame(body: object): boolean {
  return sources.has(body)
}

/** To be called where a body is changed, and where nothing more is made of it. */
export function forgetSource(body: object): void {
  sources.delete(body)
}

/** Shorter lists are written as quickly as they are compared. */
const leastSource = 4_096

/**
 * The JSON text of `made`, which was made of the body `from`: items of its lists that say what an item of the body says
 * are written as they came. Undefined where that saves nothing, or would take long.
 */
export function textAsItCame(made: Readonly<Record<string, unknown>>, from: object): string | undefined {
  const source = sources.get(from)
  if (source === undefined || source.text.length < leastSource) return undefined
  if (source.text.length > charactersAtOnce()) return undefined
  let text = ''
  for (const name of Object.keys(made)) {
    const value = made[name]
    if (value === undefined) continue
    const list = source.lists.get(name)
    const items = (from as Readonly<Record<string, unknown>>)[name]
    const written =
      list && Array.isArray(value) && Array.isArray(items)
        ? listAsItCame(value, items, source.text, list.spans)
        : JSON.stringify(value)
    text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${written}`
  }
  return text === '' ? '{}' : `${text}}`
}

/** The items of `made` are in the order of `items`; some of those may be missing, and others stand between them. */
function listAsItCame(
  made: readonly unknown[],
  items: readonly unknown[],
  text: string,
  spans: readonly number[],
): string {
  let written = ''
  let next = 0
  /** Items from here on are made: they are written in one go, which takes half as long as one by one. */
  let from = 0
  const add = (piece: string) => {
    written += written === '' ? piece : `,${piece}`
  }
  const addMade = (to: number) => {
    if (from < to) add(JSON.stringify(made.slice(from, to)).slice(1, -1))
  }
  for (let index = 0; index < made.length; index++) {
    const at = placeOf(made[index], items, next)
    if (at < 0) continue
    addMade(index)
    add(text.slice(spans[2 * at], spans[2 * at + 1]))
    from = index + 1
    next = at + 1
  }
  addMade(made.length)
  return `[${written}]`
}

/** How many items may have been left out in a row. */
const mostLeftOut = 4

function placeOf(item: unknown, items: readonly unknown[], from: number): number {
  const last = Math.min(items.length, from + mostLeftOut)
  for (let at = from; at < last; at++) if (saysTheSame(item, items[at])) return at
  return -1
}

/** Whether two JSON values are written alike, but for the order of their members. */
function saysTheSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false
    return a.every((item, at) => saysTheSame(item, b[at]))
  }
  let members = 0
  for (const key in a) {
    const value = (a as Readonly<Record<string, unknown>>)[key]
    if (value === undefined) continue
    members++
    if (!saysTheSame(value, (b as Readonly<Record<string, unknown>>)[key])) return false
  }
  for (const key in b) {
    if ((b as Readonly<Record<string, unknown>>)[key] === undefined) continue
    if (members-- === 0) return false
  }
  return members === 0
}

// What a client has sent before is not parsed again: agents send the same tools, instructions and messages a hundred
// times, with a few more at the end. The items of lists that a text has in common with an earlier one are those of that.

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
    for (const known of this.#known.get(name) ?? [])
      if (best === undefined || agreesBeyond(known, text, best.end)) {
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
    const before = this.#known.get(name) ?? []
    // Sent once more, as it was.
    if (before[0]?.text === text) return
    const lists: Record<string, unknown> = {}
    for (const key of shape.lists.keys()) {
      const items = json[key]
      if (!Array.isArray(items)) continue
      for (const item of items) settle(item)
      lists[key] = [...items]
    }
    // A turn takes the place of the one before it.
    const others = before.filter((known) => !goesOnFrom(known, text))
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
  // To ask whether an object is frozen takes ten times as long.
  if (typeof item !== 'object' || item === null || settled.has(item)) return
  freeze(item)
  settled.add(item)
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  Object.freeze(value)
  for (const key in value) freeze((value as Readonly<Record<string, unknown>>)[key])
}

interface Common {
  readonly known: Known
  readonly key: string
  readonly list: ScannedList
  /** The last item that both have, and the position behind it. */
  readonly at: number
  readonly end: number
}

function agrees(a: string, b: string, from: number, to: number): boolean {
  return b.length >= to && b.startsWith(a.slice(from, to), from)
}

/** Whether a text has all items of an earlier one, and more. Mostly the last of them says already that it has not. */
function goesOnFrom({ text: known, shape, json }: Known, text: string): boolean {
  const keys = [...shape.lists.keys()]
  const last = keys.findLast((key) => Array.isArray(json[key]) && json[key].length > 0)
  if (last === undefined) return false
  const [from, to] = shape.lists.get(last)!.spans.slice(-2) as [number, number]
  return agrees(known, text, from, to) && agrees(known, text, 0, from)
}

/** Whether an earlier text may have an item in common with this one that ends behind `position`. */
function agreesBeyond({ text: known, shape: { lists } }: Known, text: string, position: number): boolean {
  for (const { spans } of lists.values()) {
    if (spans.at(-1)! <= position) continue
    let [low, high] = [0, spans.length >> 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (spans[2 * middle + 1]! > position) high = middle
      else low = middle + 1
    }
    return agrees(known, text, position, spans[2 * low + 1]!)
  }
  return false
}

/** The last item up to whose end both texts are the same; nothing of them is compared twice. */
function commonWith(known: Known, text: string): Common | undefined {
  let common: Common | undefined
  let same = 0
  for (const [key, list] of known.shape.lists) {
    const items = known.json[key]
    if (!Array.isArray(items)) continue
    let [low, high] = [0, items.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const end = list.spans[2 * middle + 1]!
      if (agrees(known.text, text, same, end)) [low, same] = [middle + 1, end]
      else high = middle
    }
    // A number may go on behind what both have: only what stands in brackets or quotes has an end of its own.
    for (let at = low - 1; at >= 0; at--) {
      const end = list.spans[2 * at + 1]!
      if (!/[\]}"]\s*$/.test(known.text.slice(Math.max(0, end - 64), end))) continue
      common = { known, key, list, at, end }
      break
    }
    if (low < items.length) break
  }
  return common
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
        const isWhole = more === none && 2 * count === before.spans.length
        lists.set(name, isWhole ? before : firstItems(before, count, more))
      }
      for (const [name, later] of shape.lists)
        if (!lists.has(name)) lists.set(name, movedBy(later, removed, at, list))
      return { colons: shape.colons, lists }
    },
  }
}

const none: ScannedList = { spans: [], counts: [] }

/** So many items of a list, and those of another behind them. */
function firstItems({ spans, counts }: ScannedList, count: number, more: ScannedList): ScannedList {
  return {
    spans: [...spans.slice(0, 2 * count), ...more.spans],
    counts: [...counts.slice(0, 2 * count), ...more.counts],
  }
}

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
