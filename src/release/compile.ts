// Compiles the executable for a platform. It runs at build time only.

import { resolve } from 'node:path'

export const targets = [
  'linux-x64',
  'linux-arm64',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
  'windows-x64',
] as const

export type ReleaseTarget = (typeof targets)[number]

const source = resolve(import.meta.dir, '..')

/** The program, and what runs in threads of its own. */
const programs = [
  'main.ts',
  'chat/counting/count-worker.ts',
  'store/beside-worker.ts',
  'tools/search/page/page-worker.ts',
]

/** What an executable knows of its own origin. */
export interface BuiltFrom {
  /** The commit, hex. */
  readonly commit?: string | undefined
  /** The public key, in minisign's form, of whoever releases it: `weir upgrade` trusts what is signed with it. */
  readonly releaseKey?: string | undefined
}

/**
 * Compiles the executable for one platform; for this one without a target. The same sources, libraries and options give
 * the same bytes. `console` are the files of the compiled console.
 */
export async function compile(
  outfile: string,
  console: readonly string[],
  { commit = '', releaseKey = '' }: BuiltFrom = {},
  target?: ReleaseTarget,
): Promise<void> {
  const result = await Bun.build({
    entrypoints: [...programs.map((name) => `${source}/${name}`), ...console],
    // Workers are found by their place below src, wherever the console's files lie.
    root: source,
    naming: { asset: '[name].[ext]' },
    minify: true,
    bytecode: true,
    splitting: true,
    format: 'esm',
    define: {
      WEIR_COMMIT: JSON.stringify(commit),
      WEIR_RELEASE_KEY: JSON.stringify(releaseKey),
      WEIR_TARGET: JSON.stringify(target ?? ''),
    },
    compile: {
      ...(target === undefined ? {} : { target: `bun-${target}` as const }),
      outfile,
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  })
  if (!result.success) throw new AggregateError(result.logs, `${outfile} could not be built`)
}
