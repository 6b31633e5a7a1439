// Sign-in data on SQLite: passwords, sessions, tickets, passkeys, identities, and claims of free credit.

import type { Changes, Database, Statement } from 'bun:sqlite'
import type { Account, Role, Session } from '../../../accounts/account.ts'
import {
  type Access,
  type AccessKind,
  accessKinds,
  type ChangeOfHands,
  endedBy,
} from '../../../accounts/identity/access.ts'
import type {
  Identity,
  IdentityStore,
  LinkedIdentity,
  Passkey,
  Ticket,
  TicketKind,
  UsableWays,
} from '../../../accounts/identity/identity-store.ts'
import type {
  AllowanceRegister,
  ClaimAnswer,
  CreditClaim,
  WelcomeRegister,
} from '../../../credits/welcome.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { accountOf, sessionOf } from '../../sql/account-store.ts'
import { inTransaction, orUnavailable, sqliteCode, whenNeeded } from '../database/sqlite.ts'
import { isSet, numberOrNull, recordReader } from '../../sql/work.ts'
import type { Row } from '../../schema.ts'

/** The tickets that sign in, or set a password. */
const linkKinds: readonly TicketKind[] = ['link', 'invitation', 'reset']

/** Tickets deleted per statement, so that none blocks the loop for long. */
const ticketsPerSweep = 1_000

export class SqliteIdentities implements IdentityStore, WelcomeRegister, AllowanceRegister {
  readonly #database: Database
  readonly #changed: () => void
  readonly #sql: () => ReturnType<typeof statements>

  /** `changed` is called after writes to rows that `SqlAccounts` caches. */
  constructor(database: Database, changed: () => void) {
    this.#database = database
    this.#changed = changed
    this.#sql = whenNeeded(() => statements(database))
  }

