// E-mail addresses: syntax and normalisation.

import { domainToASCII, domainToUnicode } from 'node:url'
import { GatewayError } from '../../errors.ts'

/** RFC 5322 `atext`, letters of any script (RFC 6531), and dots. Quoted names and comments would be other spellings. */
const plainName = /^[\p{L}\p{M}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}$/u
const plainDomain = /^[\p{L}\p{M}\p{N}_-]+(?:\.[\p{L}\p{M}\p{N}_-]+)*$/u
const longestDomain = 190

/**
 * Whether a text looks like an e-mail address; only a mail can prove that it is one. There is one spelling of each: in
 * another, such as `x,anna@example.org` or a domain with invisible characters, one mailbox would open many accounts.
 */
export function isAddress(text: string): boolean {
  const at = text.lastIndexOf('@')
  const domain = text.slice(at + 1).toLowerCase()
  const isPlain = domain.length <= longestDomain && plainDomain.test(domain)
  return isPlain && plainName.test(text.slice(0, Math.max(at, 0))) && isRegistered(domain)
}

/** Whether a domain is written as in the name system: mail servers map every other form to one of these. */
function isRegistered(domain: string): boolean {
  const ascii = domainToASCII(domain)
  return domain === ascii || domain === domainToUnicode(ascii)
}

/** Normalises an address: those that differ only in case and blanks are the same account. */
export function accountAddress(text: string): string {
  return text.trim().toLowerCase()
}

/** The normalised address. Throws `invalid_request` for a text that is none. */
export function requireAddress(text: string): string {
  if (isAddress(text.trim())) return accountAddress(text)
  throw new GatewayError('invalid_request', { message: 'This is no e-mail address.', param: 'email' })
}

const gmail = new Set(['gmail.com', 'googlemail.com'])

/**
 * Identifies the person behind an address, for credit that is given once: the SHA-256, hex, of the address without its
 * `+tag`, and for Gmail without dots.
 */
export function personOf(email: string): string {
  const address = accountAddress(email).normalize('NFKC').toLowerCase()
  const at = address.lastIndexOf('@')
  const written = address.slice(at + 1)
  const domain = domainToUnicode(domainToASCII(written)) || written
  const name = address.slice(0, at).replace(/(.)\+.*$/s, '$1')
  const plain = gmail.has(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
  return Bun.SHA256.hash(plain, 'hex')
}
