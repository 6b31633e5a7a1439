// Packages of Debian and of RPM, written without their tools.

import { createHash } from 'node:crypto'
import { type ArchiveEntry, arOf, cpioOf, fullMode, gzip, tarOf, textFile, withFolders } from './archive.ts'

export interface PackageFacts {
  readonly name: string
  readonly version: string
  /** One line. */
  readonly summary: string
  readonly description: string
  readonly homepage: string | undefined
  readonly license: string
  /** Seconds since 1970. */
  readonly time: number
}

/** Shell scripts that a package runs, without their first line. */
export interface PackageScripts {
  readonly afterInstall: string
  /** Before it goes, not before it is replaced by another version. */
  readonly beforeRemove: string
  readonly afterRemove: string
}

export type PackageArch = 'x64' | 'arm64'

// deb

const debArch = { x64: 'amd64', arm64: 'arm64' } as const

/** A Debian package that needs glibc as old as Debian 11's. */
export function debOf(
  facts: PackageFacts,
  arch: PackageArch,
  files: readonly ArchiveEntry[],
  scripts: PackageScripts,
): Buffer {
  const entries = withFolders(files)
  const bytes = entries.reduce((sum, entry) => sum + (entry.kind === 'file' ? entry.bytes.length : 0), 0)
  const control = [
    `Package: ${facts.name}`,
    `Version: ${facts.version}`,
    `Architecture: ${debArch[arch]}`,
    `Maintainer: The ${facts.name} maintainers <root@localhost>`,
    `Installed-Size: ${Math.ceil(bytes / 1024)}`,
    'Depends: libc6 (>= 2.31)',
    'Section: net',
    'Priority: optional',
    ...(facts.homepage === undefined ? [] : [`Homepage: ${facts.homepage}`]),
    `Description: ${facts.summary}`,
    ...facts.description.split('\n').map((line) => ` ${line === '' ? '.' : line}`),
    '',
  ].join('\n')
  const sums = entries.flatMap((entry) =>
    entry.kind === 'file' ? [`${createHash('md5').update(entry.bytes).digest('hex')}  ${entry.path}\n`] : [],
  )
  const script = (text: string) => `#!/bin/sh\nset -e\n${text}`
  const controlFiles = [
    textFile('control', control),
    textFile('md5sums', sums.join('')),
    textFile('postinst', script(`if [ "$1" = configure ]; then\n${scripts.afterInstall}fi\n`), 0o755),
    textFile('postrm', script(scripts.afterRemove), 0o755),
    textFile('prerm', script(`if [ "$1" = remove ]; then\n${scripts.beforeRemove}fi\n`), 0o755),
  ]
  const gzippedTar = (list: readonly ArchiveEntry[]) => gzip(tarOf(list, facts.time, './'))
  return arOf(
    [
      { name: 'debian-binary', bytes: Buffer.from('2.0\n') },
      { name: 'control.tar.gz', bytes: gzippedTar(controlFiles) },
      { name: 'data.tar.gz', bytes: gzippedTar(entries) },
    ],
    facts.time,
  )
}

// rpm: https://rpm-software-management.github.io/rpm/manual/format.html

const rpmArch = { x64: { name: 'x86_64', number: 1 }, arm64: { name: 'aarch64', number: 19 } } as const

type Value =
  | { readonly type: 'int16' | 'int32'; readonly values: readonly number[] }
  | { readonly type: 'string' | 'i18n'; readonly text: string }
  | { readonly type: 'strings'; readonly texts: readonly string[] }
  | { readonly type: 'bytes'; readonly bytes: Uint8Array }

const typeNumbers = { int16: 3, int32: 4, string: 6, bytes: 7, strings: 8, i18n: 9 } as const
const headerMagic = Buffer.from('8eade80100000000', 'hex')
const indexEntryBytes = 16

const int32 = (...values: number[]): Value => ({ type: 'int32', values })
const int16 = (...values: number[]): Value => ({ type: 'int16', values })
const text = (value: string): Value => ({ type: 'string', text: value })
const i18n = (value: string): Value => ({ type: 'i18n', text: value })
const texts = (values: readonly string[]): Value => ({ type: 'strings', texts: values })

