// The mails of accounts. The library is loaded with the first mail; without a mail server none are sent.

import { domainToASCII, domainToUnicode } from 'node:url'
import type { Transporter } from 'nodemailer'
import { GatewayError } from '../../errors/errors.ts'

// E-mail addresses: syntax and normalisation.

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

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

export interface Mailer {
  /** Rejects if the mail server did not accept it. */
  send(mail: Mail): Promise<void>
}

export interface SmtpSettings {
  /** `smtp://` or `smtps://`, with user and password if the server requires them. */
  readonly url: string
  readonly from: string
  readonly timeoutMs: number
  /** Whose gateway it is, and where its customers get help; null where nothing is to be said. */
  readonly sender: { readonly name: string; readonly support: string | null } | null
}

/** Sends by SMTP; STARTTLS is used where the server offers it. */
export class SmtpMailer implements Mailer {
  readonly #settings: SmtpSettings
  #transport: Promise<Transporter> | undefined

  constructor(settings: SmtpSettings) {
    this.#settings = settings
  }

  async send({ to, subject, text }: Mail): Promise<void> {
    const { from, sender } = this.#settings
    this.#transport ??= this.#open()
    const transport = await this.#transport
    // As an object it is one address: a text would be parsed as a list of them.
    const signed =
      sender === null ? text : `${text}\n-- \n${sender.name}\n${sender.support ?? ''}`.trimEnd() + '\n'
    const named = sender === null || from.includes('<') ? from : { name: sender.name, address: from }
    await transport.sendMail({ from: named, to: { name: '', address: to }, subject, text: signed })
  }

  async #open(): Promise<Transporter> {
    const { createTransport } = await import('nodemailer')
    const { url, timeoutMs } = this.#settings
    const times = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
    const { protocol, hostname, port, username, password } = new URL(url)
    const secure = protocol === 'smtps:'
    const host = hostname.replace(/^\[|\]$/g, '')
    const auth = username
      ? { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
      : undefined
    return createTransport({
      host,
      port: Number(port || (secure ? 465 : 587)),
      secure,
      ...(auth === undefined ? {} : { auth }),
      // We write the text of mails: it contains no file or address to fetch.
      disableFileAccess: true,
      disableUrlAccess: true,
      ...times,
    })
  }
}

/** The texts of the mails. `url` contains the secret, so it is never logged. */
export const mails = {
  verification: (to: string, url: string): Mail => ({
    to,
    subject: 'Confirm your address',
    text: `Somebody has opened an account with this address. If it was you, confirm it in a browser that is signed in to the account:\n\n${url}\n\nThe link works once, for a day. If it was not you, ignore this mail, or set a password of your own by the link: whoever opened the account is shut out then.\n`,
  }),
  known: (to: string, url: string): Mail => ({
    to,
    subject: 'You have an account already',
    text: `Somebody, perhaps you, wanted to open an account with this address. It has one: sign in at ${url}, or reset the password there.\n\nNothing was changed.\n`,
  }),
  reset: (to: string, url: string): Mail => ({
    to,
    subject: 'Set a new password',
    text: `Somebody has asked for a new password for the account of this address. If it was you, set it here:\n\n${url}\n\nThe link works once, for an hour. If it was not you, ignore this mail: nothing has changed.\n`,
  }),
  frozen: (
    to: string,
    url: string,
    { name, lastFour }: { readonly name: string; readonly lastFour: string },
    cause: 'leak' | 'networks',
  ): Mail => ({
    to,
    subject: 'A key of yours is frozen',
    text: `Your API key ${JSON.stringify(name)} (…${lastFour}) ${
      cause === 'leak'
        ? 'was reported by somebody who has found it'
        : 'was used from more networks within an hour than this gateway allows'
    }. It is refused from now on.\n\nIf it has leaked, replace it; if all is well, resume it, here:\n\n${url}\n`,
  }),
  managementKeyRevoked: (
    to: string,
    url: string,
    { name, lastFour }: { readonly name: string; readonly lastFour: string },
  ): Mail => ({
    to,
    subject: 'A management key of yours was revoked',
    text: `Your management key ${JSON.stringify(name)} (…${lastFour}) was reported by somebody who has found it, and is revoked. Look at the audit log for what it was used for, and make another one:\n\n${url}\n`,
  }),
  invitation: (to: string, url: string): Mail => ({
    to,
    subject: 'An account for you',
    text: `An account has been opened for you. Sign in for the first time here:\n\n${url}\n\nThe link works once, for seven days.\n`,
  }),
}
