// The form of bearer secrets: `<prefix>-<kind>-<id>-<secret><checksum>`, where a form without kinds leaves the kind out.

import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

export interface SecretForm {
  readonly prefix: string
  /** Empty for secrets that are all of one kind. */
  readonly kinds: readonly string[]
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const idLength = 12
/** 33 characters of 62 are 196 bits. */
const secretLength = 33
const checksumLength = 6

/** A new secret from the system's random source, and its id: the part that a lookup goes by. */
export function mintSecret(form: SecretForm, kind?: string): { readonly id: string; readonly text: string } {
  const id = randomText(idLength)
  const body = [form.prefix, ...(kind === undefined ? [] : [kind]), id, randomText(secretLength)].join('-')
  return { id, text: body + checksumOf(body) }
}

/**
 * The kind and id that a presented text names; or why it is none of this form: `form` when it looks different
 * altogether, `checksum` when it was mistyped.
 */
export function readSecret(
  { prefix, kinds }: SecretForm,
  text: string,
): { readonly kind: string | undefined; readonly id: string } | 'form' | 'checksum' {
  const parts = text.split('-')
  const before = prefix.split('-')
  if (!before.every((word, at) => parts[at] === word)) return 'form'
  const [kind, id, secret, ...rest] = [
    ...(kinds.length === 0 ? [undefined] : []),
    ...parts.slice(before.length),
  ]
  if (id === undefined || secret === undefined || rest.length > 0) return 'form'
  if (kinds.length > 0 && (kind === undefined || !kinds.includes(kind))) return 'form'
  const plain = /^[0-9A-Za-z]+$/
  if (id.length !== idLength || secret.length !== secretLength + checksumLength) return 'form'
  if (!plain.test(id) || !plain.test(secret)) return 'form'
  if (checksumOf(text.slice(0, -checksumLength)) !== secret.slice(-checksumLength)) return 'checksum'
  return { kind, id }
}

/** CRC-32 in base 62, six digits: what secret scanners check before they raise an alarm. */
function checksumOf(body: string): string {
  let rest = crc32(body)
  let digits = ''
  for (let at = 0; at < checksumLength; at++) {
    digits = alphabet[rest % 62]! + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** Random characters without bias: bytes beyond the last multiple of 62 are thrown away. */
function randomText(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length))
      if (byte < 248 && text.length < length) text += alphabet[byte % 62]!
  }
  return text
}
