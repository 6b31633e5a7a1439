// The texts of a request or of an answer, wherever they stand in it: what masks and hooks see, and may change. What has no
// words (addresses, ids, names of tools, signatures, images) is none of it.

import { type Expression, ExpressionScan, type TextSpan } from './expression.ts'

/** One text. */
export interface TextPart {
  /** Where it stands, such as `messages.0.content.1.text`. */
  readonly id: string
  /** Of whom, in a conversation: user, system, assistant, tool …; empty for what is of nobody. */
  readonly role: string
  /** `arguments` is JSON text. */
  readonly kind: 'text' | 'arguments'
  /** It is signed by its provider: changed, all of it is withheld. */
  readonly signed: boolean
  readonly text: string
}

/** Members that name kinds, places and things, or are sealed. */
const wordless: ReadonlySet<string> = new Set(
  (
    'kind role type format id index toolCallId tool_call_id tool_use_id call_id item_id previous_response_id ' +
    'signature thoughtSignature thought_signature encrypted_content data file_data url href uri image_url file_url file_id ' +
    'fileUri mediaType media_type mime_type mimeType ttl detail effort name namespace serverLabel server_label status ' +
    'phase model voice required object engine breakpoint param tool approvalRequestId reason native'
  ).split(' '),
)

interface Place {
  readonly id: string
  readonly key: string
  readonly role: string
  readonly signed: boolean
}

type Visit = (part: TextPart) => string

const outside: Place = { id: '', key: '', role: '', signed: false }

/** In place of what must not go on. */
const withheld = Symbol('withheld')

type Steps<Result> = Generator<void, Result, void>

/** The texts of a value, in the order in which they stand; in steps, since there may be a hundred thousand. */
export function* partsSteps(value: unknown): Steps<readonly TextPart[]> {
  const parts: TextPart[] = []
  yield* new Walk((part) => {
    parts.push(part)
    return part.text
  }).rewrite(value, outside)
  return parts
}

/** The value with these texts, in the order of `partsSteps`; the same value where none has changed. */
export function* withTextsSteps<Value>(value: Value, texts: readonly string[]): Steps<Value> {
  let next = 0
  const made = yield* new Walk(() => texts[next++]!).rewrite(value, outside)
  return made === withheld ? value : (made as Value)
}

/** Containers that are looked at in one step. */
const atOnce = 1_000

/** Visits every text of a value, and makes the value that has what the visits gave. */
class Walk {
  readonly #visit: Visit
  #looked = 0

  constructor(visit: Visit) {
    this.#visit = visit
  }

  *rewrite(value: unknown, place: Place): Steps<unknown> {
    if (typeof value === 'string') return this.#text(value, place)
    if (typeof value !== 'object' || value === null) return value
    if (++this.#looked % atOnce === 0) yield
    return Array.isArray(value) ? yield* this.#list(value, place) : yield* this.#object(value, place)
  }

  #text(text: string, { id, key, role, signed }: Place): string {
    if (text === '' || wordless.has(key) || text.startsWith('data:')) return text
    return this.#visit({ id, role, kind: key === 'arguments' ? 'arguments' : 'text', signed, text })
  }

  *#list(list: readonly unknown[], place: Place): Steps<unknown> {
    let made: unknown[] | undefined
    for (const [index, item] of list.entries()) {
      // What stands in a list is called as the list is: texts of `stop`, or of `content`.
      const next = yield* this.rewrite(item, { ...place, id: `${place.id}.${index}` })
      if (next === item && made === undefined) continue
      made ??= list.slice(0, index)
      if (next !== withheld) made.push(next)
    }
    return made ?? list
  }

  *#object(value: object, place: Place): Steps<unknown> {
    const signed = place.signed || isSigned(value)
    const role = 'role' in value && typeof value.role === 'string' ? value.role : place.role
    let made: Record<string, unknown> | undefined
    let isWithheld = false
    for (const [key, inner] of Object.entries(value)) {
      const id = place.id === '' ? key : `${place.id}.${key}`
      const at = { id, key, role: place.id === '' && role === '' ? key : role, signed }
      const next = key === 'data' ? this.#file(value, at) : yield* this.rewrite(inner, at)
      if (next === inner) continue
      // A signature is of all that it was made for. The rest is visited all the same: texts are counted.
      if (next === withheld || (signed && !place.signed)) isWithheld = true
      made ??= { ...value }
      Object.defineProperty(made, key, { value: next, enumerable: true, writable: true, configurable: true })
    }
    return isWithheld ? withheld : (made ?? value)
  }

  /** A file that is a text is looked into, whatever the letters that it is written in. */
  #file(file: object, { id, role, signed }: Place): unknown {
    const data: unknown = Reflect.get(file, 'data')
    const type: unknown = Reflect.get(file, 'mediaType')
    if (typeof data !== 'string' || typeof type !== 'string' || !/^text\/|[/+]json\b/.test(type)) return data
    const text = Buffer.from(data, 'base64').toString('utf8')
    if (text === '') return data
    const next = this.#visit({ id, role, kind: 'text', signed, text })
    return next === text ? data : Buffer.from(next).toString('base64')
  }
}

