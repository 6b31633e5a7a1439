// A gateway served inside the test's process, with its commands: for journeys that are not about processes.

import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { loadConfig, readTextFile, renderFaults, rereadConfig, secretsOf } from '../../src/config/config.ts'
import { createLog } from '../../src/observe/log.ts'
import { startGateway } from '../../src/serve/start.ts'
import { runInside } from './run-inside.ts'
import type { ServedWeir, WeirOptions } from './run-weir.ts'
import { tempDir } from './tmp.ts'

/** Serves a gateway on a free port. Takes what `startWeir` takes, but for what only a process has. */
export async function serveWeir({
  config: yaml = '',
  dataDir: existing,
  env = {},
}: Pick<WeirOptions, 'config' | 'dataDir' | 'env'> = {}): Promise<ServedWeir> {
  const home = tempDir('weir-serve-')
  const dataDir = existing ?? home.join('data')
  const file = home.join('weir.yaml')
  mkdirSync(dataDir, { recursive: true })
  const isNew = readdirSync(dataDir).length === 0
  writeFileSync(file, yaml)
  const inputs = {
    flags: { config: file, data_dir: dataDir, 'server.host': '127.0.0.1', 'server.port': '0' },
    // It would take a fifth of a second of each start.
    env: { WEIR_SERVER_WARM_UP: 'false', ...env },
    cwd: home.path,
  }
  const loaded = loadConfig({ ...inputs, readFile: readTextFile })
  if (loaded.kind === 'faulty') throw new Error(`bad configuration:\n${renderFaults(loaded.faults)}`)
  const { config } = loaded
  let printed = ''
  const log = createLog(config.log, {
    sink: { terminal: false, write: (line) => void (printed += line()), waiting: () => 0 },
    clock: Date.now,
    secrets: secretsOf(config),
  })
  const gateway = await startGateway(rereadConfig(loaded, inputs), log)
  const { baseUrl, owner } = gateway.facts
  const stop = async () => {
    await gateway.stop()
    home.remove()
    return 0
  }
  return {
    baseUrl,
    origin: new URL(baseUrl).origin,
    port: Number(new URL(baseUrl).port),
    dataDir,
    key: isNew ? (owner?.key ?? '') : '',
    output: () => printed,
    command: (...args) => runInside([...args, '--data-dir', dataDir, '--config', file], home.path, env),
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop()
    },
  }
}
