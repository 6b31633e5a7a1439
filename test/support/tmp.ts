// A folder that is gone when the test is.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TempDir {
  readonly path: string
  /** The path of something inside. */
  join(...names: string[]): string
  remove(): void
  [Symbol.dispose](): void
}

/** A fresh, empty folder. `using dir = tempDir()` removes it with all it holds at the end of the block. */
export function tempDir(prefix = 'weir-test-'): TempDir {
  const path = mkdtempSync(join(tmpdir(), prefix))
  const remove = () => rmSync(path, { recursive: true, force: true })
  return { path, join: (...names) => join(path, ...names), remove, [Symbol.dispose]: remove }
}
