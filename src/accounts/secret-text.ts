// The form of bearer secrets: `<prefix>-<kind>-<id>-<secret><checksum>`; some forms have no kind.

import { randomBytes } from 'node:crypto'

export interface SecretForm {
  readonly prefix: string
  readonly hasKind: boolean
  /** Matches texts of this form. */
  readonly pattern: RegExp
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const idLength = 12
/** 33 characters of 62 are 196 bits. */
const secretLength = 33
const checksumLength = 6

/** `kinds` is empty for a form without kinds. */
export function secretForm(prefix: string, kinds: readonly string[]): SecretForm {
  const hasKind = kinds.length > 0
  const kind = hasKind ? `(?:${kinds.join('|')})-` : ''
  const characters = '[0-9A-Za-z]'
  const secret = `${characters}{${secretLength + checksumLength}}`
  const pattern = new RegExp(`^${prefix}-${kind}${characters}{${idLength}}-${secret}$`)
  return { prefix, hasKind, pattern }
}

/** Generates a secret from the system's random source, and its id for lookups unless it is given. */
export function mintSecret(
  form: SecretForm,
  kind?: string,
  id: string = randomText(idLength),
): { readonly id: string; readonly text: string } {
  const body = [form.prefix, ...(kind === undefined ? [] : [kind]), id, randomText(secretLength)].join('-')
  return { id, text: body + checksumOf(body) }
}

/** The id of a secret that is made once for this text: the same text has the same id. */
export function idFor(text: string): string {
  let rest = BigInt(`0x${Bun.SHA256.hash(text, 'hex')}`)
  let id = ''
  while (id.length < idLength) {
    id += alphabet[Number(rest % 62n)]!
    rest /= 62n
  }
  return id
}

/** The kind and id in a presented text, or why it is invalid: another `form`, or a mistyped `checksum`. */
export function readSecret(
  form: SecretForm,
  text: string,
): { readonly kind: string | undefined; readonly id: string } | 'form' | 'checksum' {
  // Every call reads one: the ends of its parts are known, and groups of the pattern would be copies of all of them.
  if (!form.pattern.test(text)) return 'form'
  if (!endsWithChecksum(text)) return 'checksum'
  const idEnd = text.length - 1 - secretLength - checksumLength
  const idStart = idEnd - idLength
  const kind = form.hasKind ? text.slice(form.prefix.length + 1, idStart - 1) : undefined
  return { kind, id: text.slice(idStart, idEnd) }
}

/** CRC-32 in base 62, six digits, for secret scanners. */
function checksumOf(body: string): string {
  let rest = Bun.hash.crc32(body)
  let digits = ''
  for (let at = 0; at < checksumLength; at++) {
    digits = alphabet[rest % 62]! + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Whether the last six characters are the checksum of those before. */
function endsWithChecksum(text: string): boolean {
  const bodyLength = text.length - checksumLength
  let rest = Bun.hash.crc32(text.slice(0, bodyLength))
  for (let at = text.length - 1; at >= bodyLength; at--) {
    if (text[at] !== alphabet[rest % 62]) return false
    rest = Math.floor(rest / 62)
  }
  return true
}

/** How the keys of this gateway begin, mistyped ones too. */
const anySecret = new RegExp(`\\b(?:sk|ws|mk)-weir(?:-[a-z]+)?-([0-9A-Za-z]{${idLength}})-`)

/** The public id of a key in the headers of a request; undefined without one. */
export function publicIdIn(headers: Headers): string | undefined {
  for (const name of ['authorization', 'x-api-key', 'x-goog-api-key']) {
    const id = anySecret.exec(headers.get(name)?.slice(0, 200) ?? '')?.[1]
    if (id !== undefined) return id
  }
  return undefined
}

/** Unbiased random characters: bytes beyond the last multiple of 62 are discarded. */
function randomText(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length))
      if (byte < 248 && text.length < length) text += alphabet[byte % 62]!
  }
  return text
}
