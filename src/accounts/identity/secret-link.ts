// Links with a secret: sign-in, invitation, verification of an address, new password.

import { hashOfKey } from '../account.ts'
import { type IdentityStore, mintTicket, type Ticket, ticketIdOf, type TicketKind } from './identity-store.ts'

export interface SecretLink {
  /** The secret is in the fragment, which browsers do not send. */
  readonly url: string
  readonly expiresAt: number
}

/** The console page of each kind of link. */
const pages = { link: 'link', invitation: 'link', verification: 'verify', reset: 'reset' } as const
export type LinkKind = keyof typeof pages

/** Creates the ticket of a link, and voids any older one of its kind. `consoleUrl` has no trailing slash. */
export async function newLink(
  identities: Pick<IdentityStore, 'dropTickets' | 'insertTicket'>,
  wanted: {
    readonly kind: LinkKind
    readonly account: string
    readonly consoleUrl: string
    readonly now: number
  },
): Promise<SecretLink> {
  const { kind, account, consoleUrl, now } = wanted
  const { ticket, text } = mintTicket(kind, account, now)
  await identities.dropTickets(account, kind)
  await identities.insertTicket(ticket)
  return { url: `${consoleUrl}/${pages[kind]}#${text}`, expiresAt: ticket.expiresAt }
}

/** Uses up a ticket by its text; undefined if it is unknown, of another kind, expired or used. */
export async function useTicket(
  { identities, now }: { readonly identities: Pick<IdentityStore, 'useTicket'>; readonly now: () => number },
  token: string,
  kind: TicketKind,
): Promise<Ticket | undefined> {
  const id = ticketIdOf(token)
  return id === undefined ? undefined : identities.useTicket(id, hashOfKey(token), kind, now())
}
