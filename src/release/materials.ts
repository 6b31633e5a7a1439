// What a release is made of: the list of its components (CycloneDX), and the notices that their licences ask for.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

interface Component {
  readonly name: string
  readonly version: string
  /** As its package says it: an SPDX expression; null if it says nothing. */
  readonly license: string | null
  /** The texts of its licence and notice files. */
  readonly texts: readonly string[]
  readonly homepage: string | null
  /** SHA-512 of the archive it was installed from, hex; null where the lock file has none. */
  readonly sha512: string | null
  /** The names and versions of what it needs. */
  readonly needs: readonly string[]
}

interface Manifest {
  readonly name: string
  readonly version: string
  readonly license?: string | { readonly type?: string }
  readonly homepage?: string
  readonly dependencies?: Readonly<Record<string, string>>
}

/** Development dependencies whose data is in the program: lists of prices and of common passwords. */
const dataSources = ['@pydantic/genai-prices', '@zxcvbn-ts/language-common']

const refOf = ({ name, version }: Pick<Component, 'name' | 'version'>) =>
  `pkg:npm/${name.replace('@', '%40')}@${version}`

/** Every package in the program, by what is installed below `root`, in order of name. Throws if one is not installed. */
export function componentsOf(root: string): readonly Component[] {
  const manifest = manifestIn(root)
  const hashes = hashesIn(join(root, 'bun.lock'))
  const found = new Map<string, Component>()
  const visit = (name: string, from: string): string => {
    const folder = installedAt(name, from, root)
    const { version, license, homepage = null, dependencies = {} } = manifestIn(folder)
    const ref = refOf({ name, version })
    if (found.has(ref)) return ref
    const component = {
      name,
      version,
      license: typeof license === 'string' ? license : (license?.type ?? null),
      texts: textsIn(folder),
      homepage,
      sha512: hashes.get(`${name}@${version}`) ?? null,
    }
    // Before its dependencies: packages may need each other.
    found.set(ref, { ...component, needs: [] })
    const needs = Object.keys(dependencies)
      .toSorted()
      .map((one) => visit(one, folder))
    found.set(ref, { ...component, needs })
    return ref
  }
  for (const name of [...Object.keys(manifest.dependencies ?? {}), ...dataSources]) visit(name, root)
  return [...found.values()].toSorted((a, b) => (refOf(a) < refOf(b) ? -1 : 1))
}

function manifestIn(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

/** As Node looks for it: in the folder itself, then in those around it. */
function installedAt(name: string, from: string, root: string): string {
  for (let folder = from; folder.startsWith(root); folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name)
    if (existsSync(join(candidate, 'package.json'))) return candidate
  }
  throw new Error(`${name} is not installed, which ${from} needs: bun install`)
}

function textsIn(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter((name) => /^(licen[cs]e|notice|copying)/i.test(name))
    .toSorted()
    .map((name) => readFileSync(join(folder, name), 'utf8').replaceAll('\r\n', '\n').trim())
}

/** The hashes of the lock file, by name and version. */
function hashesIn(path: string): ReadonlyMap<string, string> {
  const json = readFileSync(path, 'utf8').replaceAll(/,(?=\s*[}\]])/g, '')
  const { packages } = JSON.parse(json) as { packages: Record<string, readonly unknown[]> }
  return new Map(
    Object.values(packages).flatMap((entry): [string, string][] => {
      const [id, hash] = [entry[0], entry.at(-1)]
      if (typeof id !== 'string' || typeof hash !== 'string' || !hash.startsWith('sha512-')) return []
      return [[id, Buffer.from(hash.slice('sha512-'.length), 'base64').toString('hex')]]
    }),
  )
}

interface Product {
  readonly name: string
  readonly version: string
  readonly commit: string
  readonly description: string
  /** Seconds since 1970. */
  readonly time: number
}

/** The bill of materials, CycloneDX 1.6 in JSON. */
export function billOfMaterials(product: Product, components: readonly Component[], bun: string): string {
  const ref = `pkg:generic/${product.name}@${product.version}`
  const runtime = { name: 'bun', version: bun, ref: `pkg:generic/bun@${bun}` }
  const bill = {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(`${ref} ${product.commit}`)}`,
    version: 1,
    metadata: {
      timestamp: new Date(product.time * 1000).toISOString(),
      component: {
        type: 'application',
        'bom-ref': ref,
        name: product.name,
        version: product.version,
        description: product.description,
        purl: ref,
        properties: [{ name: 'commit', value: product.commit }],
      },
    },
    components: [
      {
        type: 'platform',
        'bom-ref': runtime.ref,
        name: runtime.name,
        version: runtime.version,
        purl: runtime.ref,
        licenses: [{ license: { id: 'MIT' } }],
      },
      ...components.map(({ name, version, license, homepage, sha512 }) => ({
        type: 'library',
        'bom-ref': refOf({ name, version }),
        ...(name.startsWith('@') ? { group: name.slice(0, name.indexOf('/')) } : {}),
        name: name.slice(name.indexOf('/') + 1),
        version,
        purl: refOf({ name, version }),
        ...(license === null ? {} : { licenses: [{ expression: license.replace(/^\((.*)\)$/, '$1') }] }),
        ...(sha512 === null ? {} : { hashes: [{ alg: 'SHA-512', content: sha512 }] }),
        ...(homepage === null ? {} : { externalReferences: [{ type: 'website', url: homepage }] }),
      })),
    ],
    dependencies: [
      { ref, dependsOn: [runtime.ref, ...components.map(refOf)] },
      ...components.map((component) => ({ ref: refOf(component), dependsOn: component.needs })),
    ],
  }
  return `${JSON.stringify(bill, null, 2)}\n`
}

/** A UUID that follows from a text. */
function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const rule = '-'.repeat(78)

/** The licence of every component, each text once. */
export function thirdPartyNotices(components: readonly Component[], bun: string): string {
  const byText = Map.groupBy(components, ({ texts }) => texts.join('\n\n'))
  const sections = [...byText].map(([text, group]) =>
    [
      rule,
      ...group.map(({ name, version, license }) => `${name} ${version}, ${license ?? 'licence not named'}`),
      '',
      text === '' ? 'The package has no file with the text of its licence.' : text,
      '',
    ].join('\n'),
  )
  return [
    'Weir contains the software of others, under these licences.',
    '',
    rule,
    `Bun ${bun}, MIT`,
    '',
    'The runtime inside the executable. It contains JavaScriptCore and other parts of WebKit (LGPL-2.1 and BSD),',
    'SQLite (public domain), BoringSSL and others: https://bun.com/docs/project/license lists them.',
    '',
    ...sections,
  ].join('\n')
}
