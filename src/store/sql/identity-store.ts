// Sign-in data: passwords, sessions, tickets, passkeys, identities, and claims of free credit.

import type { Awaitable } from '../../async/async.ts'
import type { Account, Role, Session } from '../../accounts/account.ts'
import {
  type Access,
  type AccessKind,
  accessKinds,
  type ChangeOfHands,
  endedBy,
  type Identity,
  type IdentityStore,
  type LinkedIdentity,
  type Passkey,
  type Ticket,
  type TicketKind,
  type UsableWays,
} from '../../accounts/identity/identity-store.ts'
import type { AllowanceRegister, ClaimAnswer, CreditClaim, WelcomeRegister } from '../../credits/calendar.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Row } from '../schema.ts'
import { accountOf, sessionOf } from './account-store.ts'
import {
  AlreadyThere,
  isSet,
  numberOrNull,
  recordReader,
  sql,
  type Statement,
  type Tables,
  type Value,
  type Work,
} from './work.ts'

/** The tickets that sign in, or set a password. */
const linkKinds: readonly TicketKind[] = ['link', 'invitation', 'reset']

/** Tickets deleted per statement, so that none blocks the loop for long. */
const ticketsPerSweep = 1_000

export class SqlIdentities implements IdentityStore, WelcomeRegister, AllowanceRegister {
  readonly #tables: Tables
  readonly #changed: (session?: string) => void

  /** `changed` is called after writes to rows that `SqlAccounts` caches, with the session where only that is written. */
  constructor(tables: Tables, changed: (session?: string) => void) {
    this.#tables = tables
    this.#changed = changed
  }

