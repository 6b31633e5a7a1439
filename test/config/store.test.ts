// The address of the database: what is asked of its certificate, where its password comes from, and what is shown of it.

import { describe, expect, test } from 'bun:test'
import { secretsOf, storePlace } from '../../src/config/config.ts'
import { placeOf } from '../../src/store/postgres/server.ts'
import { authority } from '../support/postgres.ts'
import { loaded, settingsOf } from './inputs.ts'

function addressOf(yaml: string): string | undefined {
  return storePlace(loaded({ yaml, files: { '/run/password': 'p/w@d' } }).config).server?.url
}

describe('store.url', () => {
  test('is SQLite where it is left out', () => expect(addressOf('server: { port: 1 }')).toBeUndefined())

  test.each([
    ['url: postgres://weir@db.example/weir', 'postgres://weir@db.example/weir?sslmode=verify-full'],
    [
      'url: postgres://weir@db.example/weir?sslmode=disable',
      'postgres://weir@db.example/weir?sslmode=disable',
    ],
    ['url: postgres://weir@127.0.0.1:1/weir', 'postgres://weir@127.0.0.1:1/weir'],
    ['url: postgres://weir@localhost/weir?sslmode=require', 'postgres://weir@localhost/weir?sslmode=require'],
    [
      `url: postgres://weir@localhost/weir, ca: ${authority}`,
      'postgres://weir@localhost/weir?sslmode=verify-full',
    ],
    [
      'url: postgres://weir@localhost/weir, password: file:/run/password',
      'postgres://weir:p%2Fw%40d@localhost/weir',
    ],
  ])('%s connects to %s', (store, address) => {
    expect(addressOf(`store: { ${store} }`)).toBe(address)
  })

  test('is masked, also with the password in it, and known to the log', () => {
    const found = loaded({ yaml: 'store: { url: "postgres://weir:hunter%2F22@db.example/weir" }' })
    expect(settingsOf(found)['store.url']?.value).not.toContain('hunter')
    expect(secretsOf(found.config)).toContain('hunter/22')
    expect(placeOf(found.config.store.url!)).toBe('postgres://weir@db.example/weir')
  })
})
