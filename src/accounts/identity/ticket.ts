// Single-use secrets: `wt-weir-<id>-<secret><checksum>`. Used for links, invitations, resets and the like.

import { hashOfKey } from '../api-key.ts'
import { mintSecret, readSecret, secretForm } from '../secret-text.ts'

export type TicketKind =
  /** Signs in: printed by the operator's command, or on the first run. */
  | 'link'
  /** Signs in for the first time and proves the address. */
  | 'invitation'
  /** Proves an address by mail. */
  | 'verification'
  /** Sets a new password. */
  | 'reset'
  /** What an authenticator signs. */
  | 'webauthn'
  /** Brings a browser back from an OIDC issuer. */
  | 'oidc'

const minute = 60_000

/** How long each kind is valid, milliseconds. */
export const ticketLife: Readonly<Record<TicketKind, number>> = {
  link: 15 * minute,
  invitation: 7 * 24 * 60 * minute,
  verification: 24 * 60 * minute,
  reset: 60 * minute,
  webauthn: 5 * minute,
  oidc: 10 * minute,
}

export interface Ticket {
  readonly id: string
  /** SHA-256 of the whole text, hex. */
  readonly hash: string
  readonly kind: TicketKind
  /** null if the account is not known yet. */
  readonly account: string | null
  /** Data of the kind: plain text values. */
  readonly data: Readonly<Record<string, string>>
  readonly createdAt: number
  readonly expiresAt: number
}

const form = secretForm('wt-weir', [])

/** A new ticket and its text, which is shown once. `now` in milliseconds since 1970. */
export function mintTicket(
  kind: TicketKind,
  account: string | null,
  now: number,
  data: Ticket['data'] = {},
): { readonly ticket: Ticket; readonly text: string } {
  const { id, text } = mintSecret(form)
  const times = { createdAt: now, expiresAt: now + ticketLife[kind] }
  return { ticket: { id, hash: hashOfKey(text), kind, account, data, ...times }, text }
}

/** The id in a presented text; undefined if it is not a ticket, or mistyped. */
export function ticketIdOf(text: string): string | undefined {
  const read = readSecret(form, text)
  return typeof read === 'string' ? undefined : read.id
}
