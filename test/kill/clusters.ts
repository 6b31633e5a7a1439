// Two servers of PostgreSQL: a primary, and a replica that follows it, for the runs by hand that fail over from one to the other.

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SQL } from 'bun'
import { migrate } from '../../src/store/postgres/server.ts'
import { CutProxy } from '../support/cut-proxy.ts'
import { beginServer, initServer } from '../support/postgres.ts'

/** How the primary waits for its replica. */
export type Replication = 'synchronous' | 'asynchronous' | 'none'

const database = 'weir'
const replicaName = 'replica'

export class Cluster {
  readonly folder: string
  readonly port: number
  readonly url: string

  constructor(folder: string, { url, port }: { readonly url: string; readonly port: number }) {
    this.folder = folder
    this.port = port
    this.url = `${url}/${database}`
  }

  /** The postmaster and all its processes. */
  get pids(): readonly number[] {
    const postmaster = Number(readFileSync(join(this.folder, 'data/postmaster.pid'), 'utf8').split('\n')[0])
    const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8')
    return [postmaster, ...children.split(' ').filter(Boolean).map(Number)]
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    for (const pid of this.pids) {
      try {
        process.kill(pid, signal)
      } catch (error) {
        // It has ended meanwhile.
        if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
      }
    }
    if (signal === 'SIGKILL') rmSync(join(this.folder, 'data/postmaster.pid'))
  }
}

/** Starts a server with the tables of this program, and a replica where one is wanted, which follows it over `link`. */
export async function startClusters(
  replication: Replication,
): Promise<{ readonly primary: Cluster; readonly replica?: Cluster; readonly link?: CutProxy }> {
  const { folder, bin } = await initServer()
  const first = await beginServer(folder, bin, {})
  await using(`${first.url}/postgres`, (admin) => admin.unsafe(`CREATE DATABASE ${database}`))
  await migrate(`${first.url}/${database}`, 0)
  first.ended.catch(() => undefined)
  if (replication === 'none') return { primary: new Cluster(folder, first) }

  process.kill(new Cluster(folder, first).pids[0]!, 'SIGINT')
  await first.ended
  const copy = `${folder}-replica`
  const copied = Bun.spawnSync(['cp', '-a', folder, copy])
  if (copied.exitCode !== 0) throw new Error(copied.stderr.toString())
  writeFileSync(join(copy, 'data/standby.signal'), '')
  const begun = await beginServer(folder, bin, { wal_level: 'replica' })
  begun.ended.catch(() => undefined)
  const primary = new Cluster(folder, begun)
  const link = new CutProxy(begun.port)
  const followed = await beginServer(copy, bin, {
    hot_standby: 'on',
    primary_conninfo: `host=127.0.0.1 port=${link.port} user=weir application_name=${replicaName}`,
  })
  followed.ended.catch(() => undefined)
  await using(primary.url, async (admin) => {
    if (replication === 'synchronous') {
      await admin.unsafe(`ALTER SYSTEM SET synchronous_standby_names = '${replicaName}'`)
      await admin.unsafe('SELECT pg_reload_conf()')
    }
    const wanted = replication === 'synchronous' ? 'sync' : 'async'
    const state = async () => {
      const rows: { state: string }[] = await admin.unsafe(
        `SELECT sync_state AS state FROM pg_stat_replication WHERE state = 'streaming'`,
      )
      return rows[0]?.state
    }
    while ((await state()) !== wanted) await Bun.sleep(50)
  })
  return { primary, replica: new Cluster(copy, followed), link }
}

/** A replica takes over; resolves when it takes writes. */
export async function promote(replica: Cluster): Promise<void> {
  await using(replica.url, (admin) => admin.unsafe('SELECT pg_promote(true)'))
}

export async function using<T>(url: string, act: (admin: SQL) => Promise<T>): Promise<T> {
  const admin = new SQL({ url, max: 1, bigint: true })
  try {
    return await act(admin)
  } finally {
    await admin.close()
  }
}
