// A webhook event is a row of notify/events.ts. Documentation, requests, help and the guide follow from it, the compiler
// names the console's text for it (pages/webhooks.tsx), the Hindi check that text; what else it needs is named here.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventTypes } from '../../src/notify/events.ts'

const root = join(import.meta.dir, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const senders = ['src/notify', 'src/store']
  .flatMap((folder) =>
    [...new Bun.Glob('**/*.ts').scanSync({ cwd: join(root, folder) })].map((file) => `${folder}/${file}`),
  )
  .filter((file) => file !== 'src/notify/events.ts')
  .map(read)

test.each(eventTypes)('%p is sent', (type) => {
  expect(senders.some((source) => new RegExp(`\\btype(:| =) '${RegExp.escape(type)}'`).test(source))).toBe(
    true,
  )
})
