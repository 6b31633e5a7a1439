// Signatures in the form of minisign (https://jedisct1.github.io/minisign/): what it signs we verify, and the reverse.

import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  scryptSync,
  sign,
  verify,
} from 'node:crypto'
import { z } from 'zod'

export interface PublicKey {
  /** 8 bytes, hex: tells keys apart, and proves nothing. */
  readonly id: string
  readonly key: KeyObject
}

export interface SecretKey {
  readonly id: string
  readonly key: KeyObject
}

/** A file is not what it is taken for, or a signature does not hold. */
export class SignatureFault extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'SignatureFault'
  }
}

// DER, up to the 32 bytes of the key.
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex')
const secretPrefix = Buffer.from('302e020100300506032b657004220420', 'hex')

const keyIdBytes = 8
const signatureBytes = 64

/** The bytes of a base64 line; undefined for any other text. */
function bytesOf(line: string | undefined, length: number): Buffer | undefined {
  if (line === undefined || !/^[A-Za-z\d+/]+={0,2}$/.test(line)) return undefined
  const bytes = Buffer.from(line, 'base64')
  return bytes.length === length ? bytes : undefined
}

function linesOf(text: string): string[] {
  return text.split('\n').map((line) => line.replace(/\r$/, ''))
}

/** Reads a public key: the file of two lines, or its second line alone. Throws SignatureFault. */
export function readPublicKey(text: string): PublicKey {
  const line = linesOf(text.trim()).findLast((one) => one !== '')
  const bytes = bytesOf(line, 2 + keyIdBytes + 32)
  if (bytes === undefined || bytes.toString('latin1', 0, 2) !== 'Ed')
    throw new SignatureFault('this is no public key of minisign')
  const der = Buffer.concat([publicPrefix, bytes.subarray(2 + keyIdBytes)])
  return {
    id: bytes.toString('hex', 2, 2 + keyIdBytes),
    key: createPublicKey({ key: der, format: 'der', type: 'spki' }),
  }
}

/** The secret key's file has this much behind its comment. */
const secretFileBytes = 2 + 2 + 2 + 32 + 8 + 8 + keyIdBytes + 64 + 32
const noKdf = Buffer.from([0, 0])
/** minisign's own keys take 1 GiB to open. */
const mostKdfBytes = 1.25 * 2 ** 30

/**
 * Reads a secret key, as minisign writes it. One with a password needs it; one without (`minisign -W`) takes
 * none. Throws SignatureFault.
 */
export function readSecretKey(text: string, password: string | undefined): SecretKey {
  const bytes = bytesOf(
    linesOf(text.trim()).findLast((one) => one !== ''),
    secretFileBytes,
  )
  if (bytes === undefined || bytes.toString('latin1', 0, 2) !== 'Ed')
    throw new SignatureFault('this is no secret key of minisign')
  const kdf = bytes.subarray(2, 4)
  const salt = bytes.subarray(6, 38)
  const work = bytes.readBigUInt64LE(38)
  const memory = bytes.readBigUInt64LE(46)
  let secret = bytes.subarray(54)
  if (!kdf.equals(noKdf)) {
    if (kdf.toString('latin1') !== 'Sc')
      throw new SignatureFault('this secret key is protected in an unknown way')
    if (password === undefined) throw new SignatureFault('this secret key needs its password')
    const stream = keyStream(password, salt, Number(work), Number(memory), secret.length)
    secret = Buffer.from(secret.map((byte, at) => byte ^ stream[at]!))
  }
  const id = secret.subarray(0, keyIdBytes)
  const seed = secret.subarray(keyIdBytes, keyIdBytes + 32)
  const pair = secret.subarray(keyIdBytes, keyIdBytes + 64)
  const der = Buffer.concat([secretPrefix, seed])
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  // The file has both halves of the pair: they fit if the password was right.
  if (!openHalf(key).equals(pair.subarray(32)))
    throw new SignatureFault('the password of the secret key is wrong')
  return { id: id.toString('hex'), key }
}