  passwordOf(account: string): Awaitable<string | null> {
    return this.#tables.do(function* () {
      return (yield* statements.password.first(account))?.password ?? null
    })
  }

  setPassword(account: string, hash: string, at: number): Awaitable<void> {
    return this.#change(function* () {
      yield* end('password-set', account, at)
      yield* statements.setPassword.run(hash, at, account)
    })
  }

  verifyEmail(account: string, at: number): Awaitable<void> {
    return this.#run(statements.verifyEmail, at, account)
  }

  setRole(account: string, role: Role, at: number, proven?: Identity): Awaitable<boolean> {
    return this.#change(function* () {
      if ((yield* statements.setRole.run(role, account)) === 0) return false
      yield* end(role === 'operator' ? 'promoted' : 'demoted', account, at, proven)
      return true
    })
  }

  demote(account: string, at: number): Awaitable<void> {
    return this.#change(function* () {
      yield* unlessLastOperator(account)
      if ((yield* statements.setRole.run('user' satisfies Role, account)) === 1)
        yield* end('demoted', account, at)
    })
  }

  suspend(account: string): Awaitable<boolean> {
    return this.#change(function* () {
      yield* unlessLastOperator(account)
      return (yield* statements.suspend.run(account)) === 1
    })
  }

  lockOut(account: string, at: number): Awaitable<void> {
    return this.#change(() => end('taken-over', account, at))
  }

  deleteAccount(account: string, at: number): Awaitable<void> {
    return this.#change(function* () {
      yield* unlessLastOperator(account)
      yield* end('deleted', account, at)
      yield* statements.dropAllTickets.run(account)
      yield* statements.leaveGroups.run(account)
      yield* statements.dropProvisioned.run(account)
      yield* statements.deleteAccount.run(at, account)
    })
  }

  changeAddress(account: string, email: string): Awaitable<void> {
    return this.#change(function* () {
      try {
        yield* statements.changeAddress.run(email, account)
      } catch (error) {
        if (!(error instanceof AlreadyThere)) throw error
        throw new GatewayError('invalid_request', {
          message: 'This e-mail address has an account.',
          param: 'email',
        })
      }
    })
  }

  accessOf(account: string, now: number): Awaitable<Access> {
    return this.#tables.do(function* () {
      const counts = yield* statements.access.first(account, now)
      return Object.fromEntries(accessKinds.map((kind) => [kind, Number(counts?.[kind] ?? 0)])) as Access
    })
  }

  /** Every session that is used is touched now and then: nothing else is read again for it. */
  touchSession(id: string, at: number, expiresAt: number): Awaitable<void> {
    const work = function* (): Work<void> {
      yield* statements.touchSession.run(at, expiresAt, id)
    }
    return this.#change(work, id)
  }

  elevateSession(id: string, until: number): Awaitable<void> {
    return this.#run(statements.elevateSession, until, id)
  }

  endSessions(account: string, at: number, except = ''): Awaitable<void> {
    return this.#run(statements.endSessions, at, account, except)
  }

  openSessions(account: string, now: number): Awaitable<readonly Session[]> {
    return this.#tables.do(function* () {
      return (yield* statements.openSessions.all(account, now)).map(sessionOf)
    })
  }

  insertTicket({ id, hash, kind, account, data, createdAt, expiresAt }: Ticket): Awaitable<void> {
    const json = JSON.stringify(data)
    return this.#tables.do(function* () {
      yield* statements.insertTicket.run(id, hash, kind, account, json, createdAt, expiresAt)
    })
  }

  findTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined> {
    return this.#tables.do(function* () {
      const row = yield* statements.findTicket.first(id, hash, kind, now)
      return row && ticketOf(row)
    })
  }

  /** Whoever made it may have changed the account a moment ago in another process, such as its role. */
  useTicket(id: string, hash: string, kind: TicketKind, now: number): Awaitable<Ticket | undefined> {
    return this.#change(function* () {
      const row = yield* statements.useTicket.first(now, id, hash, kind, now)
      return row && ticketOf(row)
    })
  }

  dropTickets(account: string, kind: TicketKind): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* statements.dropTickets.run(account, kind)
    })
  }

  insertPasskey(passkey: Passkey): Awaitable<boolean> {
    const { id, account, publicKey, counter, transports, name, backedUp, createdAt, lastUsedAt } = passkey
    const list = JSON.stringify(transports)
    const flag = backedUp ? 1 : 0
    return this.#isOne(
      statements.insertPasskey,
      id,
      account,
      publicKey,
      counter,
      list,
      name,
      flag,
      createdAt,
      lastUsedAt,
    )
  }

  findPasskey(id: string): Awaitable<Passkey | undefined> {
    return this.#tables.do(function* () {
      const row = yield* statements.passkey.first(id)
      return row && passkeyOf(row)
    })
  }

  listPasskeys(account: string): Awaitable<readonly Passkey[]> {
    return this.#tables.do(function* () {
      return (yield* statements.passkeys.all(account)).map(passkeyOf)
    })
  }

  usedPasskey(id: string, before: number, counter: number, at: number): Awaitable<boolean> {
    return this.#isOne(statements.usedPasskey, counter, at, id, before)
  }

  renamePasskey(account: string, id: string, name: string): Awaitable<boolean> {
    return this.#isOne(statements.renamePasskey, name, id, account)
  }

  deletePasskey(account: string, id: string, usable: UsableWays): Awaitable<boolean> {
    return this.#change(() => unlessLastWayIn(account, usable, statements.deletePasskey.run(id, account)))
  }

  findIdentity({ issuer, subject }: Identity): Awaitable<Account | undefined> {
    return this.#tables.do(function* () {
      const row = yield* statements.accountOfIdentity.first(issuer, subject)
      return row && accountOf(row)
    })
  }

  linkIdentity({ issuer, subject }: Identity, account: string, at: number): Awaitable<boolean> {
    return this.#isOne(statements.insertIdentity, issuer, subject, account, at)
  }

  listIdentities(account: string): Awaitable<readonly LinkedIdentity[]> {
    return this.#tables.do(function* () {
      const rows = yield* statements.identities.all(account)
      return rows.map(({ issuer, subject, created_at }) => ({
        issuer,
        subject,
        linkedAt: Number(created_at),
      }))
    })
  }

  unlinkIdentity({ issuer, subject }: Identity, account: string, usable: UsableWays): Awaitable<boolean> {
    return this.#change(() =>
      unlessLastWayIn(account, usable, statements.unlinkIdentity.run(issuer, subject, account)),
    )
  }

  claimWelcome({ address, account, day, amount, cap }: CreditClaim): Awaitable<ClaimAnswer> {
    return this.#tables.together(function* (): Work<ClaimAnswer> {
      const claimed = yield* statements.welcome.first(address)
      if (claimed) return claimed.account === account ? 'repeated' : 'taken'
      const written = yield* statements.claimWelcome.run(address, account, day, amount, day, amount, cap)
      return written === 1 ? 'claimed' : 'capped'
    })
  }

  returnWelcome(address: string): Awaitable<void> {
    return this.#tables.do(function* () {
      yield* statements.returnWelcome.run(address)
    })
  }

  claimAllowance({ address, account, day, amount, cap }: CreditClaim): Awaitable<ClaimAnswer> {
    return this.#tables.together(function* (): Work<ClaimAnswer> {
      const last = yield* statements.allowance.first(address)
      // Of a later day: the clock has gone back.
      if (last && Number(last.day) >= day)
        return Number(last.day) === day && last.account === account ? 'repeated' : 'taken'
      const written = yield* statements.claimAllowance.run(address, account, day, amount, cap)
      return written === 1 ? 'claimed' : 'capped'
    })
  }

  /** Deletes expired tickets. Returns their number. */
  async sweep(now: number): Promise<number> {
    return this.#tables.do(() => statements.sweepTickets.run(now, ticketsPerSweep))
  }

  /** One transaction that changes what is cached: a session alone, or anything. */
  async #change<T>(work: () => Work<T>, session?: string): Promise<T> {
    const value = await this.#tables.together(work)
    this.#changed(session)
    return value
  }

  #run(statement: Statement<unknown>, ...values: readonly Value[]): Promise<void> {
    return this.#change(function* () {
      yield* statement.run(...values)
    })
  }

  /** Whether it has written its row. */
  #isOne(statement: Statement<unknown>, ...values: readonly Value[]): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* statement.run(...values)) === 1
    })
  }
}

