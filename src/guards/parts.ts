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

/** The texts of a value, in the order in which they stand. */
export function partsOf(value: unknown): readonly TextPart[] {
  const parts: TextPart[] = []
  rewrite(value, outside, (part) => {
    parts.push(part)
    return part.text
  })
  return parts
}

/** The value with these texts, in the order of `partsOf`; the same value where none has changed. */
export function withTexts<Value>(value: Value, texts: readonly string[]): Value {
  let next = 0
  const made = rewrite(value, outside, () => texts[next++]!)
  return made === withheld ? value : (made as Value)
}

function rewrite(value: unknown, place: Place, visit: Visit): unknown {
  if (typeof value === 'string') return rewriteText(value, place, visit)
  if (Array.isArray(value)) return rewriteList(value, place, visit)
  return typeof value === 'object' && value !== null ? rewriteObject(value, place, visit) : value
}

function rewriteText(text: string, { id, key, role, signed }: Place, visit: Visit): string {
  if (text === '' || wordless.has(key) || text.startsWith('data:')) return text
  return visit({ id, role, kind: key === 'arguments' ? 'arguments' : 'text', signed, text })
}

function rewriteList(list: readonly unknown[], place: Place, visit: Visit): unknown {
  let made: unknown[] | undefined
  for (const [index, item] of list.entries()) {
    // What stands in a list is called as the list is: texts of `stop`, or of `content`.
    const next = rewrite(item, { ...place, id: `${place.id}.${index}` }, visit)
    if (next === item && made === undefined) continue
    made ??= list.slice(0, index)
    if (next !== withheld) made.push(next)
  }
  return made ?? list
}

function rewriteObject(value: object, place: Place, visit: Visit): unknown {
  const signed = place.signed || isSigned(value)
  const role = 'role' in value && typeof value.role === 'string' ? value.role : place.role
  let made: Record<string, unknown> | undefined
  for (const [key, inner] of Object.entries(value)) {
    const id = place.id === '' ? key : `${place.id}.${key}`
    const at = { id, key, role: place.id === '' && role === '' ? key : role, signed }
    const next = key === 'data' ? rewriteFile(value, at, visit) : rewrite(inner, at, visit)
    if (next === inner) continue
    // A signature is of all that it was made for.
    if (next === withheld || (signed && !place.signed)) return finish(value, place, visit, key)
    made ??= { ...value }
    Object.defineProperty(made, key, { value: next, enumerable: true, writable: true, configurable: true })
  }
  return made ?? value
}

/** Visits what is left of an object that is withheld, so that all texts keep their order. */
function finish(value: object, place: Place, visit: Visit, after: string): typeof withheld {
  const keys = Object.keys(value)
  for (const key of keys.slice(keys.indexOf(after) + 1)) {
    const inner: unknown = Reflect.get(value, key)
    const at = { id: `${place.id}.${key}`, key, role: place.role, signed: true }
    if (key === 'data') rewriteFile(value, at, visit)
    else rewrite(inner, at, visit)
  }
  return withheld
}

/** Thoughts that go back to their provider as they are. */
function isSigned(value: object): boolean {
  const isText = (key: string) =>
    typeof Reflect.get(value, key) === 'string' && Reflect.get(value, key) !== ''
  if (isText('signature') || isText('encrypted_content')) return true
  return 'type' in value && String(value.type).startsWith('reasoning') && isText('data')
}

/** A file that is a text is looked into, whatever the letters that it is written in. */
function rewriteFile(file: object, place: Place, visit: Visit): unknown {
  const data: unknown = Reflect.get(file, 'data')
  const type: unknown = Reflect.get(file, 'mediaType')
  if (typeof data !== 'string' || typeof type !== 'string' || !/^text\/|[/+]json\b/.test(type)) return data
  const text = Buffer.from(data, 'base64').toString('utf8')
  if (text === '') return data
  const { id, role, signed } = place
  const next = visit({ id, role, kind: 'text', signed, text })
  return next === text ? data : Buffer.from(next).toString('base64')
}
