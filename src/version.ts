// The version of this executable, as package.json states it when it is built.

import manifest from '../package.json' with { type: 'json' }

/** Replaced when the executable is built. */
declare const WEIR_COMMIT: string | undefined
declare const WEIR_RELEASE_KEY: string | undefined
declare const WEIR_TARGET: string | undefined

export const { version } = manifest

/** The commit it was built from, hex; null where it runs from its source. */
export const commit: string | null =
  typeof WEIR_COMMIT === 'string' && WEIR_COMMIT !== '' ? WEIR_COMMIT : null

/** For people: `0.1.0 (1a2b3c4d)`. */
export const versionText = commit === null ? version : `${version} (${commit.slice(0, 8)})`

/** The public key of whoever released it, in minisign's form; null for a build of one's own. */
export const releaseKey: string | null =
  typeof WEIR_RELEASE_KEY === 'string' && WEIR_RELEASE_KEY !== '' ? WEIR_RELEASE_KEY : null

/** The platform of a released executable, such as `linux-x64-musl`; null for a build for the machine it was made on. */
export const builtFor: string | null =
  typeof WEIR_TARGET === 'string' && WEIR_TARGET !== '' ? WEIR_TARGET : null