/** Check and change are one transaction: of two operators who remove each other at once, one is refused. */
function* unlessLastOperator(account: string): Work<void> {
  if (yield* statements.lastOperator.first(account))
    throw new GatewayError('invalid_request', { message: 'This is the last operator of this gateway.' })
}

/** Removes a way to sign in, in one transaction with the check that the account keeps one. */
function* unlessLastWayIn(account: string, usable: UsableWays, remove: Work<number>): Work<boolean> {
  const { passwords, passkeys, issuer = '' } = usable
  if ((yield* remove) !== 1) return false
  if (!(yield* statements.wayIn.first(account, passwords ? 1 : 0, passkeys ? 1 : 0, issuer)))
    throw new GatewayError('invalid_request', {
      message: 'This is the only way to sign in to the account. Set a password first.',
    })
  return true
}

/** Ends what a change of hands ends, except an identity that was just proven. Within a transaction. */
function* end(change: ChangeOfHands, account: string, at: number, except?: Identity): Work<void> {
  const run = statements
  const ends: Readonly<Record<AccessKind, readonly (() => Work<number>)[]>> = {
    password: [() => run.clearPassword.run(account)],
    passkeys: [() => run.dropPasskeys.run(account)],
    identities: [() => run.dropIdentities.run(account, except?.issuer ?? '', except?.subject ?? '')],
    sessions: [() => run.endSessions.run(at, account, '')],
    links: linkKinds.map((kind) => () => run.dropTickets.run(account, kind)),
    keys: [() => run.revokeKeys.run(at, account)],
    management_keys: [() => run.revokeManagementKeys.run(at, account)],
    webhooks: [() => run.dropDeliveries.run(account), () => run.dropWebhooks.run(account)],
    mcp_servers: [() => run.dropMcpServers.run(account)],
    conversations: [
      () => run.dropConversations.run(account),
      () => run.dropPrompts.run(account),
      () => run.dropImported.run(account),
    ],
  }
  for (const kind of endedBy[change]) for (const act of ends[kind]) yield* act()
}