/** Thoughts that go back to their provider as they are. */
function isSigned(value: object): boolean {
  const isText = (key: string) =>
    typeof Reflect.get(value, key) === 'string' && Reflect.get(value, key) !== ''
  if (isText('signature') || isText('encrypted_content')) return true
  return 'type' in value && String(value.type).startsWith('reasoning') && isText('data')
}

// What is taken out of texts before a provider, a tool or a client sees it: things of known shapes, and the operator's own
// expressions. A text may come in pieces, cut anywhere: what is masked does not depend on where.

interface Finding extends TextSpan {
  /** Which of the masks found it. */
  readonly mask: number
}

/** A mask: what it finds, and what stands in its place. */
export interface Mask {
  /** For receipts. */
  readonly name: string
  readonly find: MaskShape | Expression
  readonly replacement: string
}

export const shapes = ['email', 'card', 'phone', 'aadhaar', 'pan', 'iban', 'key'] as const
export type MaskShape = (typeof shapes)[number]

// Things of known shapes. Each is looked for in a short text without breaks (see `Cluster`), so that no expression here
// has much to try.

type Finder = (text: string) => readonly TextSpan[]

const letter = 'A-Za-z0-9\\u00c0-\\u024f'

/** Of addresses that are longer than any, the end. */
const emailExpression = new RegExp(
  `[${letter}][${letter}._%+-]{0,63}@(?:[${letter}](?:[${letter}-]{0,61}[${letter}])?\\.){1,8}(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z\\u00c0-\\u024f]{2,24})`,
  'g',
)

/** Shapes that their makers have published, with what tells them apart from words. */
const keyExpressions: readonly RegExp[] = [
  // OpenAI, Anthropic, OpenRouter, DeepSeek and others; the gateway's own.
  /sk-[A-Za-z0-9_-]{20,400}/g,
  // Stripe
  /[rsp]k_(?:live|test)_[A-Za-z0-9]{16,200}/g,
  // Amazon Web Services
  /A[KS]IA[A-Z2-7]{16}(?![A-Z2-7])/g,
  // Google
  /AIza[A-Za-z0-9_-]{35}/g,
  // GitHub, GitLab, npm, Hugging Face, Slack, SendGrid, Groq, xAI, Razorpay
  /gh[oprsu]_[A-Za-z0-9]{36,250}/g,
  /github_pat_[A-Za-z0-9_]{22,250}/g,
  /glpat-[A-Za-z0-9_-]{20,100}/g,
  /npm_[A-Za-z0-9]{36}/g,
  /hf_[A-Za-z0-9]{30,60}/g,
  /xox[abeoprs]-[A-Za-z0-9-]{10,250}/g,
  /SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}/g,
  /gsk_[A-Za-z0-9]{40,100}/g,
  /xai-[A-Za-z0-9]{40,200}/g,
  /rzp_(?:live|test)_[A-Za-z0-9]{14,40}/g,
]

/** E.164 with its plus; numbers of India without; those of North America as they are written there. */
const phoneExpressions: readonly RegExp[] = [
  /\+[1-9](?:[ .()\u00a0-]{0,2}\d){7,14}(?!\d)/g,
  /(?:0[ -]?|91[ -]?)?[6-9]\d{4}[ -]?\d{5}(?![A-Za-z0-9])/g,
  /(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\d-])/g,
]

const panExpression = /[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z](?![A-Za-z0-9])/gi

const ibanExpression = /[A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]){11,30}/gi

/** Letters and digits of an IBAN by country (SWIFT's registry, release 99). */
const ibanLengths = new Map<string, number>(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ' +
    'ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 ' +
    'LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 ' +
    'PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30'
  )
    .split(' ')
    .map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const),
)

