// Regular expressions whose time is linear in the text, whatever they are: a set of states walks over the text once, and
// nothing is tried twice (Thompson 1968, as in RE2). What only backtracking can match (references back, looking around)
// is refused when the expression is read.

/** What one character must be. */
type CharacterTest = (code: number) => boolean

type Node =
  | { readonly kind: 'character'; readonly test: CharacterTest }
  | { readonly kind: 'boundary'; readonly negated: boolean }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly Node[] }
  | { readonly kind: 'repeat'; readonly part: Node; readonly least: number; readonly most: number }

type Instruction =
  | { readonly kind: 'character'; readonly test: CharacterTest }
  | { readonly kind: 'split'; readonly to: number[] }
  | { readonly kind: 'boundary'; readonly negated: boolean }
  | { readonly kind: 'match' }

const mostInstructions = 1_000
const mostCharacters = 1_000
const mostRepeats = 1_000

/** An expression that cannot be used, and why. */
export class ExpressionFault extends Error {}

/** An expression that has been read. */
export interface Expression {
  readonly program: readonly Instruction[]
}

/**
 * Reads an expression: characters, `.`, classes, `\d \w \s \b` and their opposites, groups, `|`, and the quantifiers
 * `* + ? {n,m}`; `(?i)` in front ignores case. Throws ExpressionFault.
 */
export function readExpression(source: string): Expression {
  if (source.length > mostCharacters) throw new ExpressionFault(`is longer than ${mostCharacters} characters`)
  const tree = new Reader(source).read()
  if (mayBeEmpty(tree)) throw new ExpressionFault('matches a text without characters')
  const program: Instruction[] = []
  write(tree, program)
  program.push({ kind: 'match' })
  return { program }
}

class Reader {
  readonly #source: string
  readonly #ignoresCase: boolean
  #at = 0
  #depth = 0

  constructor(source: string) {
    this.#ignoresCase = source.startsWith('(?i)')
    this.#source = this.#ignoresCase ? source.slice(4) : source
  }

