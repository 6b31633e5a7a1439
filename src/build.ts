// `bun run build`: the executable for this machine, dist/weir. With `--all`, one per platform. Compiles the console
// first, whose files are embedded. Not part of the executable.

import { buildConsole } from './console/build.ts'

const targets = [
  'linux-x64',
  'linux-arm64',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
  'windows-x64',
] as const

type Target = (typeof targets)[number]

/** The program, and what runs in threads of its own. */
const programs = [
  'main.ts',
  'chat/counting/count-worker.ts',
  'store/beside-worker.ts',
  'tools/search/page/page-worker.ts',
]

/** Compiles the executable for one platform; for this one without a target. */
async function build(outfile: string, files: readonly string[], target?: Target): Promise<void> {
  const startedAt = performance.now()
  const result = await Bun.build({
    entrypoints: [...programs.map((name) => `${import.meta.dir}/${name}`), ...files],
    // Workers are found by their place below src, wherever the console's files lie.
    root: import.meta.dir,
    naming: { asset: '[name].[ext]' },
    minify: true,
    bytecode: true,
    splitting: true,
    format: 'esm',
    compile: {
      ...(target === undefined ? {} : { target: `bun-${target}` as const }),
      outfile,
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  })
  if (!result.success) throw new AggregateError(result.logs, `${outfile} could not be built`)
  console.log(`${outfile} in ${Math.round(performance.now() - startedAt)} ms`)
}

const files = await buildConsole()
if (process.argv.includes('--all')) {
  for (const target of targets) {
    await build(`dist/weir-${target}${target.startsWith('windows') ? '.exe' : ''}`, files, target)
  }
} else {
  await build('dist/weir', files)
}
