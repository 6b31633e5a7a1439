// A running estimate of the tokens of a text that comes in pieces: one pass over its characters, no vocabulary.

/** Tokens that one UTF-16 code unit makes on average, by script; fitted to o200k_base. */
const scripts: readonly { readonly upTo: number; readonly tokens: number }[] = [
  { upTo: 0x24f, tokens: 0.45 }, // Latin letters beyond ASCII
  { upTo: 0x36f, tokens: 0.6 },
  { upTo: 0x3ff, tokens: 0.44 }, // Greek
  { upTo: 0x52f, tokens: 0.33 }, // Cyrillic
  { upTo: 0x58f, tokens: 0.5 }, // Armenian
  { upTo: 0x5ff, tokens: 0.46 }, // Hebrew
  { upTo: 0x6ff, tokens: 0.37 }, // Arabic
  { upTo: 0x8ff, tokens: 0.6 },
  { upTo: 0xdff, tokens: 0.37 }, // the scripts of India
  { upTo: 0xe7f, tokens: 0.5 }, // Thai
  { upTo: 0x1fff, tokens: 0.6 },
  { upTo: 0x2fff, tokens: 0.9 }, // punctuation, symbols, variation selectors
  { upTo: 0x30ff, tokens: 0.75 }, // Kana
  { upTo: 0xabff, tokens: 0.87 }, // Han
  { upTo: 0xd7ff, tokens: 0.85 }, // Hangul
  { upTo: 0xffff, tokens: 0.9 }, // halves of emoji, full-width forms
]

// ASCII is read by runs: a word is about one token however long, up to a point; digits go three to a token.
const perWord = 1
const perInnerWord = 1.3
const longWord = 6
const perFurtherLetter = 0.35
const perDigit = 0.33
const perNumber = 1.7
const perSign = 0.25
const perLine = 1.5

// What an ASCII character is.
const space = 0
const lower = 1
const upper = 2
const digit = 3
const sign = 4
const line = 5
const kinds = Uint8Array.from({ length: 128 }, (_, code) => kindOf(String.fromCharCode(code)))

function kindOf(character: string): number {
  if (character === '\n') return line
  if (/[a-z]/.test(character)) return lower
  if (/[A-Z]/.test(character)) return upper
  if (/\d/.test(character)) return digit
  return /\s/.test(character) ? space : sign
}

/** A text of at most so many characters is read as a whole. */
const readWhole = 1024 ** 2
/** Characters of a stretch of a longer one. */
const stretch = 4_096

export class RunningTokens {
  #tokens = 0
  #last = space
  /** Letters of the word that the text ends in. */
  #letters = 0

  /** The estimate so far; not rounded. */
  get tokens(): number {
    return this.#tokens
  }

  add(text: string): void {
    if (text.length <= readWhole) return this.#read(text)
    // A longer text, which only comes in one piece from a provider that sends megabytes, is sampled in this many
    // places.
    const before = this.#tokens
    const stride = stretch * Math.ceil(text.length / readWhole)
    let read = 0
    for (let at = 0; at < text.length; at += stride) {
      const some = text.slice(at, at + stretch)
      this.#read(some)
      read += some.length
    }
    this.#tokens = before + ((this.#tokens - before) * text.length) / read
  }

  #read(text: string): void {
    let tokens = this.#tokens
    let last = this.#last
    let letters = this.#letters
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      const kind = code < 128 ? kinds[code]! : sign
      if (kind === lower || kind === upper) {
        // A capital behind a small letter begins another word.
        const goesOn = last === upper || last === kind
        letters = goesOn ? letters + 1 : 1
        if (!goesOn) tokens += last === lower || last === digit ? perInnerWord : perWord
        else if (letters > longWord) tokens += perFurtherLetter
      } else if (kind === digit) tokens += last === digit ? perDigit : perDigit + perNumber
      else if (kind === line) tokens += perLine
      else if (kind === sign) tokens += code < 128 ? perSign : tokensOf(code)
      last = kind
    }
    this.#tokens = tokens
    this.#last = last
    this.#letters = letters
  }
}

function tokensOf(code: number): number {
  let at = 0
  while (code > scripts[at]!.upTo) at++
  return scripts[at]!.tokens
}
