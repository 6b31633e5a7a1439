// How one catalog file differs from another, row by row and field by field, as they are written.

import { isDeepStrictEqual } from 'node:util'
import type { CatalogFile, CatalogRow } from './row.ts'

export interface FileChanges {
  readonly added: readonly string[]
  readonly removed: readonly string[]
  readonly changed: readonly { readonly id: string; readonly fields: Readonly<Record<string, FieldChange>> }[]
}

interface FieldChange {
  readonly from: unknown
  readonly to: unknown
}

/** What would change if `to` were used in place of `from`; a row's source and date do not count. */
export function fileChanges(from: CatalogFile, to: CatalogFile): FileChanges {
  const before = new Map(from.models.map((row) => [row.id, row]))
  const after = new Map(to.models.map((row) => [row.id, row]))
  const changed = [...after.values()].flatMap((row) => {
    const old = before.get(row.id)
    const fields = old ? fieldChanges(old, row) : {}
    return Object.keys(fields).length === 0 ? [] : [{ id: row.id, fields }]
  })
  return {
    added: [...after.keys()].filter((id) => !before.has(id)),
    removed: [...before.keys()].filter((id) => !after.has(id)),
    changed,
  }
}

function fieldChanges(from: CatalogRow, to: CatalogRow): Record<string, FieldChange> {
  const old: ReadonlyMap<string, unknown> = new Map(Object.entries(from))
  const young: ReadonlyMap<string, unknown> = new Map(Object.entries(to))
  const names = [...new Set([...old.keys(), ...young.keys()])].filter(
    (name) => name !== 'source' && name !== 'date',
  )
  const different = names.filter((name) => !isDeepStrictEqual(old.get(name), young.get(name)))
  return Object.fromEntries(
    different.map((name) => [name, { from: old.get(name) ?? null, to: young.get(name) ?? null }]),
  )
}