function bytesOf(value: Value): Buffer {
  switch (value.type) {
    case 'bytes':
      return Buffer.from(value.bytes)
    case 'string':
    case 'i18n':
      return Buffer.from(`${value.text}\0`)
    case 'strings':
      return Buffer.from(value.texts.map((one) => `${one}\0`).join(''))
    case 'int16':
    case 'int32': {
      const width = value.type === 'int16' ? 2 : 4
      const bytes = Buffer.alloc(value.values.length * width)
      for (const [at, number] of value.values.entries()) bytes.writeUIntBE(number >>> 0, at * width, width)
      return bytes
    }
  }
}

function countOf(value: Value): number {
  if (value.type === 'bytes') return value.bytes.length
  if (value.type === 'strings') return value.texts.length
  return 'values' in value ? value.values.length : 1
}

/** A header: an index of tags, and their values. Its first entry names the region that digests cover: all of it. */
function headerOf(region: number, tags: ReadonlyMap<number, Value>): Buffer {
  const index: Buffer[] = []
  const store: Buffer[] = []
  let offset = 0
  const entry = (tag: number, type: number, at: number, count: number) => {
    const bytes = Buffer.alloc(indexEntryBytes)
    bytes.writeInt32BE(tag, 0)
    bytes.writeInt32BE(type, 4)
    bytes.writeInt32BE(at, 8)
    bytes.writeInt32BE(count, 12)
    return bytes
  }
  for (const [tag, value] of [...tags].toSorted(([a], [b]) => a - b)) {
    const width = value.type === 'int32' ? 4 : value.type === 'int16' ? 2 : 1
    const gap = (width - (offset % width)) % width
    const bytes = bytesOf(value)
    index.push(entry(tag, typeNumbers[value.type], offset + gap, countOf(value)))
    store.push(Buffer.alloc(gap), bytes)
    offset += gap + bytes.length
  }
  const entries = index.length + 1
  index.unshift(entry(region, typeNumbers.bytes, offset, indexEntryBytes))
  store.push(entry(region, typeNumbers.bytes, -entries * indexEntryBytes, indexEntryBytes))
  const sizes = Buffer.alloc(8)
  sizes.writeInt32BE(entries, 0)
  sizes.writeInt32BE(offset + indexEntryBytes, 4)
  return Buffer.concat([headerMagic, sizes, ...index, ...store])
}

function leadOf(name: string, arch: PackageArch): Buffer {
  const lead = Buffer.alloc(96)
  lead.write('edabeedb0300', 0, 'hex')
  lead.writeUInt16BE(rpmArch[arch].number, 8)
  lead.write(name.slice(0, 65), 10)
  lead.writeUInt16BE(1, 76)
  lead.writeUInt16BE(5, 78)
  return lead
}

/** Less or equal, of the rpm that installs it. */
const rpmlib = 0x0100_000a
const equal = 8

