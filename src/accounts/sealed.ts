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
