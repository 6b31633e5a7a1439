// The bundled catalog: text that is parsed on demand, so that nothing is parsed twice at the start.

import catalogText from './catalog.json' with { type: 'text' }
import type { CatalogFile, CatalogRow } from '../row.ts'
import { simModels } from './sim-models.ts'

/** The committed catalog as it is; test/catalog checks every line of it against its schema. */
export function bundledCatalog(): CatalogFile {
  return JSON.parse(String(catalogText)) as CatalogFile
}

/** All rows without configuration: the catalog's and the simulator's. */
export function bundledRows(file: CatalogFile): readonly CatalogRow[] {
  return [...simModels, ...file.models]
}
