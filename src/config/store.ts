// Where the ledger and everything else is kept: SQLite in the data directory, or a PostgreSQL that is named here.

import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { isLoopback } from './accounts.ts'
import { note, secret, section } from './fields.ts'

/** How far a server is trusted: `verify-full` asks for a certificate for its name, `verify-ca` for any of the authority. */
const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const

export const storeSettings = section({
  url: note(
    z
      .string()
      .refine((text) => addressFault(text) === undefined, {
        error: (issue) => addressFault(String(issue.input)),
      })
      .optional(),
    'A PostgreSQL (15 or newer) that keeps everything in place of SQLite, such as postgres://weir@db.example.org:5432/weir. ' +
      'Its certificate is verified (sslmode=verify-full) unless it is on this machine',
    { secret: true },
  ),
  password: note(secret.optional(), 'The password for store.url, where that has none', { secret: true }),
  ca: note(
    z.string().min(1).optional(),
    "A file with the certificates (PEM) of the authority that has signed the one of store.url; the system's own where it is left out",
  ),
  prepare: note(
    z.boolean().default(true),
    'Whether statements are prepared. No for a pooler that shares connections by transaction, such as PgBouncer before 1.21',
  ),
})

type StoreSettings = z.output<typeof storeSettings>

/** What is wrong with an address, without quoting it: it holds a password. */
function addressFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^postgres(ql)?:$/.test(url.protocol) || url.hostname === '')
    return 'must be an address such as postgres://weir@db.example.org:5432/weir'
  if (url.pathname.length < 2) return 'must name the database: postgres://weir@db.example.org:5432/weir'
  if (url.username === '') return 'must name the user: postgres://weir@db.example.org:5432/weir'
  const other = [...url.searchParams.keys()].find((name) => name !== 'sslmode' && name !== 'application_name')
  // One may be a password: only its name is told.
  if (other !== undefined)
    return `has ${other}, which is not known here: sslmode and application_name are, and store.password and store.ca are settings`
  const mode = url.searchParams.get('sslmode')
  if (mode !== null && !sslModes.some((known) => known === mode))
    return `has an sslmode that is not one of ${sslModes.join(', ')}`
  return undefined
}

/** What is wrong with the settings of the store taken together, by the name of the one to change. */
export function storeFault(
  settings: Readonly<Record<string, unknown>>,
): { readonly name: string; readonly problem: string } | undefined {
  const { url, ca, password } = settings
  if (typeof url !== 'string') {
    const [alone] = Object.entries({ password, ca }).filter(([, value]) => value !== undefined)
    return alone && { name: alone[0], problem: 'says nothing without store.url' }
  }
  if (addressFault(url) !== undefined) return undefined
  const { hostname, searchParams, password: written } = new URL(url)
  if (written !== '' && password !== undefined)
    return { name: 'password', problem: 'is one too many: store.url has one' }
  if (searchParams.get('sslmode') === 'require' && ca === undefined && !isLoopback(hostname))
    return {
      name: 'url',
      problem:
        'has sslmode=require, which believes any certificate: leave it out to have the certificate verified, and name ' +
        'its authority in store.ca',
    }
  return undefined
}

/** A server in the terms of the client: the mode and the password are in the address. */
interface StoreServer {
  readonly url: string
  readonly ca: string | undefined
  readonly prepare: boolean
}

/**
 * Where the store is: a server, or the data directory alone. With certificates of an authority `require` asks for the right
 * name, too. Throws where `store.ca` cannot be read.
 */
export function storePlace({
  data_dir: dataDir,
  store,
}: {
  readonly data_dir: string
  readonly store: StoreSettings
}): { readonly dataDir: string; readonly server: StoreServer | undefined } {
  return { dataDir, server: serverOf(store) }
}

/** The server at an address that is no setting. Throws with what is wrong with it, without quoting it. */
export function serverAt(url: string, ca: string | undefined): StoreServer {
  const problem = addressFault(url) ?? storeFault({ url, ca })?.problem
  if (problem !== undefined) throw new Error(problem)
  return serverOf({ url, ca, prepare: true })!
}

function serverOf({ url, password, ca, prepare }: StoreSettings): StoreServer | undefined {
  if (url === undefined) return undefined
  const address = new URL(url)
  if (password !== undefined) address.password = encodeURIComponent(password)
  if (!address.searchParams.has('sslmode') && (ca !== undefined || !isLoopback(address.hostname)))
    address.searchParams.set('sslmode', 'verify-full')
  return { url: address.href, ca: ca === undefined ? undefined : authoritiesIn(ca), prepare }
}

function authoritiesIn(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown)
    throw new Error(`store.ca cannot be read: ${reason}`, { cause: thrown })
  }
}
