// Token counts of the simulated provider: a prompt's by its bytes, an answer's by its streamed pieces.

/** Tokens of a message beside its text, for role and separators. */
const perMessage = 3
const bytesPerToken = 4

/** Tokens of an image, by the `detail` the client asked for. */
const imageTokens: Readonly<Record<string, number>> = { low: 85, auto: 255, high: 765, original: 1105 }

/** Tokens of a text that is read: a quarter of its UTF-8 bytes, rounded up. */
export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text, 'utf8') / bytesPerToken)
}

export function messageTokens(text: string): number {
  return textTokens(text) + perMessage
}

export function imageTokensOf(detail: string | undefined): number {
  return imageTokens[detail ?? 'auto'] ?? imageTokens['auto']!
}

/** Tokens of inline media in base64: one for each 64 decoded bytes. */
export function mediaTokens(base64: string): number {
  return Math.ceil((base64.length * 3) / 4 / 64)
}

/**
 * A text in the pieces that are streamed, each of which counts as one token. They are made when they are read: a
 * hundred thousand strings for each of a thousand slow clients would fill the memory.
 */
export class Pieces implements Iterable<string> {
  /** All of them joined. */
  readonly text: string
  readonly length: number
  readonly #pattern: RegExp

  /** The first `most` matches of the pattern, which leaves nothing out between them. */
  constructor(text: string, pattern: RegExp, most: number) {
    this.#pattern = pattern
    const next = new RegExp(pattern)
    let [length, end] = [0, 0]
    while (length < most && next.test(text)) {
      length++
      end = next.lastIndex
    }
    this.text = end === text.length ? text : text.slice(0, end)
    this.length = length
  }

  *[Symbol.iterator](): Generator<string, void> {
    const next = new RegExp(this.#pattern)
    for (let from = 0; next.test(this.text); from = next.lastIndex)
      yield this.text.slice(from, next.lastIndex)
  }
}

/** At most `most` words with the white space before them, cut after 16 characters. */
export function wordPieces(text: string, most: number): Pieces {
  return new Pieces(text, /\s*\S{1,16}|\s+/gu, most)
}

/** JSON text in pieces of 12 characters, as providers cut arguments anywhere. */
export function jsonPieces(json: string): Pieces {
  return new Pieces(json, /[^]{1,12}/gu, Number.POSITIVE_INFINITY)
}