/** An RPM package, unsigned: its checksums are those of the release. */
export function rpmOf(
  facts: PackageFacts,
  arch: PackageArch,
  files: readonly ArchiveEntry[],
  scripts: PackageScripts,
): Buffer {
  const release = '1'
  const { name, version, time } = facts
  // Folders of the system belong to other packages; those of this one are named like it.
  const entries = withFolders(files).filter(
    (entry) => entry.kind !== 'folder' || entry.path.split('/').at(-1) === name,
  )
  const payload = cpioOf(entries, time)
  const packed = gzip(payload)
  const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
  const folders = [...new Set(entries.map(({ path }) => folderOf(path)))]
  const of = <Result>(read: (entry: ArchiveEntry) => Result) => entries.map(read)
  const requires = [
    ['rpmlib(CompressedFileNames)', '3.0.4-1'],
    ['rpmlib(FileDigests)', '4.6.0-1'],
    ['rpmlib(PayloadFilesHavePrefix)', '4.0-1'],
  ] as const
  const header = headerOf(
    63,
    new Map<number, Value>([
      [100, texts(['C'])],
      [1000, text(name)],
      [1001, text(version.replaceAll('-', '~'))],
      [1002, text(release)],
      [1004, i18n(facts.summary)],
      [1005, i18n(facts.description)],
      [1006, int32(time)],
      [1007, text('localhost')],
      [
        1009,
        int32(of((entry) => (entry.kind === 'file' ? entry.bytes.length : 0)).reduce((a, b) => a + b, 0)),
      ],
      [1014, text(facts.license)],
      [1016, i18n('Applications/Internet')],
      ...(facts.homepage === undefined ? [] : [[1020, text(facts.homepage)] as const]),
      [1021, text('linux')],
      [1022, text(rpmArch[arch].name)],
      [1024, text(scripts.afterInstall)],
      [1025, text(`if [ "$1" = 0 ]; then\n${scripts.beforeRemove}fi\n`)],
      [1026, text(scripts.afterRemove)],
      [1028, int32(...of((entry) => (entry.kind === 'file' ? entry.bytes.length : 0)))],
      [1030, int16(...of(fullMode))],
      [1033, int16(...of(() => 0))],
      [1034, int32(...of(() => time))],
      [1035, texts(of((entry) => (entry.kind === 'file' ? sha256(entry.bytes) : '')))],
      [1036, texts(of((entry) => (entry.kind === 'link' ? entry.to : '')))],
      [1037, int32(...of(() => 0))],
      [1039, texts(of(() => 'root'))],
      [1040, texts(of(() => 'root'))],
      [1044, text(`${name}-${version}-${release}.src.rpm`)],
      [1045, int32(...of(() => 0xffff_ffff))],
      [1047, texts([name])],
      [1048, int32(...requires.map(() => rpmlib))],
      [1049, texts(requires.map(([what]) => what))],
      [1050, texts(requires.map(([, atLeast]) => atLeast))],
      [1064, text('4.16.0')],
      [1086, text('/bin/sh')],
      [1087, text('/bin/sh')],
      [1088, text('/bin/sh')],
      [1095, int32(...of(() => 1))],
      [1096, int32(...entries.keys().map((at) => at + 1))],
      [1097, texts(of(() => ''))],
      [1112, int32(equal)],
      [1113, texts([`${version.replaceAll('-', '~')}-${release}`])],
      [1116, int32(...of(({ path }) => folders.indexOf(folderOf(path))))],
      [1117, texts(of(({ path }) => path.split('/').at(-1)!))],
      [1118, texts(folders)],
      [1124, text('cpio')],
      [1125, text('gzip')],
      [1126, text('9')],
      [1132, text(`${rpmArch[arch].name}-linux`)],
      [5011, int32(8)],
      [5092, texts([sha256(packed)])],
      [5093, int32(8)],
    ]),
  )
  const body = Buffer.concat([header, packed])
  const signature = headerOf(
    62,
    new Map<number, Value>([
      [269, text(createHash('sha1').update(header).digest('hex'))],
      [273, text(sha256(header))],
      [1000, int32(body.length)],
      [1004, { type: 'bytes', bytes: createHash('md5').update(body).digest() }],
      [1007, int32(payload.length)],
    ]),
  )
  const gap = Buffer.alloc((8 - (signature.length % 8)) % 8)
  return Buffer.concat([leadOf(`${name}-${version}-${release}`, arch), signature, gap, body])
}

function folderOf(path: string): string {
  return `/${path.slice(0, path.lastIndexOf('/') + 1)}`
}

// A container image as an OCI layout in a tar file, written without an engine: `docker load`, `podman load` and `skopeo`
// read it. It holds what the Dockerfile's image holds: the executable, the C library it is linked to, and nothing else.

export type ImageArch = 'x64' | 'arm64'

const ociArch = { x64: 'amd64', arm64: 'arm64' } as const
const user = 65_532

export interface ImagePart {
  readonly arch: ImageArch
  readonly executable: Uint8Array
  /** The files of the C library, at their paths from the root. */
  readonly libraries: readonly ArchiveEntry[]
}

interface ImageFacts {
  readonly version: string
  readonly commit: string
  readonly description: string
  /** Seconds since 1970. */
  readonly time: number
}

interface Image {
  readonly tar: Buffer
  /** The digest of its index, by which an image is pulled: `sha256:…`. */
  readonly digest: string
}