const finders: Readonly<Record<MaskShape, Finder>> = {
  email: (text) => (text.includes('@') ? matchesOf(text, [emailExpression]) : none),
  card: (text) => (hasNumber(text) ? groupsOf(text).filter(({ digits }) => isCard(digits)) : none),
  phone: (text) =>
    hasNumber(text) ? matchesOf(text, phoneExpressions).filter((span) => isFree(text, span)) : none,
  aadhaar: (text) => (hasNumber(text) ? groupsOf(text).filter(({ digits }) => isAadhaar(digits)) : none),
  pan: (text) =>
    hasNumber(text) ? matchesOf(text, [panExpression]).filter((span) => isFree(text, span)) : none,
  iban: (text) =>
    hasNumber(text) ? matchesOf(text, [ibanExpression]).flatMap((span) => ibanIn(text, span)) : none,
  key: (text) =>
    text.length >= 18 ? matchesOf(text, keyExpressions).filter((span) => isFree(text, span)) : none,
}

/** Nearly no word has one, and then the rest is not tried. */
function hasNumber(text: string): boolean {
  return /\d\d/.test(text)
}

const none: readonly TextSpan[] = []

function matchesOf(text: string, expressions: readonly RegExp[]): TextSpan[] {
  return expressions.flatMap((expression) =>
    [...text.matchAll(expression)].map((match) => ({ from: match.index, to: match.index + match[0].length })),
  )
}

/** Whether no letter and no digit stands in front of it, and it is no fraction. */
function isFree(text: string, { from }: Pick<TextSpan, 'from'>): boolean {
  return from === 0 || !/[A-Za-z0-9]$|\d\.$/.test(text.slice(Math.max(0, from - 2), from))
}

interface DigitGroups extends TextSpan {
  readonly digits: string
}

/** Longest numbers that are looked at, and shortest. */
const [mostDigits, fewestDigits] = [19, 12] as const

/** Every run of whole groups of digits, one separator between two, that may be a number of its own. */
function groupsOf(text: string): DigitGroups[] {
  const groups = [...text.matchAll(/\d+/g)].map((match) => ({ from: match.index, digits: match[0] }))
  const found: DigitGroups[] = []
  for (const [first, { from }] of groups.entries()) {
    if (!isFree(text, { from })) continue
    let digits = ''
    for (const [index, group] of groups.entries()) {
      if (index < first) continue
      const before = groups[index - 1]
      const gap = index === first ? '' : text.slice(before!.from + before!.digits.length, group.from)
      if (index > first && !/^[ \u00a0-]$/.test(gap)) break
      digits += group.digits
      if (digits.length > mostDigits) break
      const to = group.from + group.digits.length
      if (digits.length >= fewestDigits && !/^(?:[A-Za-z]|\.\d)/.test(text.slice(to, to + 2)))
        found.push({ from, to, digits })
    }
  }
  return found
}

/** Numbers of payment cards: 13 to 19 digits of a known network, with the digit of Luhn (ISO/IEC 7812-1, annex B). */
export function isCard(digits: string): boolean {
  if (digits.length < 13 || digits.length > 19 || !/^[2-6]|^8[12]/.test(digits)) return false
  let sum = 0
  for (let index = 0; index < digits.length; index++) {
    const digit = Number(digits[digits.length - 1 - index])
    const weighed = index % 2 === 0 ? digit : digit * 2
    sum += weighed > 9 ? weighed - 9 : weighed
  }
  return sum % 10 === 0
}

/** The multiplication of the dihedral group of order ten. */
function times(a: number, b: number): number {
  if (a < 5) return b < 5 ? (a + b) % 5 : ((a + (b - 5)) % 5) + 5
  return b < 5 ? ((a - 5 - b + 5) % 5) + 5 : (a - b + 5) % 5
}

const permutation = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4] as const

/** Numbers of Aadhaar: twelve digits that begin with neither 0 nor 1, with the digit of Verhoeff. */
export function isAadhaar(digits: string): boolean {
  if (!/^[2-9]\d{11}$/.test(digits)) return false
  let check = 0
  for (let index = 0; index < digits.length; index++) {
    let digit = Number(digits[digits.length - 1 - index])
    for (let turn = 0; turn < index % 8; turn++) digit = permutation[digit]!
    check = times(check, digit)
  }
  return check === 0
}

