// The version of this executable, as package.json states it when it is built.

import manifest from '../package.json' with { type: 'json' }

/** Replaced when the executable is built. */
declare const WEIR_COMMIT: string | undefined

export const { version } = manifest

/** The commit it was built from, hex; null where it runs from its source. */
export const commit: string | null =
  typeof WEIR_COMMIT === 'string' && WEIR_COMMIT !== '' ? WEIR_COMMIT : null

/** For people: `0.1.0 (1a2b3c4d)`. */
export const versionText = commit === null ? version : `${version} (${commit.slice(0, 8)})`
