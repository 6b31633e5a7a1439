// `weir config check|show`

import {
  loadConfig,
  printedOrigin,
  readTextFile,
  renderFaults,
  renderSettings,
  shownSettings,
} from '../../../config.ts'
import { catalogInUse } from '../../../serve/gateway/catalog-in-use.ts'
import {
  CommandFailure,
  configFlags,
  type Context,
  exitCodes,
  type Invocation,
  type Io,
  print,
} from '../../context.ts'
import { unsoldModels } from '../../../serve/unsold.ts'

/** Checks the configuration. Faults are the result here, so with --json they are on standard output, too. */
export async function checkConfig(io: Io, invocation: Invocation): Promise<void> {
  const json = invocation.flag('json')
  const env = await io.environment()
  const loaded = loadConfig({ flags: configFlags(invocation), env, cwd: io.cwd, readFile: readTextFile })
  const unsold =
    loaded.kind === 'loaded' ? unsoldModels(loaded.config, catalogInUse(loaded.config, io.clock)) : []
  const warnings = [...loaded.warnings, ...unsold].map(({ name, problem }) => ({ name, problem }))
  if (!json) for (const { name, problem } of warnings) io.err(`warning: ${name} ${problem}\n`)
  if (loaded.kind === 'loaded') {
    const text = `the configuration is good (${loaded.file ?? 'no file, defaults and environment only'})`
    print({ io, json }, { json: { ok: true, file: loaded.file ?? null, faults: [], warnings }, text })
    return
  }
  if (json) {
    const faults = loaded.faults.map(({ path, problem, nearest, origin }) => ({
      path,
      problem,
      nearest: nearest ?? null,
      origin: origin ? printedOrigin(origin) : null,
    }))
    print({ io, json }, { json: { ok: false, file: null, faults, warnings }, text: '' })
  }
  throw new CommandFailure(`bad configuration:\n${renderFaults(loaded.faults)}`, exitCodes.badConfiguration)
}

/** Every setting with its value and source; secrets are masked. */
export async function showConfig(context: Context): Promise<void> {
  const shown = shownSettings(context.loaded)
  const file = context.loaded.file ?? null
  print(context, { json: { file, settings: shown }, text: renderSettings(shown) })
}