/** An IBAN at the beginning of a match, by the length of its country and its two check digits (ISO 13616). */
function ibanIn(text: string, span: TextSpan): readonly TextSpan[] {
  if (!isFree(text, span)) return none
  const length = ibanLengths.get(text.slice(span.from, span.from + 2).toUpperCase())
  if (length === undefined) return none
  let to = span.from
  let characters = ''
  for (; characters.length < length && to < span.to; to++)
    if (/[A-Za-z0-9]/.test(text[to]!)) characters += text[to]!.toUpperCase()
  if (characters.length < length || /[A-Za-z0-9]/.test(text[to] ?? '')) return none
  const moved = characters.slice(4) + characters.slice(0, 4)
  let rest = 0
  for (const character of moved) {
    const value = Number.parseInt(character, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1 ? [{ from: span.from, to }] : none
}

// A text in pieces.

/** Something that has been taken out of a text, by its place in what came in. */
interface Edit extends TextSpan {
  /** Characters that stand there now. */
  readonly length: number
}

/** Takes a text in pieces and gives what is left of it, as soon as it is decided. */
abstract class Stage {
  readonly #edits: Edit[] = []
  readonly #onFound: (mask: number) => void
  readonly #masks: readonly Mask[]
  /** Came in and did not go out yet, and where it begins. */
  protected waiting = ''
  protected at = 0

  constructor(masks: readonly Mask[], onFound: (mask: number) => void) {
    this.#masks = masks
    this.#onFound = onFound
  }

  abstract push(text: string): string
  abstract end(): string

  /** Gives what waits up to `to`, with the findings in it replaced; both count from the beginning of the text. */
  protected release(to: number, findings: readonly Finding[]): string {
    let out = ''
    let from = this.at
    for (const finding of findings) {
      const { replacement } = this.#masks[finding.mask]!
      out += this.waiting.slice(from - this.at, finding.from - this.at) + replacement
      this.#edits.push({ from: finding.from, to: finding.to, length: replacement.length })
      this.#onFound(finding.mask)
      from = finding.to
    }
    out += this.waiting.slice(from - this.at, to - this.at)
    this.waiting = this.waiting.slice(to - this.at)
    this.at = to
    return out
  }

  /** Where a place in what came in is in what went out. */
  placeOf(offset: number): number {
    let moved = 0
    for (const { from, to, length } of this.#edits) {
      if (offset <= from) break
      if (offset < to) return from + moved + length
      moved += length - (to - from)
    }
    return offset + moved
  }
}

/** Characters that things of known shapes are made of. Everything else but single spaces ends them. */
const token = 1
const small = 2
const space = 4
const kinds = Uint8Array.from({ length: 0x250 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (/[ \t\u00a0]/.test(character)) return space
  if (/[a-z\u00df-\u024f]/.test(character)) return token + small
  return /[A-Z0-9\u00c0-\u00de@._+()%~-]/.test(character) ? token : 0
})

/** No thing of a known shape is longer. */
const longestThing = 480
/** So much is looked at at once. */
const longestCluster = 1_024

/**
 * Looks for things of known shapes within clusters: stretches of such characters in which nothing but the last word has
 * small letters, since only numbers and codes are written in groups. A cluster ends with a line, a sign or a word, so that
 * a text of words is held back for a word at a time.
 */
class ShapeStage extends Stage {
  readonly #finders: readonly (readonly [Finder, number])[]
  /** What stood before the cluster, if that is the rest of a longer one. */
  #before = ''
  /** Of the cluster, with which what waits begins. */
  #length = 0
  #spaces = 0
  /** The word that the cluster ends in has small letters. */
  #isWord = false

  constructor(masks: readonly Mask[], onFound: (mask: number) => void) {
    super(masks, onFound)
    this.#finders = masks.flatMap(({ find }, index) =>
      typeof find === 'string' ? [[finders[find], index] as const] : [],
    )
  }

  push(text: string): string {
    let out = ''
    this.waiting += text
    for (let index = 0; index < text.length; index++) {
      const kind = kinds[text.charCodeAt(index)] ?? 0
      if ((kind & token) !== 0) {
        // Behind a word another cluster begins.
        if (this.#spaces > 0) {
          if (this.#isWord) out += this.#endCluster()
          this.#isWord = false
          this.#spaces = 0
        }
        if ((kind & small) !== 0) this.#isWord = true
        this.#length++
        if (this.#length >= longestCluster) out += this.#release(this.#length - longestThing)
      } else {
        const joins = kind === space && this.#length > 0 && this.#spaces < 2
        this.#length++
        if (joins) this.#spaces++
        else out += this.#endCluster()
      }
    }
    return out
  }

  end(): string {
    return this.#endCluster()
  }

  #endCluster(): string {
    const out = this.#release(this.#length)
    this.#before = ''
    this.#length = 0
    this.#spaces = 0
    this.#isWord = false
    return out
  }

  /** Releases the first `length` characters of the cluster, and a thing that begins in them; the rest is looked at again. */
  #release(length: number): string {
    const cluster = this.waiting.slice(0, this.#length)
    const findings = this.#find(cluster).filter(({ from }) => from < length)
    const end = Math.max(length, findings.at(-1)?.to ?? 0)
    const { at } = this
    this.#before = cluster.slice(Math.max(0, end - 2), end)
    this.#length -= end
    return this.release(
      at + end,
      findings.map(({ from, to, mask }) => ({ from: from + at, to: to + at, mask })),
    )
  }

  /** What is found in the cluster: of things that overlap the first, and of those the longest. */
  #find(cluster: string): readonly Finding[] {
    if (cluster.length < 6) return []
    const before = this.#before.length
    const text = this.#before + cluster
    const all = this.#finders.flatMap(([finder, mask]) =>
      finder(text)
        .filter(({ from }) => from >= before)
        .map(({ from, to }): Finding => ({ from: from - before, to: to - before, mask })),
    )
    if (all.length < 2) return all
    const sorted = all.toSorted((a, b) => a.from - b.from || b.to - a.to || a.mask - b.mask)
    const kept: Finding[] = []
    for (const finding of sorted) {
      const last = kept.at(-1)
      if (last === undefined || finding.from >= last.to) kept.push(finding)
      // Nothing of what only one of them covers is left standing.
      else if (finding.to > last.to) kept[kept.length - 1] = { ...last, to: finding.to }
    }
    return kept
  }
}

