// The version of this executable, as package.json states it when it is built.

import manifest from '../package.json' with { type: 'json' }

export const { version } = manifest
