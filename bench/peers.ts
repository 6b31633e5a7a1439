// Weir beside other gateways in their leanest settings, which bill nothing: `bun bench/peers.ts [--peers portkey,litellm]
// [--peer FILE]... [--rounds 4]`. What npm or PyPI has is fetched into a folder that is removed at the end; any other is
// described by a JSON file of the shape of `Peer`. Each has core 0 in its turn, load and provider share core 1. Ratios
// are Weir's throughput of the peer's, and its median latency less the peer's, in paired rounds.

import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { freePort, startWeir } from '../test/support/run-weir.ts'
import { tempDir } from '../test/support/tmp.ts'
import { configuration } from './configuration.ts'
import { gatewayCore, otherCore, residentMb, startScript } from './processes.ts'
import { median, spread } from './statistics.ts'
import { drive, type Figures } from './wrk.ts'

/**
 * Its texts may say `{port}`, `{upstream}` (the origin of the provider), `{folder}` (a fresh one, its own) and `{bun}`
 * (the program that runs this).
 */
const Peer = z.strictObject({
  name: z.string(),
  /** Commands that put it into its folder. */
  install: z.array(z.array(z.string())).default([]),
  /** Files of its folder, by name. */
  files: z.record(z.string(), z.string()).default({}),
  command: z.array(z.string()).min(1),
  env: z.record(z.string(), z.string()).default({}),
  headers: z.record(z.string(), z.string()).default({}),
  model: z.string(),
})
type Peer = z.output<typeof Peer>

/** What a peer's clients send as their key. */
const benchKey = 'sk-bench-0123456789abcdef0123456789abcdef'

const known: readonly z.input<typeof Peer>[] = [
  {
    // On Bun: four times as fast as on Node, where its streams of this provider fail.
    name: 'portkey',
    install: [
      ['npm', 'install', '--no-audit', '--no-fund', '--prefix', '{folder}', '@portkey-ai/gateway@1.15.2'],
    ],
    command: [
      '{bun}',
      '{folder}/node_modules/@portkey-ai/gateway/build/start-server.js',
      '--headless',
      '--port={port}',
    ],
    env: { NODE_ENV: 'production' },
    headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': '{upstream}/v1' },
    model: 'fixed',
  },
  {
    name: 'litellm',
    install: [
      ['python3', '-m', 'venv', '{folder}/venv'],
      ['{folder}/venv/bin/pip', 'install', '--quiet', 'litellm[proxy]'],
    ],
    files: {
      'config.yaml': `
model_list:
  - model_name: fixed
    litellm_params: { model: openai/fixed, api_base: "{upstream}/v1", api_key: bench }
`,
    },
    command: [
      '{folder}/venv/bin/litellm',
      '--config',
      '{folder}/config.yaml',
      '--host',
      '127.0.0.1',
      '--port',
      '{port}',
    ],
    env: { LITELLM_LOG: 'ERROR', LITELLM_LOCAL_MODEL_COST_MAP: 'True', LITELLM_MASTER_KEY: benchKey },
    model: 'fixed',
  },
]

const { values: flags } = parseArgs({
  options: {
    peers: { type: 'string', default: 'portkey' },
    peer: { type: 'string', multiple: true, default: [] },
    rounds: { type: 'string', default: '4' },
    seconds: { type: 'string', default: '3' },
  },
})
const [rounds, seconds] = [Number(flags.rounds), Number(flags.seconds)]
const startTimeoutMs = 120_000

interface Subject {
  readonly name: string
  readonly pid: number
  readonly url: string
  readonly key: string
  readonly model: string
  readonly headers: Readonly<Record<string, string>>
  stop(): Promise<void>
}

const cells = [
  { name: 'whole', stream: false, connections: 32 },
  { name: 'whole', stream: false, connections: 1 },
  { name: 'stream', stream: true, connections: 32 },
  { name: 'stream', stream: true, connections: 1 },
]
type Cell = (typeof cells)[number]

const upstream = await startScript(otherCore, 'upstream.ts')
const subjects: Subject[] = []
try {
  subjects.push(await startOurs())
  for (const peer of [...chosen(), ...flags.peer.map(read)]) subjects.push(await start(peer))
  await compare()
} finally {
  for (const subject of subjects) await subject.stop()
  await upstream.stop()
}

function chosen(): Peer[] {
  return flags.peers
    .split(',')
    .filter((name) => name !== '')
    .map((name) => {
      const peer = known.find((each) => each.name === name)
      if (!peer) throw new Error(`no peer ${name}; known are ${known.map((each) => each.name).join(', ')}`)
      return Peer.parse(peer)
    })
}

function read(file: string): Peer {
  return Peer.parse(JSON.parse(readFileSync(file, 'utf8')))
}

async function startOurs(): Promise<Subject> {
  const config = configuration(upstream.origin)
  const weir = await startWeir({ config, prefix: ['taskset', '-c', gatewayCore] })
  const { pid, key } = weir
  const url = `${weir.origin}/v1/chat/completions`
  return {
    name: 'weir',
    pid,
    url,
    key,
    model: 'bench/fixed',
    headers: {},
    stop: async () => void (await weir.stop()),
  }
}

