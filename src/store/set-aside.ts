// Renames files that are in the way instead of deleting them.

import { existsSync, renameSync } from 'node:fs'

/** An unused name for `path`: `<path>.<why>-<UTC time>`. */
export function asideName(path: string, why: string, now: number): string {
  const stamp = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '')
  const wanted = `${path}.${why}-${stamp}`
  let name = wanted
  for (let n = 2; existsSync(name); n++) name = `${wanted}-${n}`
  return name
}

/** Renames an unreadable file and returns its new name. */
export function setAside(path: string, now: number): string {
  const name = asideName(path, 'damaged', now)
  renameSync(path, name)
  return name
}
