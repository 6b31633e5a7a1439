// S30: what the gateway is built from. Versions are pinned, old enough to have been looked at, at least those without
// known holes, and none of them runs a script when it is installed.

import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')

interface Manifest {
  readonly version: string
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly trustedDependencies?: readonly string[]
}

const manifest = JSON.parse(textOf('package.json')) as Manifest
const { install } = Bun.TOML.parse(textOf('bunfig.toml')) as { install: Record<string, unknown> }
const installed = (name: string) =>
  (JSON.parse(textOf(`node_modules/${name}/package.json`)) as Manifest).version

describe('S30 what is installed', () => {
  test('has been public for a week', () => {
    expect(install['minimumReleaseAge']).toBeGreaterThanOrEqual(7 * 24 * 3600)
    expect(install['minimumReleaseAgeExcludes']).toBeUndefined()
  })

  test('runs no script of its own', () => {
    expect(manifest.trustedDependencies).toEqual([])
    const ours = ['preinstall', 'install', 'postinstall', 'prepare'].filter(
      (name) => name in manifest.scripts,
    )
    expect(ours).toEqual([])
  })

  test('is pinned to the letter', () => {
    const loose = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version),
    )
    expect(loose).toEqual([])
  })

  test('is what the lock file says, wherever something is installed', () => {
    const places = ['.run/run.mjs', '.ci/run', 'Dockerfile', 'package.json'].filter((path) =>
      existsSync(join(root, path)),
    )
    const loose = places.flatMap((path) =>
      textOf(path)
        .split('\n')
        .filter((line) => /\bbun (install|i|add)\b|\bnpm (ci|install|i)\b|\[\s*'install'/.test(line))
        // The runtime itself comes by npm, at the version that is pinned there.
        .filter((line) => !line.includes('--frozen-lockfile') && !line.includes('--no-save'))
        .map((line) => `${path}: ${line.trim()}`),
    )
    expect(loose).toEqual([])
    expect(textOf('.run/run.mjs')).toContain('--frozen-lockfile')
    for (const block of textOf('bun.lock').matchAll(/^ {4}"[^"]+": \["[^"]+",/gm))
      expect(block[0]).not.toContain('://')
  })
})

describe('S30 the least version without known holes', () => {
  const sqlite = new Database(':memory:').query('select sqlite_version() as version').get() as {
    version: string
  }
  test.each([
    ['Bun', Bun.version, '1.4.5'],
    ['Elysia', installed('elysia'), '1.4.27'],
    ['drizzle', installed('drizzle-orm'), '0.45.2'],
    ['SQLite', sqlite.version, '3.51.3'],
  ])('%s %s is at least %s', (_, version, floor) => {
    expect(Bun.semver.order(version, floor)).toBeGreaterThanOrEqual(0)
  })
})