async function start(peer: Peer): Promise<Subject> {
  const folder = tempDir(`weir-peer-${peer.name}-`)
  const port = await freePort()
  const filled = (text: string) =>
    text
      .replaceAll('{folder}', folder.path)
      .replaceAll('{port}', `${port}`)
      .replaceAll('{upstream}', upstream.origin)
      .replaceAll('{bun}', process.execPath)
  const filledIn = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, filled(text)]))
  for (const command of peer.install) {
    const { exitCode, stderr } = Bun.spawnSync(command.map(filled), { stdout: 'ignore', stderr: 'pipe' })
    if (exitCode !== 0) throw new Error(`${peer.name} could not be installed:\n${stderr.toString()}`)
  }
  for (const [name, text] of Object.entries(peer.files)) await Bun.write(folder.join(name), filled(text))
  const child = Bun.spawn(['taskset', '-c', gatewayCore, ...peer.command.map(filled)], {
    cwd: folder.path,
    env: { ...process.env, ...filledIn(peer.env) },
    stdin: 'ignore',
    stdout: Bun.file(folder.join('output')),
    stderr: Bun.file(folder.join('errors')),
  })
  const subject = {
    name: peer.name,
    pid: child.pid,
    url: `http://127.0.0.1:${port}/v1/chat/completions`,
    key: benchKey,
    model: peer.model,
    headers: filledIn(peer.headers),
    stop: async () => {
      child.kill('SIGTERM')
      await child.exited
      folder.remove()
    },
  }
  try {
    await answering(subject, child)
  } catch (error) {
    const said = readFileSync(folder.join('output'), 'utf8') + readFileSync(folder.join('errors'), 'utf8')
    await subject.stop()
    throw new Error(`${peer.name} did not start:\n${said.slice(-2_000)}`, { cause: error })
  }
  return subject
}

/** Waits until it answers a call, whole. */
async function answering(subject: Subject, child: Bun.Subprocess): Promise<void> {
  const deadline = performance.now() + startTimeoutMs
  for (;;) {
    const answer = await fetch(subject.url, {
      method: 'POST',
      headers: {
        ...subject.headers,
        authorization: `Bearer ${subject.key}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify(bodyOf(subject, false)),
    }).catch(() => undefined)
    const text = await answer?.text()
    if (answer?.ok && text?.includes('"choices"')) return
    if (child.exitCode !== null) throw new Error(`${subject.name} exited with ${child.exitCode}`)
    if (performance.now() > deadline) throw new Error(`${subject.name} answers ${answer?.status}: ${text}`)
    await Bun.sleep(200)
  }
}

function bodyOf({ model }: Subject, stream: boolean): object {
  return {
    model,
    messages: [{ role: 'user', content: 'Say something about the river, please.' }],
    max_tokens: 128,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
}

async function run(subject: Subject, { stream, connections }: Cell): Promise<Figures> {
  const { url, key, headers } = subject
  const figures = await drive({
    url,
    key,
    headers,
    body: bodyOf(subject, stream),
    connections,
    pauseMs: 0,
    seconds,
  })
  if (figures.failures > 0) throw new Error(`${figures.failures} answers of ${subject.name} failed`)
  return figures
}

async function compare(): Promise<void> {
  const [ours, ...peers] = subjects
  if (!ours) return
  // Until the compilers have done most of their work, by calls: a slow one has made fewer in the same time.
  for (const subject of subjects)
    for (const cell of cells.filter(({ connections }) => connections > 1))
      for (let calls = 0, spent = 0; calls < 16_000 && spent < 24; spent += seconds)
        calls += (await run(subject, cell)).perSecond * seconds
  for (const cell of cells) {
    const measured = new Map(subjects.map((subject) => [subject, [] as Figures[]]))
    for (let round = 0; round < rounds; round++)
      for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
        measured.get(subject)!.push(await run(subject, cell))
    console.log(`\n${cell.name}, ${cell.connections} connection(s)`)
    for (const [subject, figures] of measured) {
      const [rate, p50, p99] = (['perSecond', 'p50', 'p99'] as const).map((each) =>
        median(figures.map((one) => one[each])),
      )
      console.log(
        `  ${subject.name}: ${rate!.toFixed(0)}/s, p50 ${p50!.toFixed(2)} ms, p99 ${p99!.toFixed(2)} ms, ${residentMb(subject.pid).toFixed(0)} MB`,
      )
    }
    for (const peer of peers) {
      const pairs = measured.get(ours)!.map((one, at) => [one, measured.get(peer)![at]!] as const)
      const rates = spread(pairs.map(([one, other]) => one.perSecond / other.perSecond))
      const added = spread(pairs.map(([one, other]) => one.p50 - other.p50))
      console.log(`  weir of ${peer.name}: throughput × ${rates}, p50 ${added} ms over`)
    }
  }
}