/** libsodium's choice of scrypt's parameters. */
function keyStream(password: string, salt: Buffer, work: number, memory: number, length: number): Buffer {
  const operations = Math.max(work, 32_768)
  const r = 8
  const limit = operations < memory / 32 ? operations / (r * 4) : memory / (r * 128)
  let log = 1
  while (log < 63 && 2 ** log <= limit / 2) log++
  const cost = 2 ** log
  const p = operations < memory / 32 ? 1 : Math.floor(Math.min(operations / 4 / cost, 0x3fffffff) / r)
  if (128 * cost * r > mostKdfBytes) throw new SignatureFault('this secret key asks for too much memory')
  return scryptSync(password, salt, length, { N: cost, r, p, maxmem: 128 * cost * r + 64 * 2 ** 20 })
}

/** The public key of a secret one, as a file. */
export function publicTextOf({ id, key }: SecretKey): string {
  const encoded = Buffer.concat([
    Buffer.from('Ed', 'latin1'),
    Buffer.from(id, 'hex'),
    openHalf(key),
  ]).toString('base64')
  const name = Buffer.from(Buffer.from(id, 'hex').toReversed()).toString('hex').toUpperCase()
  return `untrusted comment: minisign public key ${name}\n${encoded}\n`
}

function openHalf(key: KeyObject): Buffer {
  return createPublicKey(key.export({ format: 'pem', type: 'pkcs8' }))
    .export({ format: 'der', type: 'spki' })
    .subarray(-32)
}

/** Signs bytes; the trusted comment, of one line, is signed with them. The same input gives the same text. */
export function signatureOf(bytes: Uint8Array, { id, key }: SecretKey, trustedComment: string): string {
  if (/[\r\n]/.test(trustedComment)) throw new SignatureFault('a trusted comment has one line')
  const signature = sign(null, createHash('blake2b512').update(bytes).digest(), key)
  const whole = sign(null, Buffer.concat([signature, Buffer.from(trustedComment)]), key)
  const head = Buffer.concat([Buffer.from('ED', 'latin1'), Buffer.from(id, 'hex'), signature])
  return (
    'untrusted comment: signature from minisign secret key\n' +
    `${head.toString('base64')}\ntrusted comment: ${trustedComment}\n${whole.toString('base64')}\n`
  )
}

/** Checks a signature of bytes and gives its trusted comment. Throws SignatureFault with the reason if it does not hold. */
export function verifySignature(bytes: Uint8Array, signatureText: string, { id, key }: PublicKey): string {
  const [, encoded, comment = '', encodedWhole] = linesOf(signatureText)
  const head = bytesOf(encoded, 2 + keyIdBytes + signatureBytes)
  const whole = bytesOf(encodedWhole, signatureBytes)
  const prefix = 'trusted comment: '
  if (head === undefined || whole === undefined || !comment.startsWith(prefix))
    throw new SignatureFault('this is no signature of minisign')
  const algorithm = head.toString('latin1', 0, 2)
  if (algorithm !== 'ED' && algorithm !== 'Ed')
    throw new SignatureFault('the signature is of an unknown kind')
  const signedBy = head.toString('hex', 2, 2 + keyIdBytes)
  if (signedBy !== id) throw new SignatureFault('the signature was made with another key')
  const signature = head.subarray(2 + keyIdBytes)
  // Old signatures are of the bytes themselves, today's of their hash.
  const message = algorithm === 'Ed' ? bytes : createHash('blake2b512').update(bytes).digest()
  const trusted = comment.slice(prefix.length)
  if (!verify(null, message, key, signature))
    throw new SignatureFault('the signature does not hold: the file was changed')
  if (!verify(null, Buffer.concat([signature, Buffer.from(trusted)]), key, whole))
    throw new SignatureFault('the comment of the signature was changed')
  return trusted
}

// The index of a release, `release.json`: what `weir upgrade` reads of it, once SHA256SUMS has been proven.

export const releaseIndex = z.object({
  version: z.string().regex(/^\d+\.\d+\.\d+(-[\w.]+)?$/),
  commit: z.string(),
  /** The version of the database that this program writes. */
  schema: z.int(),
  files: z.array(
    z.object({ name: z.string(), kind: z.string(), target: z.string().nullable(), bytes: z.int() }),
  ),
})

export type ReleaseIndex = z.output<typeof releaseIndex>

/** The SHA-256 of each file that a SHA256SUMS names, hex. */
export function sumsIn(text: string): ReadonlyMap<string, string> {
  return new Map([...text.matchAll(/^([0-9a-f]{64}) [ *](\S+)$/gm)].map(([, sum, name]) => [name!, sum!]))
}
