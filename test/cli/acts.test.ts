// Acts at the command line are recorded under the name that the system has for whoever runs it.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'

const acts = resolve(import.meta.dir, '../../src/cli/with-store.ts')
const program = `import { commandLineOperator } from ${JSON.stringify(acts)}; console.log(commandLineOperator())`

// Elsewhere the system's list of users is no file.
test.if(process.platform === 'linux').each([{ USER: 'mallory' }, { USER: '' }, {}])(
  'the operator is the user of the process, whatever the environment says: %p',
  async (env) => {
    const user = Bun.spawnSync(['id', '-un'], { env: {} }).stdout.toString().trim()
    const child = Bun.spawn([process.execPath, '-e', program], { env, stderr: 'inherit' })
    expect(await new Response(child.stdout).text()).toBe(`cli:${user}\n`)
  },
)
