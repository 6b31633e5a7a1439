// Faults planted in a copy of the ledger on PostgreSQL, each of its protocol: the simulation must find them.

import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Mutant, patch } from '../mutants.ts'

const group = 'src/store/postgres/group.ts'
const transactions = 'src/store/postgres/transactions.ts'
const wallets = 'src/store/postgres/wallets.ts'
const peers = 'src/store/postgres/peers.ts'
const core = 'src/store/ledger-core.ts'
const decide = 'src/credits/decide.ts'
const groups = 'src/accounts/group.ts'

const root = resolve(import.meta.dir, '../../..')

export const mutants: readonly Mutant[] = [
  {
    name: 'a group does not ask how many its chain has',
    seed: 74,
    patches: [[group, 'WHERE id = $1 AND epoch = $2 AND batch = $3', 'WHERE id = $1 AND epoch = $2']],
  },
  {
    name: 'a process whose chain was ended writes on where lost history repeats an epoch',
    seed: 6869,
    patches: [[group, " AND NOT starts_with(owner, 'over:') FOR UPDATE", ' FOR UPDATE']],
  },
  {
    name: 'a chain is fenced by a read',
    patches: [
      [
        transactions,
        "'UPDATE chain SET epoch = epoch + 1 WHERE id = $1 RETURNING owner, epoch, batch'",
        "'SELECT owner, epoch, batch FROM chain WHERE id = $1'",
      ],
    ],
  },
  {
    name: 'whether a group was committed is told by the head of its chain, not by its number',
    patches: [
      [
        transactions,
        'readonly batch: bigint\n    }>(',
        'readonly batch: bigint\n      readonly head: Uint8Array\n    }>(',
      ],
      [transactions, 'RETURNING owner, epoch, batch', 'RETURNING owner, epoch, batch, head'],
      [
        transactions,
        'return row.batch\n',
        'return row.head.toHex() === chain.head.toHex() ? chain.batch : chain.batch + 1n\n',
      ],
    ],
  },
  {
    name: 'an account gets one version a group, not one a change',
    patches: [
      [wallets, 'entry.next += 1n', 'entry.next = entry.version + 1n'],
      [
        wallets,
        '(this.#wallets.get(account)?.next ?? 0n) + 1n',
        '(this.#wallets.get(account)?.version ?? 0n) + 1n',
      ],
    ],
  },
  {
    name: 'a refusal is answered from memory',
    patches: [
      [
        wallets,
        '!changed.has(entry) && entry.loadedAt < since',
        '!changed.has(entry) && entry.loadedAt < -since',
      ],
    ],
  },
  {
    name: 'calls of the dead are ended before their chain is taken',
    patches: [
      [
        peers,
        "await this.#connection.send(\n      `UPDATE chain SET epoch = epoch + 1, owner = '${over}' || owner\n       WHERE heartbeat",
        'const found = await this.#connection.send<{ readonly owner: string }>(\n      `SELECT owner FROM chain\n       WHERE heartbeat',
      ],
      [
        peers,
        '[this.#parts.owner],\n    )\n  }\n\n  #beatAgain',
        '[this.#parts.owner],\n    )\n    for (const { owner } of found) this.#dead.add(owner)\n  }\n\n  #beatAgain',
      ],
    ],
  },
  {
    name: 'what was not answered is tried again under another chain',
    patches: [
      [
        transactions,
        'if (await this.#wasCommitted()) {',
        'this.#chain = undefined\n        await connection.renew().catch(() => undefined)\n        await this.begin().catch(() => undefined)\n        if (this.#inDoubt) {',
      ],
      [
        transactions,
        '[owner, genesis.toHex()],',
        '[this.#up ? `${owner}${Math.random()}` : owner, genesis.toHex()],',
      ],
    ],
  },
  {
    name: 'a connection that was lost is not marked as lost',
    patches: [[transactions, '        this.forget()\n        this.#up = false\n', '        this.forget()\n']],
  },
  {
    name: 'of a nested group only its own budget is kept',
    patches: [[groups, 'timezone } of levels) {', 'timezone } of levels.slice(0, 1)) {']],
  },
  {
    name: 'a budget is what is spent of it, without what is reserved',
    patches: [
      [
        decide,
        'free: larger(freeLater - held, 0n), freeLater, budget }',
        'free: budget === null ? larger(freeLater - held, 0n) : freeLater, freeLater, budget }',
      ],
    ],
  },
  {
    name: 'the windows of a group are those of UTC',
    patches: [[groups, 'timeZone: timezone,', "timeZone: timezone && 'UTC',"]],
  },
  {
    name: 'a member who is moved in flight is counted twice',
    patches: [
      [
        core,
        'this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)',
        `{
      this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)
      for (const id of entry.wallet.calls.keys()) {
        const now = entry.wallet.calls.get(id)?.inGroup
        if (now?.person !== open.inGroup.person || now.group === open.inGroup.group) continue
        try {
          this.#wallets.chargeBudgets(now, 0n, charged)
        } catch {
          // Budgets that this group has not loaded.
        }
        break
      }
    }`,
      ],
    ],
  },
  {
    name: 'a group does not ask whether its budgets are as it knew them',
    patches: [[group, ' AND b.version = told.version\n', '\n']],
  },
  {
    name: 'a refusal by a budget is answered from memory',
    seed: 29,
    patches: [
      [
        wallets,
        '!changedBudgets.has(entry) && entry.loadedAt < since',
        '!changedBudgets.has(entry) && entry.loadedAt < -since',
      ],
    ],
  },
  {
    name: 'a key is known by who pays for its calls, who may be another one tomorrow',
    patches: [[wallets, 'this.#change(this.of(person))', 'this.of(person)']],
  },
  {
    name: 'what calls hold of the limit of a key is not counted',
    patches: [[wallets, 'if (figures) figures.held += more', 'if (figures) figures.held += more * 0n']],
  },
]

/** A copy of the store and of the rooms with the fault, beside all else that is needed. */
export function plant(mutant: Mutant): { readonly root: string; remove(): void } {
  const copy = mkdtempSync(join(tmpdir(), 'weir-mutant-'))
  mkdirSync(join(copy, 'src'))
  const changed = new Set(['store', ...mutant.patches.map(([file]) => file.split('/')[1]!)])
  for (const room of readdirSync(join(root, 'src'))) {
    const [from, to] = [join(root, 'src', room), join(copy, 'src', room)]
    if (changed.has(room)) cpSync(from, to, { recursive: true })
    else symlinkSync(from, to)
  }
  for (const each of ['drizzle', 'node_modules']) symlinkSync(join(root, each), join(copy, each))
  patch(copy, mutant)
  return { root: copy, remove: () => rmSync(copy, { recursive: true, force: true }) }
}
