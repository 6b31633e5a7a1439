// The mails of accounts. The library is loaded with the first mail; without a mail server none are sent.

import type { Transporter } from 'nodemailer'

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
