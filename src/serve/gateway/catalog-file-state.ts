// Where the prices come from, for operators.

import { bundledCatalog } from '../../catalog/bundled/bundled.ts'
import { fileChanges } from '../../catalog/file-changes.ts'
import type { Config } from '../../config.ts'
import type { CatalogFileState } from '../../http/parts.ts'
import { catalogFileInUse, importedCatalogPath } from './catalog-in-use.ts'

/**
 * The sources of the catalog in use, and what an imported file and the configuration changed of the bundled one.
 * Yields to calls between steps. Rejects if an imported file is damaged.
 */
export async function catalogFileState({ data_dir, models }: Config): Promise<CatalogFileState> {
  const imported = await Bun.file(importedCatalogPath(data_dir)).exists()
  const bundled = bundledCatalog()
  await Bun.sleep(0)
  const file = imported ? catalogFileInUse(data_dir) : bundled
  await Bun.sleep(0)
  return {
    sources: file.sources.map(({ name, version, date }) => ({ name, version, date })),
    changes: imported ? fileChanges(bundled, file) : null,
    overrides: models,
  }
}
