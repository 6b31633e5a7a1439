// The texts of a request or of an answer, wherever they stand in it: what masks and hooks see, and may change. What has no
// words (addresses, ids, names of tools, signatures, images) is none of it.

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
