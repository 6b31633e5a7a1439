// Vouchers on SQLite.

import type { Database, Statement } from 'bun:sqlite'
import type { Voucher, VoucherStore } from '../../../payments/vouchers.ts'
import { writing } from '../accounts/account-store.ts'
import { numberOrNull } from '../accounts/rows.ts'
import { reading, sqliteCode } from '../database/outage.ts'
import { whenNeeded } from '../database/when-needed.ts'

interface VoucherRow {
  readonly id: string
  readonly hash: string
  readonly amount: bigint
  readonly note: string
  readonly created_at: bigint
  readonly expires_at: bigint | null
  readonly revoked_at: bigint | null
  readonly account: string | null
  readonly redeemed_at: bigint | null
  readonly lot: string | null
}

export class SqliteVouchers implements VoucherStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof statements>

  constructor(database: Database) {
    this.#database = database
    this.#sql = whenNeeded(() => statements(database))
  }

  addVouchers(vouchers: readonly Voucher[]): boolean {
    const add = this.#database.transaction(() => {
      for (const { id, hash, amount, note, createdAt, expiresAt } of vouchers)
        this.#sql().add.run(id, hash, amount, note, createdAt, expiresAt)
    })
    try {
      writing(() => add.immediate())
      return true
    } catch (error) {
      if (sqliteCode(error) !== 'SQLITE_CONSTRAINT_PRIMARYKEY') throw error
      return false
    }
  }

  findVoucher(hash: string): Voucher | undefined {
    const row = reading(() => this.#sql().find.get(hash))
    return row ? voucherOf(row) : undefined
  }

  claimVoucher(hash: string, account: string, now: number): boolean {
    return Number(writing(() => this.#sql().claim.run(account, now, hash, now)).changes) === 1
  }

  voucherGranted(id: string, lot: string): void {
    writing(() => this.#sql().granted.run(lot, id))
  }

  listVouchers(limit: number): readonly Voucher[] {
    return reading(() => this.#sql().list.all(limit)).map(voucherOf)
  }

  revokeVoucher(id: string, at: number): boolean {
    return Number(writing(() => this.#sql().revoke.run(at, id)).changes) === 1
  }

  ungrantedVouchers(limit: number): readonly Voucher[] {
    return reading(() => this.#sql().ungranted.all(limit)).map(voucherOf)
  }
}

function statements(database: Database) {
  const write = (sql: string): Statement => database.prepare(sql)
  return {
    add: write('INSERT INTO voucher (id, hash, amount, note, created_at, expires_at) VALUES (?,?,?,?,?,?)'),
    find: database.prepare<VoucherRow, [string]>('SELECT * FROM voucher WHERE hash = ?'),
    claim: write(
      `UPDATE voucher SET account = ?, redeemed_at = ? WHERE hash = ? AND account IS NULL AND revoked_at IS NULL
         AND (expires_at IS NULL OR expires_at > ?)`,
    ),
    granted: write('UPDATE voucher SET lot = ? WHERE id = ?'),
    list: database.prepare<VoucherRow, [number]>(
      'SELECT * FROM voucher ORDER BY created_at DESC, id DESC LIMIT ?',
    ),
    revoke: write('UPDATE voucher SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? AND account IS NULL'),
    ungranted: database.prepare<VoucherRow, [number]>(
      'SELECT * FROM voucher WHERE redeemed_at IS NOT NULL AND lot IS NULL ORDER BY redeemed_at LIMIT ?',
    ),
  }
}

function voucherOf(row: VoucherRow): Voucher {
  return {
    id: row.id,
    hash: row.hash,
    amount: row.amount,
    note: row.note,
    createdAt: Number(row.created_at),
    expiresAt: numberOrNull(row.expires_at),
    revokedAt: numberOrNull(row.revoked_at),
    account: row.account,
    redeemedAt: numberOrNull(row.redeemed_at),
    lot: row.lot,
  }
}
