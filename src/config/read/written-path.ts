// Paths as people write them: relative ones, and those that begin with ~, which only a shell would expand.

import { resolve } from 'node:path'
import type { Environment } from './environment.ts'

/** What written paths are relative to. */
export interface Places {
  readonly cwd: string
  readonly env: Environment
}

/**
 * The absolute path that was written: `~` and `~/…` are in the home directory, anything else is relative to the working
 * directory. Throws an Error for `~name`, and for `~` if the environment names no home directory.
 */
export function writtenPath(written: string, { cwd, env }: Places): string {
  if (!written.startsWith('~')) return resolve(cwd, written)
  const [, name = '', rest = ''] = /^~([^/\\]*)[/\\]?(.*)$/s.exec(written) ?? []
  if (name !== '') {
    throw new Error(
      `~${name} is not expanded: write the whole path, or ./~${name} for a file of that name in the working directory`,
    )
  }
  const home = env['HOME'] || env['USERPROFILE']
  if (!home) throw new Error('the path begins with ~ and HOME is not set: write the whole path')
  return resolve(cwd, home, rest)
}
