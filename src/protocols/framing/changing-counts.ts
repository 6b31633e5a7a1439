// JSON that is the same in the frames of a stream except for some counts.

const zero = 0x30
const nine = 0x39
/** A number holds no more digits exactly. */
const mostDigits = 15

export class ChangingCounts {
  /** The counts in the frame that this was learnt from. */
  readonly learnt: readonly number[]
  /** The JSON before, between and after the counts. */
  readonly #fixed: readonly string[]
  /** The counts that were taken last. */
  values: number[] = []
  /** Where `isAt` has ended, and what it has read. */
  end = 0
  #read: number[] = []

  private constructor(fixed: readonly string[], learnt: readonly number[]) {
    this.#fixed = fixed
    this.learnt = learnt
  }

  /**
   * Learns the JSON of an object between two places. Undefined unless it has the counts of these names, in this order,
   * and the rest of the object does not have them.
   */
  static learn(
    json: string,
    start: number,
    end: number,
    names: readonly string[],
  ): ChangingCounts | undefined {
    const fixed: string[] = []
    const learnt: number[] = []
    let from = start
    for (const name of names) {
      const key = `"${name}"`
      const at = json.indexOf(key)
      if (at < from || json.includes(key, at + 1)) return undefined
      let digits = at + key.length
      while (json[digits] === ' ' || json[digits] === ':') digits++
      let after = digits
      while (isDigit(json.charCodeAt(after))) after++
      if (after === digits) return undefined
      fixed.push(json.slice(from, digits))
      learnt.push(Number(json.slice(digits, after)))
      from = after
    }
    return new ChangingCounts([...fixed, json.slice(from, end)], learnt)
  }

  /** Whether this JSON is in `text` from `from` on, with any counts. */
  isAt(text: string, from: number): boolean {
    const fixed = this.#fixed
    if (!text.startsWith(fixed[0]!, from)) return false
    let at = from + fixed[0]!.length
    for (let next = 1; next < fixed.length; next++) {
      const start = at
      let count = 0
      for (let code = text.charCodeAt(at); isDigit(code); code = text.charCodeAt(++at))
        count = count * 10 + code - zero
      const digits = at - start
      // JSON has no leading zeros.
      if (digits === 0 || digits > mostDigits || (digits > 1 && text.charCodeAt(start) === zero)) return false
      if (!text.startsWith(fixed[next]!, at)) return false
      at += fixed[next]!.length
      this.#read[next - 1] = count
    }
    this.end = at
    return true
  }

  /** Whether the first count has grown since those that were taken last. */
  get hasGrown(): boolean {
    return this.#read[0]! > this.values[0]!
  }

  /** Takes the counts that were read. */
  take(): void {
    const { values } = this
    this.values = this.#read
    this.#read = values
  }
}

function isDigit(code: number): boolean {
  return code >= zero && code <= nine
}
