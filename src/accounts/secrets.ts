// Encrypts secrets of accounts at rest: AES-256-GCM under the operator's master key, bound to their row.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

export interface Sealer {
  /** `context` names the row; the secret cannot be opened in any other. */
  seal(text: string, context: string): Uint8Array
  /** undefined if it was sealed with a key that has been removed, for another row, or not by us. */
  open(sealed: Uint8Array, context: string): string | undefined
}

const format = 1
const idBytes = 4
const nonceBytes = 12
const tagBytes = 16
const headBytes = 1 + idBytes + nonceBytes

interface MasterKey {
  readonly id: Buffer
  readonly key: Buffer
}

/** The first key seals; all of them open, so that keys can be rotated. Takes at least one. */
export function sealer(masterKeys: readonly string[]): Sealer {
  const keys = masterKeys.map(masterKey)
  const [first] = keys
  if (!first) throw new Error('there is no master key')
  return {
    seal(text, context) {
      const nonce = randomBytes(nonceBytes)
      const head = Buffer.concat([Buffer.of(format), first.id, nonce])
      const cipher = createCipheriv('aes-256-gcm', first.key, nonce)
      cipher.setAAD(boundTo(head, context))
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([head, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      if (bytes.length < headBytes + tagBytes || bytes[0] !== format) return undefined
      const head = bytes.subarray(0, headBytes)
      const known = keys.find(({ id }) => id.equals(head.subarray(1, 1 + idBytes)))
      if (!known) return undefined
      const decipher = createDecipheriv('aes-256-gcm', known.key, head.subarray(1 + idBytes))
      decipher.setAAD(boundTo(head, context))
      decipher.setAuthTag(bytes.subarray(headBytes, headBytes + tagBytes))
      try {
        return (
          decipher.update(bytes.subarray(headBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8')
        )
      } catch {
        return undefined
      }
    },
  }
}

function masterKey(text: string): MasterKey {
  const key = digest(`weir master key\0${text}`)
  return { key, id: digest(key).subarray(0, idBytes) }
}

function boundTo(head: Buffer, context: string): Buffer {
  return Buffer.concat([head, Buffer.from(context, 'utf8')])
}

function digest(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest()
}

// The form of bearer secrets: `<prefix>-<kind>-<id>-<secret><checksum>`; some forms have no kind.

interface SecretForm {
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
