// Holds the answers of journeys against the documentation of the console's API and the admin API.

import { expect } from 'bun:test'
import { adminAnswers } from '../../src/http/admin/answers.ts'
import { consoleAnswers } from '../../src/http/console/answers.ts'
import type { Answers } from '../../src/http/docs/operation.ts'

/** Fails where a JSON answer, which succeeded, is not what the documentation says of `method` and `path`. */
export function expectDocumented(
  api: 'console' | 'admin',
  method: string,
  path: string,
  json: unknown,
): void {
  const [bare = ''] = path.split('?')
  const isAdmin = api === 'admin' || bare.startsWith('admin/')
  const table = isAdmin ? adminAnswers : consoleAnswers
  const schema = schemaOf(table, method, bare.replace(/^admin\//, ''))
  if (schema === undefined) return
  const { success, data, error } = schema.safeParse(json)
  expect({ route: `${method} ${bare}`, issues: success ? [] : error.issues }).toEqual({
    route: `${method} ${bare}`,
    issues: [],
  })
  // Parsing drops what an inner schema does not know, so equality says that nothing is left untold.
  expect(data).toEqual(json)
}

function schemaOf(table: Answers, method: string, path: string): Answers[string] | undefined {
  const given = path.split('/')
  const name = Object.keys(table).find((key) => {
    const [of, pattern = ''] = key.split(' ')
    const wanted = pattern.split('/')
    return (
      of === method &&
      wanted.length === given.length &&
      wanted.every((segment, at) => segment.startsWith(':') || segment === given[at])
    )
  })
  return name === undefined ? undefined : table[name]
}
