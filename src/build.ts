// `bun run build`: the executable for this machine, dist/weir. With `--all`, one per platform; `--commit HASH` is what it
// says it was built from. Compiles the console first, whose files are embedded. Not part of the executable.

import { parseArgs } from 'node:util'
import { buildConsole } from './console/build.ts'
import { compile, type ReleaseTarget, targets } from './release/compile.ts'

const { values } = parseArgs({ options: { all: { type: 'boolean' }, commit: { type: 'string' } } })
const files = await buildConsole()

async function build(outfile: string, target?: ReleaseTarget): Promise<void> {
  const startedAt = performance.now()
  await compile(outfile, files, { commit: values.commit }, target)
  console.log(`${outfile} in ${Math.round(performance.now() - startedAt)} ms`)
}

if (values.all) {
  for (const target of targets)
    await build(`dist/weir-${target}${target.startsWith('windows') ? '.exe' : ''}`, target)
} else {
  await build('dist/weir')
}
