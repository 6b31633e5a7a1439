// `bun run guide:generate`: writes the references of the guide that are made from the program.

import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { makeReferences } from './references.ts'

const guide = resolve(import.meta.dir, '../../src/guide')
for (const [file, text] of Object.entries(await makeReferences())) writeFileSync(join(guide, file), text)
