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
 * Splits a text into the pieces that are streamed, each of which counts as one token: words with the white space
 * before them, cut after 16 characters. Joined, they are the text again.
 */
export function wordPieces(text: string): readonly string[] {
  return text.match(/\s*\S{1,16}|\s+/gu) ?? []
}

/** JSON text in pieces of 12 characters, as providers cut arguments anywhere. */
export function jsonPieces(json: string): readonly string[] {
  return json.match(/[^]{1,12}/gu) ?? []
}
