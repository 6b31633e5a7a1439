// `bun run passwords:generate`: extracts the most common passwords of allowed length from a public list. Runs at build
// time only.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dictionary } from '@zxcvbn-ts/language-common'
import { shortestPassword } from './password.ts'

const long = dictionary['passwords-common'].filter((password) => password.length >= shortestPassword)
const text = `${JSON.stringify([...new Set(long)].toSorted(), null, 1)}\n`
writeFileSync(join(import.meta.dir, 'common-passwords.json'), text)
