// A webhook event is added to the list in notify/webhook.ts. Documentation and requests follow from it, the compiler
// names the console's text for it (pages/webhooks.tsx), the Hindi check that text; what else it needs is named here.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventTypes } from '../../src/notify/webhook.ts'

const root = join(import.meta.dir, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const senders = ['src/notify', 'src/store']
  .flatMap((folder) =>
    [...new Bun.Glob('**/*.ts').scanSync({ cwd: join(root, folder) })].map((file) => `${folder}/${file}`),
  )
  .filter((file) => file !== 'src/notify/webhook.ts')
  .map(read)
const page = read('src/guide/webhooks.md')

test.each(eventTypes)('%p is sent', (type) => {
  expect(senders.some((source) => source.includes(`'${type}'`))).toBe(true)
})

test.each(eventTypes)('the guide says when %p is sent', (type) => {
  expect(page.includes(`\`${type}\``)).toBe(true)
})

// The command line loads nothing but its own names, so its help cannot be made from the list.
test.each(eventTypes)('the help of weir webhooks names %p', (type) => {
  expect(read('src/cli/program.ts')).toContain(type)
})