const statements = {
  password: sql<{ password: string | null }>('SELECT password FROM account WHERE id = ?'),
  setPassword: sql('UPDATE account SET password = ?, password_changed_at = ? WHERE id = ?'),
  clearPassword: sql('UPDATE account SET password = NULL WHERE id = ?'),
  verifyEmail: sql('UPDATE account SET email_verified_at = coalesce(email_verified_at, ?) WHERE id = ?'),
  setRole: sql('UPDATE account SET role = ?1 WHERE id = ?2 AND role <> ?1'),
  lastOperator: sql<{ id: string }>(
    `SELECT id FROM account WHERE id = ?1 AND role = 'operator' AND deleted_at IS NULL AND NOT EXISTS
       (SELECT 1 FROM account WHERE role = 'operator' AND suspended = 0 AND deleted_at IS NULL AND id <> ?1)`,
  ),
  suspend: sql('UPDATE account SET suspended = 1 WHERE id = ? AND deleted_at IS NULL'),
  // Renames the address, so that a new account can be opened with it.
  deleteAccount: sql(
    `UPDATE account SET deleted_at = coalesce(deleted_at, ?), email = id || '@deleted.invalid', suspended = 1
       WHERE id = ?`,
  ),
  dropProvisioned: sql('DELETE FROM provisioned WHERE id = ?'),
  changeAddress: sql('UPDATE account SET email = ? WHERE id = ? AND deleted_at IS NULL'),
  leaveGroups: sql('DELETE FROM group_member WHERE account = ?'),
  revokeKeys: sql('UPDATE api_key SET revoked_at = ? WHERE account = ? AND revoked_at IS NULL'),
  revokeManagementKeys: sql(
    'UPDATE management_key SET revoked_at = ? WHERE account = ? AND revoked_at IS NULL',
  ),
  access: sql<Record<AccessKind, bigint>>(
    `SELECT
       (SELECT count(password) FROM account WHERE id = ?1) AS password,
       (SELECT count(*) FROM passkey WHERE account = ?1) AS passkeys,
       (SELECT count(*) FROM identity WHERE account = ?1) AS identities,
       (SELECT count(*) FROM session WHERE account = ?1 AND revoked_at IS NULL AND expires_at > ?2) AS sessions,
       (SELECT count(*) FROM ticket WHERE account = ?1 AND used_at IS NULL AND expires_at > ?2
        AND kind IN ('link', 'invitation', 'reset')) AS links,
       (SELECT count(*) FROM api_key WHERE account = ?1 AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > ?2)) AS keys,
       (SELECT count(*) FROM management_key WHERE account = ?1 AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > ?2)) AS management_keys,
       (SELECT count(*) FROM webhook WHERE account = ?1) AS webhooks,
       (SELECT count(*) FROM mcp_server WHERE account = ?1) AS mcp_servers,
       (SELECT count(*) FROM conversation WHERE account = ?1) AS conversations`,
  ),
  touchSession: sql('UPDATE session SET seen_at = ?, expires_at = ? WHERE id = ?'),
  elevateSession: sql('UPDATE session SET elevated_until = ? WHERE id = ?'),
  endSessions: sql('UPDATE session SET revoked_at = ? WHERE account = ? AND id <> ? AND revoked_at IS NULL'),
  openSessions: sql<Row<'session'>>(
    `SELECT * FROM session WHERE account = ? AND revoked_at IS NULL AND expires_at > ?
       ORDER BY coalesce(seen_at, created_at) DESC, id LIMIT 200`,
  ),
  insertTicket: sql(
    `INSERT INTO ticket (id, hash, kind, account, data, created_at, expires_at) VALUES (?,?,?,?,?,?,?)`,
  ),
  findTicket: sql<Row<'ticket'>>(
    'SELECT * FROM ticket WHERE id = ? AND hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?',
  ),
  useTicket: sql<Row<'ticket'>>(
    `UPDATE ticket SET used_at = ? WHERE id = ? AND hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?
       RETURNING *`,
  ),
  dropTickets: sql('DELETE FROM ticket WHERE account = ? AND kind = ? AND used_at IS NULL'),
  dropAllTickets: sql('DELETE FROM ticket WHERE account = ?'),
  dropConversations: sql('DELETE FROM conversation WHERE account = ?'),
  dropImported: sql('DELETE FROM imported_turns WHERE account = ?'),
  dropPrompts: sql('DELETE FROM saved_prompt WHERE account = ?'),
  dropDeliveries: sql(
    'DELETE FROM webhook_delivery WHERE webhook IN (SELECT id FROM webhook WHERE account = ?)',
  ),
  dropWebhooks: sql('DELETE FROM webhook WHERE account = ?'),
  dropMcpServers: sql('DELETE FROM mcp_server WHERE account = ?'),
  sweepTickets: sql(
    'DELETE FROM ticket WHERE id IN (SELECT id FROM ticket WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)',
  ),
  insertPasskey: sql(
    `INSERT INTO passkey (id, account, public_key, counter, transports, name, backed_up, created_at, last_used_at)
       VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
  ),
  passkey: sql<Row<'passkey'>>('SELECT * FROM passkey WHERE id = ?'),
  passkeys: sql<Row<'passkey'>>('SELECT * FROM passkey WHERE account = ? ORDER BY created_at, id'),
  usedPasskey: sql('UPDATE passkey SET counter = ?, last_used_at = ? WHERE id = ? AND counter = ?'),
  renamePasskey: sql('UPDATE passkey SET name = ? WHERE id = ? AND account = ?'),
  deletePasskey: sql('DELETE FROM passkey WHERE id = ? AND account = ?'),
  dropPasskeys: sql('DELETE FROM passkey WHERE account = ?'),
  accountOfIdentity: sql<Row<'account'>>(
    `SELECT account.* FROM identity JOIN account ON account.id = identity.account
       WHERE issuer = ? AND subject = ?`,
  ),
  insertIdentity: sql(
    'INSERT INTO identity (issuer, subject, account, created_at) VALUES (?,?,?,?) ON CONFLICT DO NOTHING',
  ),
  identities: sql<{ issuer: string; subject: string; created_at: bigint }>(
    'SELECT issuer, subject, created_at FROM identity WHERE account = ? ORDER BY created_at, issuer, subject',
  ),
  unlinkIdentity: sql('DELETE FROM identity WHERE issuer = ? AND subject = ? AND account = ?'),
  // An issuer in the configuration may end in a slash, and in its tokens not.
  wayIn: sql<{ id: string }>(
    `SELECT id FROM account WHERE id = ?1 AND (?2 = 1 AND password IS NOT NULL
       OR ?3 = 1 AND EXISTS (SELECT 1 FROM passkey WHERE account = ?1)
       OR EXISTS (SELECT 1 FROM identity WHERE account = ?1 AND rtrim(issuer, '/') = rtrim(CAST(?4 AS text), '/')))`,
  ),
  dropIdentities: sql('DELETE FROM identity WHERE account = ? AND NOT (issuer = ? AND subject = ?)'),
  welcome: sql<{ account: string }>('SELECT account FROM welcome WHERE address = ?'),
  claimWelcome: sql(
    `INSERT INTO welcome (address, account, day, amount) SELECT CAST(? AS text), CAST(? AS text), CAST(? AS bigint), CAST(? AS bigint)
       WHERE (SELECT CAST(coalesce(sum(amount), 0) AS bigint) FROM welcome WHERE day = ?) + ? <= ?`,
  ),
  allowance: sql<{ account: string; day: bigint }>('SELECT account, day FROM allowance WHERE address = ?'),
  // What the day has given is the largest `given`, which the index finds at once however many there are.
  claimAllowance: sql(
    `INSERT INTO allowance (address, account, day, amount, given)
       SELECT CAST(?1 AS text), CAST(?2 AS text), CAST(?3 AS bigint), CAST(?4 AS bigint), given + ?4 FROM
         (SELECT coalesce(max(given), 0) AS given FROM allowance WHERE day = ?3) AS before WHERE given + ?4 <= ?5
       ON CONFLICT (address) DO UPDATE SET account = excluded.account, day = excluded.day,
         amount = excluded.amount, given = excluded.given`,
  ),
  returnWelcome: sql('UPDATE welcome SET amount = 0 WHERE address = ?'),
}

function ticketOf(row: Row<'ticket'>): Ticket {
  return {
    id: row.id,
    hash: row.hash,
    kind: row.kind,
    account: row.account,
    data: JSON.parse(row.data) as Ticket['data'],
    createdAt: Number(row.created_at),
    expiresAt: Number(row.expires_at),
  }
}

const passkeyOf = recordReader<Row<'passkey'>>()({
  counter: Number,
  transports: (json) => JSON.parse(json) as string[],
  backed_up: isSet,
  created_at: Number,
  last_used_at: numberOrNull,
})
