// Small catalogs for tests.

import { buildCatalog, type CatalogInput } from '../../src/catalog/catalog.ts'
import { type CatalogRow, type ModelOverride, modelOverrideSchema } from '../../src/catalog/row.ts'

export function row(id: string, more: Partial<CatalogRow> = {}): CatalogRow {
  return { id, price: { input: '1', output: '2' }, source: 'test', date: '2026-01-01', ...more }
}

export function catalogOf(rows: readonly CatalogRow[], more: Partial<CatalogInput> = {}) {
  return buildCatalog({
    rows,
    providersKnown: new Set(['a', 'b', 'openai', 'anthropic']),
    today: () => '2026-06-15',
    date: '2026-01-01',
    ...more,
  })
}

export function override(written: unknown): ModelOverride {
  return modelOverrideSchema.parse(written)
}
