// Writes Amazon's binary framing, for what no recording holds.

import { crc32 } from 'node:zlib'

/** One message with these headers: strings by name, or raw bytes. */
export function message(
  headers: Readonly<Record<string, string>> | readonly Uint8Array[],
  payload: string,
): Uint8Array {
  const list = Array.isArray(headers)
    ? (headers as readonly Uint8Array[])
    : Object.entries(headers as Record<string, string>).map(([name, value]) => textHeader(name, value))
  const head = Buffer.concat([...list])
  const body = Buffer.from(payload)
  const bytes = Buffer.alloc(12 + head.length + body.length + 4)
  bytes.writeUInt32BE(bytes.length, 0)
  bytes.writeUInt32BE(head.length, 4)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8)
  head.copy(bytes, 12)
  body.copy(bytes, 12 + head.length)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, bytes.length - 4)), bytes.length - 4)
  return new Uint8Array(bytes)
}

export function textHeader(name: string, value: string): Uint8Array {
  const size = Buffer.alloc(2)
  size.writeUInt16BE(Buffer.byteLength(value))
  return Buffer.concat([
    Buffer.from([Buffer.byteLength(name)]),
    Buffer.from(name),
    Buffer.from([7]),
    size,
    Buffer.from(value),
  ])
}