/** The files of the image's root. */
export function imageFiles({ executable, libraries }: ImagePart): ArchiveEntry[] {
  return withFolders([
    { kind: 'file', path: 'weir', mode: 0o755, bytes: executable },
    textFile('share/weir/installed-by', 'a container image\n'),
    textFile('etc/passwd', `weir:x:${user}:${user}:weir:/data:/none\n`),
    textFile('etc/group', `weir:x:${user}:\n`),
    textFile('etc/nsswitch.conf', 'hosts: files dns\n'),
    { kind: 'folder', path: 'data', mode: 0o700, owner: user },
    { kind: 'folder', path: 'tmp', mode: 0o1777 },
    { kind: 'folder', path: 'proc', mode: 0o755 },
    { kind: 'folder', path: 'dev', mode: 0o755 },
    ...libraries,
  ])
}

/** How the image is run, as the Dockerfile says. */
const runs = {
  User: `${user}:${user}`,
  WorkingDir: '/data',
  Env: ['WEIR_HOST=0.0.0.0', 'WEIR_DATA_DIR=/data', 'WEIR_BOOTSTRAP_SHOW=file'],
  Entrypoint: ['/weir'],
  Cmd: ['serve'],
  ExposedPorts: { '8787/tcp': {} },
  Volumes: { '/data': {} },
  // Not in the standard; Docker reads it.
  Healthcheck: {
    Test: ['CMD', '/weir', 'healthcheck'],
    Interval: 10_000_000_000,
    Timeout: 5_000_000_000,
    StartPeriod: 5_000_000_000,
  },
}

/** One image for several kinds of processors. */
export function imageOf(
  { version, commit, description, time }: ImageFacts,
  parts: readonly ImagePart[],
): Image {
  const blobs = new Map<string, Buffer>()
  const created = new Date(time * 1000).toISOString()
  const add = (mediaType: string, bytes: Buffer) => {
    const hash = createHash('sha256').update(bytes).digest('hex')
    blobs.set(hash, bytes)
    return { mediaType, digest: `sha256:${hash}`, size: bytes.length }
  }
  const json = (value: unknown) => Buffer.from(JSON.stringify(value))
  const annotations = {
    'org.opencontainers.image.title': 'weir',
    'org.opencontainers.image.description': description,
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.revision': commit,
    'org.opencontainers.image.created': created,
  }
  const manifests = parts.map((part) => {
    const tar = tarOf(imageFiles(part), time)
    const layer = add('application/vnd.oci.image.layer.v1.tar+gzip', gzip(tar))
    const config = add(
      'application/vnd.oci.image.config.v1+json',
      json({
        created,
        architecture: ociArch[part.arch],
        os: 'linux',
        config: { ...runs, Labels: annotations },
        rootfs: { type: 'layers', diff_ids: [`sha256:${createHash('sha256').update(tar).digest('hex')}`] },
        history: [{ created, created_by: 'bun run release' }],
      }),
    )
    const manifest = {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config,
      layers: [layer],
      annotations,
    }
    const platform = { architecture: ociArch[part.arch], os: 'linux' }
    return { ...add(manifest.mediaType, json(manifest)), platform }
  })
  const mediaType = 'application/vnd.oci.image.index.v1+json'
  const list = add(mediaType, json({ schemaVersion: 2, mediaType, manifests, annotations }))
  const index = {
    schemaVersion: 2,
    mediaType,
    manifests: [
      {
        ...list,
        annotations: {
          'org.opencontainers.image.ref.name': version,
          'io.containerd.image.name': `docker.io/library/weir:${version}`,
        },
      },
    ],
  }
  const files: ArchiveEntry[] = [
    textFile('oci-layout', '{"imageLayoutVersion":"1.0.0"}'),
    textFile('index.json', JSON.stringify(index)),
    ...[...blobs].map(([hash, bytes]): ArchiveEntry => ({
      kind: 'file',
      path: `blobs/sha256/${hash}`,
      mode: 0o644,
      bytes,
    })),
  ]
  return { tar: tarOf(withFolders(files), time), digest: list.digest }
}
