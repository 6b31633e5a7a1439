// `bun run console`: the console compiled to hashed, compressed files in dist/console, which become part of the executable.
// It runs at build time only; nothing in the executable imports it.

import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import tailwind from 'bun-plugin-tailwind'

const source = import.meta.dir
const root = resolve(source, '../..')
/** Where the files go, one folder deep: inside an executable names lose their folders. */
const outdir = join(root, 'dist/console')

/** Compiles the console into `dist/console` and returns the sorted paths of its files. */
export async function buildConsole(): Promise<readonly string[]> {
  const result = await Bun.build({
    entrypoints: [join(source, 'index.html')],
    target: 'browser',
    minify: true,
    splitting: true,
    naming: {
      entry: '[name].[ext]',
      chunk: 'assets/[name]-[hash].[ext]',
      asset: 'assets/[name]-[hash].[ext]',
    },
    define: { 'process.env.NODE_ENV': '"production"' },
    plugins: [tailwind],
  })
  if (!result.success) throw new AggregateError(result.logs, 'the console could not be compiled')
  rmSync(outdir, { recursive: true, force: true })
  mkdirSync(outdir, { recursive: true })
  const paths: string[] = []
  for (const output of result.outputs) {
    const built = new Uint8Array(await output.arrayBuffer())
    const bytes = output.path.endsWith('.html') ? rootedPage(built) : built
    const path = join(outdir, `${basename(output.path)}.br`)
    const size = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    writeFileSync(path, brotliCompressSync(bytes, { params: size }))
    paths.push(path)
  }
  return paths.toSorted()
}

/**
 * The page with absolute addresses of its files: it is served at addresses of any depth. Below a path of a host the
 * gateway puts that before them; the files name each other relative to themselves.
 */
function rootedPage(html: Uint8Array): Uint8Array {
  return Buffer.from(Buffer.from(html).toString().replaceAll('"./assets/', '"/console/assets/'))
}

/** Whether a file of the console is younger than what was compiled last. */
function isStale(): boolean {
  const built = statSync(join(outdir, 'index.html.br'), { throwIfNoEntry: false })
  if (!built) return true
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).map((name) => join(source, name))
  return [...files, join(root, 'bun.lock')].some((path) => statSync(path).mtimeMs > built.mtimeMs)
}

if (import.meta.main && (!process.argv.includes('--if-stale') || isStale())) {
  const startedAt = performance.now()
  const files = await buildConsole()
  console.error(`console: ${files.length} files in ${Math.round(performance.now() - startedAt)} ms`)
}
