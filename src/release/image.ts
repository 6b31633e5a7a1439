// A container image as an OCI layout in a tar file, written without an engine: `docker load`, `podman load` and `skopeo`
// read it. It holds what the Dockerfile's image holds: the executable, the C library it is linked to, and nothing else.

import { createHash } from 'node:crypto'
import { type ArchiveEntry, gzip, tarOf, textFile, withFolders } from './archive.ts'

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
