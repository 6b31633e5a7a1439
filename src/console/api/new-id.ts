/**
 * A random id of 128 bits, in hexadecimal. Browsers have `crypto.randomUUID` on secure origins only, and a console in a
 * private network may be served over plain HTTP.
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
