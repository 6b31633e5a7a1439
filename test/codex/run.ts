// `bun run codex`: Codex as it is shipped, through Weir, with an MCP server of its own, with Weir as an MCP server and
// with Weir's web search. It is large (400 MB), so it is fetched for this script alone; WEIR_CODEX names one that is
// there already.

import { resolve } from 'node:path'
import { inOwnNetwork } from '../support/own-network.ts'
import { tempDir } from '../support/tmp.ts'

const version = '0.169.0'

using home = tempDir('weir-codex-')
const codex = process.env['WEIR_CODEX'] ?? fetched()

const child = [process.execPath, resolve(import.meta.dir, 'codex-child.ts'), codex, home.join('work')]
const { exitCode } = Bun.spawnSync([...inOwnNetwork(child)], { stdout: 'inherit', stderr: 'inherit' })
process.exit(exitCode)

function fetched(): string {
  process.stdout.write(`fetching @openai/codex ${version}\n`)
  const folder = home.join('package')
  const command = [
    'npm',
    'install',
    '--no-audit',
    '--no-fund',
    '--prefix',
    folder,
    `@openai/codex@${version}`,
  ]
  const installed = Bun.spawnSync(command, { stdout: 'ignore', stderr: 'inherit' })
  if (installed.exitCode !== 0) process.exit(1)
  return resolve(folder, 'node_modules/.bin/codex')
}
