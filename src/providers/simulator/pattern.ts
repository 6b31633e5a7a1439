// A text that a regular expression matches, found without running it: clients' patterns may take exponential time.

/** The limit for repetitions in a pattern. */
const mostRepeats = 256
const mostCharacters = 4096

/**
 * The shortest text that matches the pattern, taking the first alternative everywhere. Takes the source of an
 * expression in the subset that schemas use: literals, classes, escapes, groups, alternatives, quantifiers,
 * anchors. Gives undefined for anything else (look-around, back references, properties).
 */
export function sampleOf(pattern: string): string | undefined {
  const reader = new Reader(pattern)
  const sample = reader.alternatives(0)
  return sample === undefined || !reader.done || sample.length > mostCharacters ? undefined : sample
}

const escapes: Readonly<Record<string, string>> = {
  d: '0',
  w: 'a',
  s: ' ',
  D: 'a',
  W: '-',
  S: 'a',
  t: '\t',
  n: '\n',
  r: '\r',
}
/** Tried in this order for a class that names what it excludes. */
const candidates = 'a0-A_ .z9Z!'
const sets: Readonly<Record<string, string>> = {
  d: '09',
  w: 'a0A_z9Z',
  s: ' ',
  D: 'a-A_ .zZ!',
  W: '- .!',
  S: 'a0-A_.z9Z!',
}

class Reader {
  readonly #source: string
  #at = 0

  constructor(source: string) {
    this.#source = source
  }

  get done(): boolean {
    return this.#at >= this.#source.length
  }

  /** Reads `a|b|c` and returns a match of the first. */
  alternatives(depth: number): string | undefined {
    if (depth > 32) return undefined
    let first = this.#sequence(depth)
    while (first !== undefined && this.#take('|')) {
      if (this.#sequence(depth) === undefined) first = undefined
    }
    return first
  }

  #sequence(depth: number): string | undefined {
    let sample = ''
    while (!this.done && !this.#isNext('|') && !this.#isNext(')')) {
      const atom = this.#atom(depth)
      const times = this.#quantifier()
      if (atom === undefined || times === undefined) return undefined
      if (sample.length + atom.length * times > mostCharacters) return undefined
      sample += atom.repeat(times)
    }
    return sample
  }

  #atom(depth: number): string | undefined {
    const character = this.#next()
    switch (character) {
      case '^':
      case '$':
        return ''
      case '.':
        return 'a'
      case '(':
        return this.#group(depth)
      case '[':
        return this.#class()
      case '\\':
        return this.#escape()
      case '*':
      case '+':
      case '?':
        return undefined
      default:
        return character
    }
  }

  #group(depth: number): string | undefined {
    if (this.#take('?')) {
      if (this.#take('<')) {
        // A named group; `(?<=` and `(?<!` are lookbehinds, which are not supported.
        if (this.#isNext('=') || this.#isNext('!')) return undefined
        while (!this.done && this.#next() !== '>');
      } else if (!this.#take(':')) return undefined
    }
    const sample = this.alternatives(depth + 1)
    return this.#take(')') ? sample : undefined
  }

  #escape(): string | undefined {
    const letter = this.#next()
    if (letter === 'b') return ''
    if (/[pPuxkcB1-9]/.test(letter)) return undefined
    return Object.hasOwn(escapes, letter) ? escapes[letter] : letter
  }

  #class(): string | undefined {
    const negated = this.#take('^')
    const members: string[] = []
    while (!this.done && !this.#isNext(']')) {
      const set = this.#set()
      if (set !== undefined) {
        members.push(...set)
        continue
      }
      const member = this.#take('\\') ? this.#escape() : this.#next()
      if (member === undefined) return undefined
      members.push(member)
      if (this.#isNext('-') && this.#source[this.#at + 1] !== ']') {
        this.#next()
        const end = this.#take('\\') ? this.#escape() : this.#next()
        if (end === undefined) return undefined
        for (const each of candidates) if (each >= member && each <= end) members.push(each)
      }
    }
    if (!this.#take(']')) return undefined
    return negated ? [...candidates].find((each) => !members.includes(each)) : members[0]
  }

  /** The candidates in a set such as `\w`, where one comes next inside a class. */
  #set(): string | undefined {
    const set = this.#isNext('\\') ? sets[this.#source[this.#at + 1] ?? ''] : undefined
    if (set !== undefined) this.#at += 2
    return set
  }

  /** The number of repetitions of the atom before it; undefined for an invalid quantifier. */
  #quantifier(): number | undefined {
    const times = this.#bareQuantifier()
    // A lazy or possessive mark changes nothing about what matches.
    if (times.quantified) this.#take('?')
    return times.least > mostRepeats ? undefined : times.least
  }

  #bareQuantifier(): { least: number; quantified: boolean } {
    if (this.#take('*') || this.#take('?')) return { least: 0, quantified: true }
    if (this.#take('+')) return { least: 1, quantified: true }
    const braces = /^\{(\d{1,6})(,\d{0,6})?\}/.exec(this.#source.slice(this.#at, this.#at + 16))
    if (!braces) return { least: 1, quantified: false }
    this.#at += braces[0].length
    return { least: Number(braces[1]), quantified: true }
  }

  #isNext(character: string): boolean {
    return this.#source[this.#at] === character
  }

  #take(character: string): boolean {
    if (!this.#isNext(character)) return false
    this.#at += 1
    return true
  }

  #next(): string {
    return this.#source[this.#at++] ?? ''
  }
}
