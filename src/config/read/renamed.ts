// Settings with a former name. The configuration is a contract: existing files continue to work.

import { type Draft, isTree, type Path, printPath } from './draft.ts'

interface Renamed {
  readonly from: Path
  readonly to: Path
}

const renamed: readonly Renamed[] = [{ from: ['responses', 'retention'], to: ['responses', 'retention_ms'] }]

/** Moves values to the names that settings have now, with a warning; a fault where both names are given. */
export function takeOldNames(draft: Draft): void {
  for (const { from, to } of renamed) {
    const value = draft.get(from)
    if (value === undefined) continue
    const section = draft.get(from.slice(0, -1))
    if (!isTree(section)) continue
    const origin = draft.valueOrigin(from)
    delete section[String(from.at(-1))]
    draft.unmark(from)
    if (draft.get(to) === undefined) {
      draft.set(to, value, origin)
      draft.warn(printPath(from), `is called ${printPath(to)} now; the old name still works`)
    } else draft.fault(to, `is given under its old name, ${printPath(from)}, too: keep one of them`)
  }
}