  read(): Node {
    const tree = this.#choice()
    if (this.#at < this.#source.length) throw new ExpressionFault('has a ) without its (')
    return tree
  }

  #choice(): Node {
    const parts = [this.#sequence()]
    while (this.#takes('|')) parts.push(this.#sequence())
    return parts.length === 1 ? parts[0]! : { kind: 'choice', parts }
  }

  #sequence(): Node {
    const parts: Node[] = []
    for (let next = this.#next; next !== '' && next !== '|' && next !== ')'; next = this.#next)
      parts.push(this.#repeats(this.#atom()))
    return { kind: 'sequence', parts }
  }

  get #next(): string {
    return this.#source.charAt(this.#at)
  }

  #takes(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false
    this.#at += text.length
    return true
  }

  #repeats(part: Node): Node {
    const bounds = this.#bounds()
    if (bounds === undefined) return part
    // Whether as much or as little as possible is taken is the same to a mask.
    this.#takes('?')
    if (this.#bounds() !== undefined) throw new ExpressionFault('has a quantifier behind a quantifier')
    if (part.kind === 'boundary') throw new ExpressionFault('repeats \\b')
    return { kind: 'repeat', part, ...bounds }
  }

  #bounds(): { readonly least: number; readonly most: number } | undefined {
    if (this.#takes('*')) return { least: 0, most: Number.POSITIVE_INFINITY }
    if (this.#takes('+')) return { least: 1, most: Number.POSITIVE_INFINITY }
    if (this.#takes('?')) return { least: 0, most: 1 }
    const [written, from, comma, to] = /^\{(\d{1,4})(,?)(\d{0,4})\}/.exec(this.#source.slice(this.#at)) ?? []
    if (written === undefined) return undefined
    this.#at += written.length
    const least = Number(from)
    const most = to !== '' ? Number(to) : comma === '' ? least : Number.POSITIVE_INFINITY
    if (least > mostRepeats || (most !== Number.POSITIVE_INFINITY && (most > mostRepeats || most < least)))
      throw new ExpressionFault(`repeats in an order or number that is not taken: ${written}`)
    return { least, most }
  }

  #atom(): Node {
    if (this.#takes('(')) return this.#group()
    if (this.#takes('[')) return this.#class()
    if (this.#takes('.')) return { kind: 'character', test: (code) => code !== 10 && code !== 13 }
    const character = this.#next
    if (character === '^' || character === '$')
      throw new ExpressionFault(`has a ${character}: a text may come in pieces, and has no beginning or end`)
    if ('*+?'.includes(character)) throw new ExpressionFault(`has nothing in front of ${character}`)
    this.#at++
    if (character !== '\\') return this.#literal(character)
    const escaped = this.#next
    this.#at++
    if (escaped === 'b' || escaped === 'B') return { kind: 'boundary', negated: escaped === 'B' }
    const test = classes[escaped]
    return test ? { kind: 'character', test } : this.#literal(characterOf(escaped))
  }

  #group(): Node {
    if (this.#takes('?') && !this.#takes(':'))
      throw new ExpressionFault('looks around or names a group: of groups only (…) and (?:…) are taken')
    if (++this.#depth > 50) throw new ExpressionFault('nests too deep')
    const inner = this.#choice()
    this.#depth--
    if (!this.#takes(')')) throw new ExpressionFault('has a ( without its )')
    return inner
  }

  #literal(character: string): Node {
    const [a, b] = [character.charCodeAt(0), character.toLowerCase().charCodeAt(0)]
    const c = character.toUpperCase().charCodeAt(0)
    const test: CharacterTest = this.#ignoresCase
      ? (code) => code === a || code === b || code === c
      : (code) => code === a
    return { kind: 'character', test }
  }

  #class(): Node {
    const negated = this.#takes('^')
    const tests: CharacterTest[] = []
    for (let isFirst = true; isFirst || this.#next !== ']'; isFirst = false) {
      if (this.#next === '') throw new ExpressionFault('has a [ without its ]')
      const from = this.#member()
      if (typeof from === 'function') {
        tests.push(from)
        continue
      }
      const isRange = this.#next === '-' && this.#source.charAt(this.#at + 1) !== ']'
      if (isRange) this.#at++
      const to = isRange ? this.#member() : from
      if (typeof to === 'function' || to < from) throw new ExpressionFault('has a range that is none')
      tests.push(this.#ignoresCase ? rangeInAnyCase(from, to) : (code) => code >= from && code <= to)
    }
    this.#at++
    const isIn: CharacterTest = (code) => tests.some((test) => test(code))
    return { kind: 'character', test: negated ? (code) => !isIn(code) : isIn }
  }

  /** A character of a class by its code, or a class in it. */
  #member(): number | CharacterTest {
    const character = this.#next
    this.#at++
    const code = character.charCodeAt(0)
    if (code >= 0xd800 && code <= 0xdfff)
      throw new ExpressionFault('has a character beyond U+FFFF in a class')
    if (character !== '\\') return code
    const escaped = this.#next
    this.#at++
    return classes[escaped] ?? characterOf(escaped).charCodeAt(0)
  }
}

function rangeInAnyCase(from: number, to: number): CharacterTest {
  const isIn = (code: number) => code >= from && code <= to
  return (code) => {
    if (isIn(code)) return true
    const character = String.fromCharCode(code)
    return isIn(character.toLowerCase().charCodeAt(0)) || isIn(character.toUpperCase().charCodeAt(0))
  }
}

const isDigit: CharacterTest = (code) => code >= 48 && code <= 57
const isWord: CharacterTest = (code) =>
  isDigit(code) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95
const isSpace: CharacterTest = (code) => /\s/.test(String.fromCharCode(code))

const classes: Readonly<Record<string, CharacterTest | undefined>> = {
  d: isDigit,
  D: (code) => !isDigit(code),
  w: isWord,
  W: (code) => !isWord(code),
  s: isSpace,
  S: (code) => !isSpace(code),
}

const escapes: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', f: '\f', v: '\v', 0: '\0' }

function characterOf(escaped: string): string {
  if (escaped === '') throw new ExpressionFault('ends in a backslash')
  const control = escapes[escaped]
  if (control !== undefined) return control
  if (/[1-9a-zA-Z]/.test(escaped)) throw new ExpressionFault(`has \\${escaped}, which is not taken`)
  return escaped
}

function mayBeEmpty(node: Node): boolean {
  switch (node.kind) {
    case 'character':
      return false
    case 'boundary':
      return true
    case 'sequence':
      return node.parts.every(mayBeEmpty)
    case 'choice':
      return node.parts.some(mayBeEmpty)
    case 'repeat':
      return node.least === 0 || mayBeEmpty(node.part)
    default:
      return node satisfies never
  }
}

function write(node: Node, program: Instruction[]): void {
  if (program.length > mostInstructions)
    throw new ExpressionFault('is too large, with its repetitions written out')
  switch (node.kind) {
    case 'character':
    case 'boundary':
      program.push(node)
      return
    case 'sequence':
      for (const part of node.parts) write(part, program)
      return
    case 'choice':
      return writeChoice(node.parts, program)
    case 'repeat':
      return writeRepeat(node, program)
    default:
      return node satisfies never
  }
}

function writeChoice(parts: readonly Node[], program: Instruction[]): void {
  const split = { kind: 'split' as const, to: [] as number[] }
  program.push(split)
  const ends: { to: number[] }[] = []
  for (const part of parts) {
    split.to.push(program.length)
    write(part, program)
    const end = { kind: 'split' as const, to: [] as number[] }
    program.push(end)
    ends.push(end)
  }
  for (const end of ends) end.to.push(program.length)
}

function writeRepeat({ part, least, most }: Extract<Node, { kind: 'repeat' }>, program: Instruction[]): void {
  for (let times = 0; times < least; times++) write(part, program)
  if (most === Number.POSITIVE_INFINITY) {
    const at = program.length
    const split = { kind: 'split' as const, to: [at + 1] }
    program.push(split)
    write(part, program)
    program.push({ kind: 'split', to: [at] })
    split.to.push(program.length)
    return
  }
  const leaving: { to: number[] }[] = []
  for (let times = least; times < most; times++) {
    const split = { kind: 'split' as const, to: [program.length + 1] }
    program.push(split)
    leaving.push(split)
    write(part, program)
  }
  for (const split of leaving) split.to.push(program.length)
}

/** Of a longer match the last so many characters count: nobody waits for the end of one that has none. */
const longestMatch = 1_000

export interface TextSpan {
  readonly from: number
  readonly to: number
}

/**
 * Looks for all that an expression matches in a text that comes in pieces. Whatever any match covers is found: of
 * matches that overlap one span is made. Positions count from the beginning of the whole text, UTF-16 units.
 */
export class ExpressionScan {
  readonly #program: readonly Instruction[]
  /** Instructions that wait for the next character, and where their match began, which never falls. */
  #states: number[] = []
  #starts: number[] = []
  /** In which step an instruction was reached last. */
  readonly #reached: Int32Array
  #step = 0
  #at = 0
  #before = -1
  /** In order, and not yet given: further matches may still join them. */
  readonly #spans: { from: number; to: number }[] = []

  constructor({ program }: Expression) {
    this.#program = program
    this.#reached = new Int32Array(program.length)
  }

  /** Whatever is before this position is decided. */
  get decided(): number {
    return Math.min(this.#firstOpen, this.#spans[0]?.from ?? this.#at)
  }

  /** Where the first match begins that may still go on. */
  get #firstOpen(): number {
    return this.#starts[0] ?? this.#at
  }

  /** Reads on; gives the spans that are complete, in order. */
  push(text: string): readonly TextSpan[] {
    for (let index = 0; index < text.length; index++) this.#read(text.charCodeAt(index))
    const open = this.#firstOpen
    const complete = this.#spans.findIndex(({ to }) => to > open)
    return this.#spans.splice(0, complete === -1 ? this.#spans.length : complete)
  }

  /** The text is over. */
  end(): readonly TextSpan[] {
    this.#close(-1)
    this.#states = []
    this.#starts = []
    return this.#spans.splice(0)
  }

  #read(code: number): void {
    const waiting = this.#close(code)
    const states: number[] = []
    const starts: number[] = []
    const oldest = this.#at + 1 - longestMatch
    for (let index = 0; index < waiting.states.length; index++) {
      const at = waiting.states[index]!
      const instruction = this.#program[at]!
      if (instruction.kind !== 'character' || !instruction.test(code)) continue
      states.push(at + 1)
      starts.push(Math.max(oldest, waiting.starts[index]!))
    }
    this.#states = states
    this.#starts = starts
    this.#before = code
    this.#at++
  }

  /** Follows what takes no character, up to what waits for `next`, in the order of their starts; notes matches. */
  #close(next: number): { readonly states: number[]; readonly starts: number[] } {
    this.#step++
    const states: number[] = []
    const starts: number[] = []
    const isBoundary = isWord(this.#before) !== isWord(next)
    const stack: number[] = []
    for (let index = 0; index <= this.#states.length; index++) {
      const isNew = index === this.#states.length
      if (isNew && next < 0) break
      const start = isNew ? this.#at : this.#starts[index]!
      stack.push(isNew ? 0 : this.#states[index]!)
      while (stack.length > 0) {
        const at = stack.pop()!
        if (this.#reached[at] === this.#step) continue
        this.#reached[at] = this.#step
        const instruction = this.#program[at]!
        if (instruction.kind === 'split') stack.push(...instruction.to)
        else if (instruction.kind === 'match') this.#note(start)
        else if (instruction.kind === 'character') {
          states.push(at)
          starts.push(start)
        } else if (isBoundary !== instruction.negated) stack.push(at + 1)
      }
    }
    return { states, starts }
  }

  #note(start: number): void {
    let from = start
    for (let last = this.#spans.at(-1); last !== undefined && from < last.to; last = this.#spans.at(-1)) {
      from = Math.min(from, last.from)
      this.#spans.pop()
    }
    if (from < this.#at) this.#spans.push({ from, to: this.#at })
  }
}
