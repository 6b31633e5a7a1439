// `bun run build:all`: the executable for every platform, each one file in dist/. Not part of the executable.

const targets = [
  'linux-x64',
  'linux-arm64',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
  'windows-x64',
] as const

for (const target of targets) {
  const suffix = target.startsWith('windows') ? '.exe' : ''
  const outfile = `dist/weir-${target}${suffix}`
  const startedAt = performance.now()
  const result = await Bun.build({
    entrypoints: [`${import.meta.dir}/main.ts`, `${import.meta.dir}/chat/count-worker.ts`],
    minify: true,
    bytecode: true,
    splitting: true,
    format: 'esm',
    compile: { target: `bun-${target}`, outfile, autoloadDotenv: false, autoloadBunfig: false },
  })
  if (!result.success) throw new AggregateError(result.logs, `the build for ${target} failed`)
  console.log(`${outfile} in ${Math.round(performance.now() - startedAt)} ms`)
}