/** Looks for what one expression matches. */
class ExpressionStage extends Stage {
  readonly #scan: ExpressionScan
  #findings: Finding[] = []

  constructor(mask: Mask & { readonly find: Expression }, onFound: (mask: number) => void) {
    super([mask], onFound)
    this.#scan = new ExpressionScan(mask.find)
  }

  push(text: string): string {
    this.waiting += text
    this.#take(this.#scan.push(text))
    const { decided } = this.#scan
    return this.release(Math.max(this.at, decided), this.#findings.splice(0))
  }

  end(): string {
    this.#take(this.#scan.end())
    return this.release(this.at + this.waiting.length, this.#findings.splice(0))
  }

  #take(spans: readonly TextSpan[]): void {
    // Of a match that is longer than any, the beginning may be out.
    for (const { from, to } of spans) this.#findings.push({ from: Math.max(from, this.at), to, mask: 0 })
  }
}

/** One text that is masked while it comes. */
export class MaskedText {
  readonly #stages: readonly Stage[]

  /** `onFound` is called with the name of a mask for each thing that it takes out. */
  constructor(masks: readonly Mask[], onFound: (name: string) => void) {
    const ofShapes = masks.filter(({ find }) => typeof find === 'string')
    const stages: Stage[] = []
    if (ofShapes.length > 0) stages.push(new ShapeStage(ofShapes, (mask) => onFound(ofShapes[mask]!.name)))
    for (const mask of masks) {
      const { find } = mask
      if (typeof find !== 'string')
        stages.push(new ExpressionStage({ ...mask, find }, () => onFound(mask.name)))
    }
    this.#stages = stages
  }

  /** What of the text is decided, masked. */
  push(text: string): string {
    let out = text
    for (const stage of this.#stages) out = stage.push(out)
    return out
  }

  /** The text is over: the rest of it. */
  end(): string {
    let out = ''
    for (const stage of this.#stages) out = (out === '' ? '' : stage.push(out)) + stage.end()
    return out
  }

  /** Where a place in the text is in what is left of it. */
  placeOf(offset: number): number {
    return this.#stages.reduce((at, stage) => stage.placeOf(at), offset)
  }
}

/** A whole text, masked, in pieces that take a millisecond or two. */
export function* maskSteps(
  text: string,
  masks: readonly Mask[],
  onFound: (name: string) => void,
): Generator<void, string, void> {
  const masked = new MaskedText(masks, onFound)
  let out = ''
  for (let from = 0; from < text.length; from += piece) {
    if (from > 0) yield
    out += masked.push(text.slice(from, from + piece))
  }
  return out + masked.end()
}

const piece = 8_192

/**
 * The same of a text in JSON: whatever is masked is in a string of it, and it stays JSON. A number in which something is
 * found becomes a string.
 */
export function* maskJsonSteps(
  json: string,
  masks: readonly Mask[],
  onFound: (name: string) => void,
): Generator<void, string, void> {
  let out = ''
  let end = 0
  for (const match of json.matchAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g)) {
    const [written] = match
    if (written.length < 6) continue
    const text = valueOf(written)
    if (text === undefined) continue
    const masked = yield* maskSteps(text, masks, onFound)
    if (masked === text) continue
    out += json.slice(end, match.index) + JSON.stringify(masked)
    end = match.index + written.length
  }
  return out + json.slice(end)
}

function valueOf(written: string): string | undefined {
  if (!written.startsWith('"')) return written
  try {
    return JSON.parse(written) as string
  } catch {
    return undefined
  }
}
