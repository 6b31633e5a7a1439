// Commands where everything is kept on PostgreSQL: what is the server's business is told, and nothing touches SQLite.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { run } from './run.ts'

const env = { WEIR_STORE_URL: 'postgres://weir:hunter22@127.0.0.1:1/weir' }

describe('with store.url', () => {
  let dir: TempDir
  beforeEach(() => {
    dir = tempDir('weir-cli-postgres-')
  })
  afterEach(() => dir.remove())

  test.each([
    ['backup copy.db', 'pg_dump --format=custom --file=FILE postgres://weir@127.0.0.1:1/weir'],
    ['restore copy.db', 'pg_restore'],
    ['ledger accept --reason because', 'nothing to accept'],
    ['accounts list', 'cannot be reached'],
    ['accounts create --email a@example.org', 'cannot be reached'],
    ['serve --workers 2', '--workers is gone: several processes are --processes now, with store.url'],
    ['serve --process 2', '--process is said by weir serve alone'],
    ['doctor', 'postgresql'],
  ])('weir %s says what to do, without the password, and makes no database', async (command, text) => {
    const { code, out, err } = await run({ cwd: dir.path, env }, ...command.split(' '))
    expect(code).not.toBe(0)
    expect(`${out}${err}`).toContain(text)
    expect(`${out}${err}`).not.toContain('hunter22')
    expect(readdirSync(dir.path, { recursive: true })).not.toContain('weir-data/weir.db')
  })

  test('weir ledger move takes the address of a PostgreSQL alone', async () => {
    const { code, err } = await run(
      { cwd: dir.path },
      'ledger',
      'move',
      '--to',
      'mysql://weir:hunter22@db/weir',
    )
    expect([code, err]).toEqual([1, expect.stringContaining('there is no database in')])
    await run({ cwd: dir.path }, 'accounts', 'create', '--email', 'a@example.org')
    const refused = await run({ cwd: dir.path }, 'ledger', 'move', '--to', 'mysql://weir:hunter22@db/weir')
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringContaining('must be an address such as postgres://'),
    ])
    expect(refused.err).not.toContain('hunter22')
  })
})