  passwordOf(account: string): string | null {
    return orUnavailable(() => this.#sql().password.get(account))?.password ?? null
  }

  setPassword(account: string, hash: string, at: number): void {
    this.#together(() => {
      this.#end('password-set', account, at)
      this.#sql().setPassword.run(hash, at, account)
    })
  }

  verifyEmail(account: string, at: number): void {
    this.#change(this.#sql().verifyEmail, at, account)
  }

  setRole(account: string, role: Role, at: number, proven?: Identity): boolean {
    return this.#together(() => {
      const { changes } = this.#sql().setRole.run(role, account)
      if (Number(changes) === 0) return false
      this.#end(role === 'operator' ? 'promoted' : 'demoted', account, at, proven)
      return true
    })
  }

  demote(account: string, at: number): void {
    this.#unlessLastOperator(account, () => {
      if (Number(this.#sql().setRole.run('user' satisfies Role, account).changes) === 1)
        this.#end('demoted', account, at)
    })
  }

  suspend(account: string): boolean {
    return this.#unlessLastOperator(account, () => Number(this.#sql().suspend.run(account).changes) === 1)
  }

  lockOut(account: string, at: number): void {
    this.#together(() => this.#end('taken-over', account, at))
  }

  deleteAccount(account: string, at: number): void {
    this.#unlessLastOperator(account, () => {
      this.#end('deleted', account, at)
      this.#sql().dropAllTickets.run(account)
      this.#sql().leaveGroups.run(account)
      this.#sql().dropProvisioned.run(account)
      this.#sql().deleteAccount.run(at, account)
    })
  }

  changeAddress(account: string, email: string): void {
    try {
      this.#change(this.#sql().changeAddress, email, account)
    } catch (error) {
      if (!sqliteCode(error).startsWith('SQLITE_CONSTRAINT')) throw error
      throw new GatewayError('invalid_request', {
        message: 'This e-mail address has an account.',
        param: 'email',
      })
    }
  }

  accessOf(account: string, now: number): Access {
    const counts = orUnavailable(() => this.#sql().access.get(account, now))
    const numbers = accessKinds.map((kind) => [kind, Number(counts?.[kind] ?? 0)])
    return Object.fromEntries(numbers) as Access
  }

  /** Ends what a change of hands ends, except an identity that was just proven. Within a transaction. */
  #end(change: ChangeOfHands, account: string, at: number, except?: Identity): void {
    const sql = this.#sql()
    const ends: Readonly<Record<AccessKind, () => unknown>> = {
      password: () => sql.clearPassword.run(account),
      passkeys: () => sql.dropPasskeys.run(account),
      identities: () => sql.dropIdentities.run(account, except?.issuer ?? '', except?.subject ?? ''),
      sessions: () => sql.endSessions.run(at, account, ''),
      links: () => linkKinds.forEach((kind) => sql.dropTickets.run(account, kind)),
      keys: () => sql.revokeKeys.run(at, account),
      management_keys: () => sql.revokeManagementKeys.run(at, account),
      webhooks() {
        sql.dropDeliveries.run(account)
        sql.dropWebhooks.run(account)
      },
      mcp_servers: () => sql.dropMcpServers.run(account),
      conversations() {
        sql.dropConversations.run(account)
        sql.dropPrompts.run(account)
        sql.dropImported.run(account)
      },
    }
    for (const kind of endedBy[change]) ends[kind]()
  }

  touchSession(id: string, at: number, expiresAt: number): void {
    this.#change(this.#sql().touchSession, at, expiresAt, id)
  }

  elevateSession(id: string, until: number): void {
    this.#change(this.#sql().elevateSession, until, id)
  }

  endSessions(account: string, at: number, except = ''): void {
    this.#change(this.#sql().endSessions, at, account, except)
  }

  openSessions(account: string, now: number): readonly Session[] {
    return orUnavailable(() => this.#sql().openSessions.all(account, now)).map(sessionOf)
  }

  insertTicket(ticket: Ticket): void {
    const { id, hash, kind, account, data, createdAt, expiresAt } = ticket
    const json = JSON.stringify(data)
    orUnavailable(() => this.#sql().insertTicket.run(id, hash, kind, account, json, createdAt, expiresAt))
  }

  findTicket(id: string, hash: string, kind: TicketKind, now: number): Ticket | undefined {
    const row = orUnavailable(() => this.#sql().findTicket.get(id, hash, kind, now))
    return row ? ticketOf(row) : undefined
  }

  useTicket(id: string, hash: string, kind: TicketKind, now: number): Ticket | undefined {
    const row = orUnavailable(() => this.#sql().useTicket.get(now, id, hash, kind, now))
    // Whoever made it may have changed the account a moment ago in another process, such as its role.
    if (row) this.#changed()
    return row ? ticketOf(row) : undefined
  }

  dropTickets(account: string, kind: TicketKind): void {
    orUnavailable(() => this.#sql().dropTickets.run(account, kind))
  }

  insertPasskey(passkey: Passkey): boolean {
    const { id, account, publicKey, counter, transports, name, backedUp, createdAt, lastUsedAt } = passkey
    const list = JSON.stringify(transports)
    const values = [id, account, publicKey, counter, list, name, backedUp ? 1 : 0, createdAt, lastUsedAt]
    return this.#insert(() => this.#sql().insertPasskey.run(...values))
  }

  findPasskey(id: string): Passkey | undefined {
    const row = orUnavailable(() => this.#sql().passkey.get(id))
    return row ? passkeyOf(row) : undefined
  }

  listPasskeys(account: string): readonly Passkey[] {
    return orUnavailable(() => this.#sql().passkeys.all(account)).map(passkeyOf)
  }

  usedPasskey(id: string, before: number, counter: number, at: number): boolean {
    return this.#changedOne(this.#sql().usedPasskey, counter, at, id, before)
  }

  renamePasskey(account: string, id: string, name: string): boolean {
    return this.#changedOne(this.#sql().renamePasskey, name, id, account)
  }

  deletePasskey(account: string, id: string, usable: UsableWays): boolean {
    return this.#unlessLastWayIn(account, usable, () => this.#sql().deletePasskey.run(id, account))
  }

  findIdentity({ issuer, subject }: Identity): Account | undefined {
    const row = orUnavailable(() => this.#sql().accountOfIdentity.get(issuer, subject))
    return row ? accountOf(row) : undefined
  }

  linkIdentity({ issuer, subject }: Identity, account: string, at: number): boolean {
    return this.#insert(() => this.#sql().insertIdentity.run(issuer, subject, account, at))
  }

  listIdentities(account: string): readonly LinkedIdentity[] {
    const rows = orUnavailable(() => this.#sql().identities.all(account))
    return rows.map(({ issuer, subject, created_at }) => ({ issuer, subject, linkedAt: Number(created_at) }))
  }

  unlinkIdentity({ issuer, subject }: Identity, account: string, usable: UsableWays): boolean {
    const unlink = () => this.#sql().unlinkIdentity.run(issuer, subject, account)
    return this.#unlessLastWayIn(account, usable, unlink)
  }

  /** Removes a way to sign in, in one transaction with the check that the account keeps one. */
  #unlessLastWayIn(account: string, usable: UsableWays, remove: () => Changes): boolean {
    const { passwords, passkeys, issuer = '' } = usable
    return this.#together(() => {
      if (Number(remove().changes) !== 1) return false
      if (!this.#sql().wayIn.get(account, passwords ? 1 : 0, passkeys ? 1 : 0, issuer))
        throw new GatewayError('invalid_request', {
          message: 'This is the only way to sign in to the account. Set a password first.',
        })
      return true
    })
  }

  claimWelcome({ address, account, day, amount, cap }: CreditClaim): ClaimAnswer {
    return inTransaction(this.#database, (): ClaimAnswer => {
      const claimed = this.#sql().welcome.get(address)
      if (claimed) return claimed.account === account ? 'repeated' : 'taken'
      const { changes } = this.#sql().claimWelcome.run(address, account, day, amount, day, amount, cap)
      return Number(changes) === 1 ? 'claimed' : 'capped'
    })
  }

  returnWelcome(address: string): void {
    orUnavailable(() => this.#sql().returnWelcome.run(address))
  }

  claimAllowance({ address, account, day, amount, cap }: CreditClaim): ClaimAnswer {
    return inTransaction(this.#database, (): ClaimAnswer => {
      const last = this.#sql().allowance.get(address)
      // Of a later day: the clock has gone back.
      if (last && Number(last.day) >= day)
        return Number(last.day) === day && last.account === account ? 'repeated' : 'taken'
      const { changes } = this.#sql().claimAllowance.run(address, account, day, amount, cap)
      return Number(changes) === 1 ? 'claimed' : 'capped'
    })
  }

  /** Deletes expired tickets. Returns their number. */
  async sweep(now: number): Promise<number> {
    return Number(orUnavailable(() => this.#sql().sweepTickets.run(now, ticketsPerSweep)).changes)
  }

  #change(statement: Statement, ...values: (string | number)[]): void {
    orUnavailable(() => statement.run(...values))
    this.#changed()
  }

  #changedOne(statement: Statement, ...values: (string | number)[]): boolean {
    return Number(orUnavailable(() => statement.run(...values)).changes) === 1
  }

  #together<T>(write: () => T): T {
    const result = inTransaction(this.#database, write)
    this.#changed()
    return result
  }

  /** Check and change are one transaction: of two operators who remove each other at once, one is refused. */
  #unlessLastOperator<T>(account: string, change: () => T): T {
    return this.#together(() => {
      if (this.#sql().lastOperator.get(account))
        throw new GatewayError('invalid_request', { message: 'This is the last operator of this gateway.' })
      return change()
    })
  }

  /** False if a row with this key exists. */
  #insert(insert: () => unknown): boolean {
    try {
      orUnavailable(insert)
      return true
    } catch (error) {
      if (sqliteCode(error).startsWith('SQLITE_CONSTRAINT')) return false
      throw error
    }
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  return {
    password: database.prepare<{ password: string | null }, [string]>(
      'SELECT password FROM account WHERE id = ?',
    ),
    setPassword: write('UPDATE account SET password = ?, password_changed_at = ? WHERE id = ?'),
    clearPassword: write('UPDATE account SET password = NULL WHERE id = ?'),
    verifyEmail: write('UPDATE account SET email_verified_at = coalesce(email_verified_at, ?) WHERE id = ?'),
    setRole: write('UPDATE account SET role = ?1 WHERE id = ?2 AND role <> ?1'),
    lastOperator: database.prepare<{ id: string }, [string]>(
      `SELECT id FROM account WHERE id = ?1 AND role = 'operator' AND deleted_at IS NULL AND NOT EXISTS
       (SELECT 1 FROM account WHERE role = 'operator' AND suspended = 0 AND deleted_at IS NULL AND id <> ?1)`,
    ),
    suspend: write('UPDATE account SET suspended = 1 WHERE id = ? AND deleted_at IS NULL'),
    // Renames the address, so that a new account can be opened with it.
    deleteAccount: write(
      `UPDATE account SET deleted_at = coalesce(deleted_at, ?), email = id || '@deleted.invalid', suspended = 1
       WHERE id = ?`,
    ),
    dropProvisioned: write('DELETE FROM provisioned WHERE id = ?'),
    changeAddress: write('UPDATE account SET email = ? WHERE id = ? AND deleted_at IS NULL'),
    leaveGroups: write('DELETE FROM group_member WHERE account = ?'),
    revokeKeys: write('UPDATE api_key SET revoked_at = ? WHERE account = ? AND revoked_at IS NULL'),
    revokeManagementKeys: write(
      'UPDATE management_key SET revoked_at = ? WHERE account = ? AND revoked_at IS NULL',
    ),
    access: database.prepare<Record<AccessKind, bigint>, [string, number]>(
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
    touchSession: write('UPDATE session SET seen_at = ?, expires_at = ? WHERE id = ?'),
    elevateSession: write('UPDATE session SET elevated_until = ? WHERE id = ?'),
    endSessions: write(
      'UPDATE session SET revoked_at = ? WHERE account = ? AND id <> ? AND revoked_at IS NULL',
    ),
    openSessions: database.prepare<Row<'session'>, [string, number]>(
      `SELECT * FROM session WHERE account = ? AND revoked_at IS NULL AND expires_at > ?
       ORDER BY coalesce(seen_at, created_at) DESC, id LIMIT 200`,
    ),
    insertTicket: write(
      `INSERT INTO ticket (id, hash, kind, account, data, created_at, expires_at) VALUES (?,?,?,?,?,?,?)`,
    ),
    findTicket: database.prepare<Row<'ticket'>, [string, string, string, number]>(
      'SELECT * FROM ticket WHERE id = ? AND hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?',
    ),
    useTicket: database.prepare<Row<'ticket'>, [number, string, string, string, number]>(
      `UPDATE ticket SET used_at = ? WHERE id = ? AND hash = ? AND kind = ? AND used_at IS NULL AND expires_at > ?
       RETURNING *`,
    ),
    dropTickets: write('DELETE FROM ticket WHERE account = ? AND kind = ? AND used_at IS NULL'),
    dropAllTickets: write('DELETE FROM ticket WHERE account = ?'),
    dropConversations: write('DELETE FROM conversation WHERE account = ?'),
    dropImported: write('DELETE FROM imported_turns WHERE account = ?'),
    dropPrompts: write('DELETE FROM saved_prompt WHERE account = ?'),
    dropDeliveries: write(
      'DELETE FROM webhook_delivery WHERE webhook IN (SELECT id FROM webhook WHERE account = ?)',
    ),
    dropWebhooks: write('DELETE FROM webhook WHERE account = ?'),
    dropMcpServers: write('DELETE FROM mcp_server WHERE account = ?'),
    sweepTickets: write(
      'DELETE FROM ticket WHERE rowid IN (SELECT rowid FROM ticket WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)',
    ),
    insertPasskey: write(
      `INSERT INTO passkey (id, account, public_key, counter, transports, name, backed_up, created_at, last_used_at)
       VALUES (?,?,?,?,?,?,?,?,?)`,
    ),
    passkey: database.prepare<Row<'passkey'>, [string]>('SELECT * FROM passkey WHERE id = ?'),
    passkeys: database.prepare<Row<'passkey'>, [string]>(
      'SELECT * FROM passkey WHERE account = ? ORDER BY created_at, id',
    ),
    usedPasskey: write('UPDATE passkey SET counter = ?, last_used_at = ? WHERE id = ? AND counter = ?'),
    renamePasskey: write('UPDATE passkey SET name = ? WHERE id = ? AND account = ?'),
    deletePasskey: write('DELETE FROM passkey WHERE id = ? AND account = ?'),
    dropPasskeys: write('DELETE FROM passkey WHERE account = ?'),
    accountOfIdentity: database.prepare<Row<'account'>, [string, string]>(
      `SELECT account.* FROM identity JOIN account ON account.id = identity.account
       WHERE issuer = ? AND subject = ?`,
    ),
    insertIdentity: write('INSERT INTO identity (issuer, subject, account, created_at) VALUES (?,?,?,?)'),
    identities: database.prepare<{ issuer: string; subject: string; created_at: bigint }, [string]>(
      'SELECT issuer, subject, created_at FROM identity WHERE account = ? ORDER BY created_at, issuer, subject',
    ),
    unlinkIdentity: write('DELETE FROM identity WHERE issuer = ? AND subject = ? AND account = ?'),
    // An issuer in the configuration may end in a slash, and in its tokens not.
    wayIn: database.prepare<{ id: string }, [string, number, number, string]>(
      `SELECT id FROM account WHERE id = ?1 AND (?2 = 1 AND password IS NOT NULL
       OR ?3 = 1 AND EXISTS (SELECT 1 FROM passkey WHERE account = ?1)
       OR EXISTS (SELECT 1 FROM identity WHERE account = ?1 AND rtrim(issuer, '/') = rtrim(?4, '/')))`,
    ),
    dropIdentities: write('DELETE FROM identity WHERE account = ? AND NOT (issuer = ? AND subject = ?)'),
    welcome: database.prepare<{ account: string }, [string]>('SELECT account FROM welcome WHERE address = ?'),
    claimWelcome: write(
      `INSERT INTO welcome (address, account, day, amount) SELECT ?, ?, ?, ?
       WHERE (SELECT coalesce(sum(amount), 0) FROM welcome WHERE day = ?) + ? <= ?`,
    ),
    allowance: database.prepare<{ account: string; day: bigint }, [string]>(
      'SELECT account, day FROM allowance WHERE address = ?',
    ),
    // What the day has given is the largest `given`, which the index finds at once however many there are.
    claimAllowance: write(
      `INSERT INTO allowance (address, account, day, amount, given)
       SELECT ?1, ?2, ?3, ?4, given + ?4 FROM
         (SELECT coalesce(max(given), 0) AS given FROM allowance WHERE day = ?3) WHERE given + ?4 <= ?5
       ON CONFLICT (address) DO UPDATE SET account = excluded.account, day = excluded.day,
         amount = excluded.amount, given = excluded.given`,
    ),
    returnWelcome: write('UPDATE welcome SET amount = 0 WHERE address = ?'),
  }
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
