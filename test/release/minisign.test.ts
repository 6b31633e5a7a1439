// Signatures of releases: what minisign signs is verified here, what is signed here minisign verifies, and nothing that was
// changed passes. The files in fixtures/release were made by minisign 0.11.

import { describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  publicTextOf,
  readPublicKey,
  readSecretKey,
  signatureOf,
  verifySignature,
} from '../../src/release/minisign.ts'
import { tempDir } from '../support/tmp.ts'

const folder = resolve(import.meta.dir, '../fixtures/release')
const text = (name: string) => readFileSync(`${folder}/${name}`, 'utf8')
const file = readFileSync(`${folder}/signed.txt`)
const signature = text('signed.txt.minisig')
const publicKey = readPublicKey(text('test.pub'))
const secretKey = readSecretKey(text('test.key'), undefined)

test('a signature of minisign holds, and gives its comment', () => {
  expect(verifySignature(file, signature, publicKey)).toBe('weir test')
  expect(publicTextOf(secretKey)).toBe(text('test.pub'))
  expect(readPublicKey(text('test.pub').split('\n')[1]!).id).toBe(publicKey.id)
})

test('what is signed here holds, here and for minisign, and is the same each time', async () => {
  const own = signatureOf(file, secretKey, 'weir 1.2.3')
  expect(signatureOf(file, secretKey, 'weir 1.2.3')).toBe(own)
  expect(verifySignature(file, own, publicKey)).toBe('weir 1.2.3')
  const minisign = Bun.which('minisign')
  if (minisign === null) return
  using dir = tempDir()
  writeFileSync(dir.join('a.minisig'), own)
  const words = ['-V', '-m', `${folder}/signed.txt`, '-x', dir.join('a.minisig'), '-p', `${folder}/test.pub`]
  expect(await Bun.spawn([minisign, ...words], { stdout: 'ignore', stderr: 'inherit' }).exited).toBe(0)
})

describe('nothing that was changed passes', () => {
  const [first = '', encoded = '', comment = '', whole = ''] = signature.split('\n')
  const flip = (line: string, at: number) => {
    const bytes = Buffer.from(line, 'base64')
    bytes[at] = bytes[at]! ^ 1
    return bytes.toString('base64')
  }
  const other = readPublicKey('RWS9Acauwovqb4SbTITlfU6Qr+ZwwhxRL3rO9pynFLSZ1jE9D21wmYCo')
  test.each([
    ['the file', Buffer.concat([file, Buffer.from('!')]), signature, publicKey, 'changed'],
    ['the signature', file, [first, flip(encoded, 40), comment, whole].join('\n'), publicKey, 'changed'],
    ['the comment', file, signature.replace('weir test', 'weir tests'), publicKey, 'comment'],
    [
      'the signature of the comment',
      file,
      [first, encoded, comment, flip(whole, 3)].join('\n'),
      publicKey,
      'comment',
    ],
    ['another key', file, signature, other, 'another key'],
    ['another kind', file, [first, flip(encoded, 1), comment, whole].join('\n'), publicKey, 'unknown kind'],
    ['cut short', file, [first, encoded].join('\n'), publicKey, 'no signature'],
    ['empty', file, '', publicKey, 'no signature'],
  ])('%s', (_, bytes, changed, key, reason) => {
    expect(() => verifySignature(bytes, changed, key)).toThrow(reason)
  })

  test('what is no key is refused', () => {
    for (const bad of ['', 'RWQ', text('test.key'), signature])
      expect(() => readPublicKey(bad)).toThrow('no public key')
    expect(() => readSecretKey(text('test.pub'), undefined)).toThrow('no secret key')
    expect(() => signatureOf(file, secretKey, 'two\nlines')).toThrow('one line')
  })
})
