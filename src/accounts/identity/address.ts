// E-mail addresses: syntax and normalisation.

import { domainToASCII, domainToUnicode } from 'node:url'
import { GatewayError } from '../../errors/errors.ts'

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

/** Services under several domains, or in whose names some signs mean nothing: what one mailbox can be written as. */
interface MailService {
  readonly domains: readonly string[]
  /** The name without what does not tell mailboxes apart. */
  readonly mailbox: (name: string) => string
}

const asWritten = (name: string) => name

const mailServices: readonly MailService[] = [
  { domains: ['gmail.com', 'googlemail.com'], mailbox: (name) => name.replaceAll('.', '') },
  {
    domains: ['proton.me', 'protonmail.com', 'protonmail.ch', 'pm.me'],
    mailbox: (name) => name.replaceAll(/[._-]/g, ''),
  },
  {
    domains: ['yandex.com', 'yandex.ru', 'yandex.by', 'yandex.kz', 'yandex.ua', 'ya.ru'],
    mailbox: (name) => name.replaceAll('.', '-'),
  },
  { domains: ['icloud.com', 'me.com', 'mac.com'], mailbox: asWritten },
  // Throw-away addresses are a name and a word of one's own with a hyphen between them, which no other address has.
  {
    domains: ['yahoo.com', 'yahoo.co.in', 'yahoo.in', 'yahoo.co.uk', 'ymail.com', 'rocketmail.com'],
    mailbox: (name) => name.replace(/(.)-.*$/s, '$1'),
  },
]

const serviceOf = new Map(
  mailServices.flatMap((service) => service.domains.map((domain) => [domain, service] as const)),
)

/**
 * Identifies the person behind an address, for credit that is given once: the SHA-256, hex, of the address without its
 * `+tag`, and without what its mail service does not tell apart, such as Gmail's dots.
 */
export function personOf(email: string): string {
  const address = accountAddress(email).normalize('NFKC').toLowerCase()
  const at = address.lastIndexOf('@')
  const written = address.slice(at + 1)
  const domain = domainToUnicode(domainToASCII(written)) || written
  const name = address.slice(0, at).replace(/(.)\+.*$/s, '$1')
  const service = serviceOf.get(domain)
  const plain = service ? `${service.mailbox(name)}@${service.domains[0]}` : `${name}@${domain}`
  return Bun.SHA256.hash(plain, 'hex')
}
