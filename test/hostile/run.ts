// The long run: `bun test/hostile/run.ts [--seconds 120] [--scale 1] [--streams 50] [--only NAME]`. Prints a row for each
// attack; exit 1 when the loop was held for longer, or a steady stream was later, than is promised.

import { parseArgs } from 'node:util'
import { besiege, findingsOf } from './hostile.ts'
import { measureUnread, mostUnreadMb, unreadFindingsOf } from './unread.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    scale: { type: 'string', default: '1' },
    streams: { type: 'string', default: '50' },
    only: { type: 'string', default: '' },
  },
})
const say = (line: string) => void process.stdout.write(`${line}\n`)
const report = await besiege({
  seconds: Number(values.seconds),
  scale: Number(values.scale),
  streams: Number(values.streams),
  chosen: (name) => name.includes(values.only),
  rounds: 'each and all',
  say,
})
say(JSON.stringify(report))
// In a gateway of its own: what the attacks have left behind is not of the clients that never read.
const unread = values.only === '' ? await measureUnread(2_000) : undefined
if (unread) say(JSON.stringify(unread))
const findings = [...findingsOf(report), ...(unread ? unreadFindingsOf(unread, mostUnreadMb) : [])]
for (const finding of findings) say(finding)
process.exitCode = findings.length > 0 ? 1 : 0
