// Weir beside other gateways in their leanest settings, which bill nothing, and beside the bare proxy and the floor:
// `bun bench/peers.ts [--peers proxy,floor,gomodel,gomodel-usage,portkey,tensorzero,litellm] [--peer FILE]... [--rounds 4]
// [--seconds 3] [--warm-up 12] [--only CELL] [--installed FOLDER]`. What npm or PyPI has is fetched into a folder that is
// removed at the end, or stays in FOLDER for the next run; GoModel, which no registry has, is built from its sources and
// on the PATH as `gomodel`. Any other is described by a JSON file of the shape of `Peer`. Each has core 0 in its turn,
// load and provider share core 1. Ratios are Weir's throughput of the peer's, its processor time of a call of the peer's,
// and its median latency less the peer's, in paired rounds. Every answer is checked while it is measured.

import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { freePort, startWeir } from '../test/support/run-weir.ts'
import { tempDir } from '../test/support/tmp.ts'
import { conversations, tools, turnOf } from './agents.ts'
import { configuration } from './configuration.ts'
import type { OpenFigures, OpenLoad } from './open-loop.ts'
import { cpuMicros, gatewayCore, otherCore, residentMb, startScript } from './processes.ts'
import { median, spread } from './statistics.ts'
import { another, drive, type Expected } from './wrk.ts'

/**
 * Its texts may say `{port}`, `{upstream}` (the origin of the provider), `{folder}` (a fresh one, its own), `{installed}`
 * (where its packages are) and `{bun}` (the program that runs this).
 */
const Peer = z.strictObject({
  name: z.string(),
  /** Commands that put its packages into `{installed}`. */
  install: z.array(z.array(z.string())).default([]),
  /** Files of its folder, by name. */
  files: z.record(z.string(), z.string()).default({}),
  command: z.array(z.string()).min(1),
  env: z.record(z.string(), z.string()).default({}),
  headers: z.record(z.string(), z.string()).default({}),
  model: z.string(),
  /** It chooses its own port, and prints the base URL of its chat completions. */
  printsUrl: z.boolean().default(false),
})
type Peer = z.output<typeof Peer>

/** What a peer's clients send as their key. */
const benchKey = 'sk-bench-0123456789abcdef0123456789abcdef'

/** It lists the provider's models before it serves any, and has one log line a call unless told otherwise. */
const gomodel = {
  command: ['gomodel'],
  env: {
    PORT: '{port}',
    OPENAI_API_KEY: 'bench',
    OPENAI_BASE_URL: '{upstream}/v1',
    LOG_LEVEL: 'error',
    LOGGING_ENABLED: 'false',
    METRICS_ENABLED: 'false',
    ADMIN_ENDPOINTS_ENABLED: 'false',
    ADMIN_UI_ENABLED: 'false',
    SWAGGER_ENABLED: 'false',
    // Streams that the load cuts at the end of a round count as failures of the provider.
    CIRCUIT_BREAKER_FAILURE_THRESHOLD: '1000000000',
  },
  model: 'fixed',
}

const known: readonly z.input<typeof Peer>[] = [
  { ...gomodel, name: 'gomodel', env: { ...gomodel.env, USAGE_ENABLED: 'false' } },
  // A row for each call, written in groups some seconds later.
  { ...gomodel, name: 'gomodel-usage', env: { ...gomodel.env, USAGE_ENABLED: 'true' } },
  {
    // On Bun: four times as fast as on Node, where its streams of this provider fail.
    name: 'portkey',
    install: [
      ['npm', 'install', '--no-audit', '--no-fund', '--prefix', '{installed}', '@portkey-ai/gateway@1.15.2'],
    ],
    command: [
      '{bun}',
      '{installed}/node_modules/@portkey-ai/gateway/build/start-server.js',
      '--headless',
      '--port={port}',
    ],
    env: { NODE_ENV: 'production' },
    headers: { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': '{upstream}/v1' },
    model: 'fixed',
  },
  {
    // The package for Python has the whole gateway in it, and starts it in its process.
    name: 'tensorzero',
    install: [
      ['python3', '-m', 'venv', '{installed}/venv'],
      ['{installed}/venv/bin/pip', 'install', '--quiet', 'tensorzero', 'openai'],
    ],
    files: {
      'tensorzero.toml': `
[gateway]
observability.enabled = false
[models.fixed]
routing = ["bench"]
[models.fixed.providers.bench]
type = "openai"
model_name = "fixed"
api_base = "{upstream}/v1/"
api_key_location = "none"
`,
      'start.py': `
import time
from openai import OpenAI
from tensorzero import patch_openai_client
client = patch_openai_client(OpenAI(api_key="bench"), config_file="{folder}/tensorzero.toml", async_setup=False)
print(client.base_url, flush=True)
while True:
    time.sleep(3600)
`,
    },
    command: ['{installed}/venv/bin/python', '{folder}/start.py'],
    env: { RUST_LOG: 'error' },
    model: 'tensorzero::model_name::fixed',
    printsUrl: true,
  },
  {
    name: 'litellm',
    install: [
      ['python3', '-m', 'venv', '{installed}/venv'],
      ['{installed}/venv/bin/pip', 'install', '--quiet', 'litellm[proxy]'],
    ],
    files: {
      'config.yaml': `
model_list:
  - model_name: fixed
    litellm_params: { model: openai/fixed, api_base: "{upstream}/v1", api_key: bench }
`,
    },
    command: [
      '{installed}/venv/bin/litellm',
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
    rate: { type: 'string', default: '500' },
    only: { type: 'string', default: '' },
    'warm-up': { type: 'string', default: '12' },
    installed: { type: 'string' },
  },
})
const [rounds, seconds] = [Number(flags.rounds), Number(flags.seconds)]
/** At most this long for each cell: a busy machine is warm later. */
const warmUpSeconds = Number(flags['warm-up'])
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

interface Cell {
  readonly name: string
  readonly stream: boolean
  readonly connections: number
  readonly prompt: object
  /** Calls that fall due by themselves, instead of connections that ask as fast as they are answered. */
  readonly perSecond?: number
}

const short = { messages: [{ role: 'user', content: 'Say something about the river, please.' }] }
const small = { prompt: short, connections: 32 }
const agent = { stream: false, connections: 8 }
const cells: readonly Cell[] = [
  { ...small, name: 'whole', stream: false },
  { ...small, name: 'whole, alone', stream: false, connections: 1 },
  { ...small, name: 'stream', stream: true },
  { ...small, name: 'stream, alone', stream: true, connections: 1 },
  { ...agent, name: '200 kB, new', prompt: turnOf(200_000, another) },
  { ...agent, name: '200 kB, again', prompt: turnOf(200_000, 'Be brief.') },
  { ...agent, name: '200 kB, streamed', stream: true, prompt: turnOf(200_000, 'Be brief.') },
  { ...agent, name: '28 kB of tools', prompt: { ...turnOf(1_000, 'Be brief.'), tools } },
  { ...agent, name: 'an agent after 10 turns', prompt: conversations.chat(10) },
  { ...agent, name: 'an agent after 40 turns', prompt: conversations.chat(40) },
  { ...small, name: 'whole, open loop', stream: false, perSecond: Number(flags.rate) },
].filter(({ name }) => name.includes(flags.only))

/** Every answer is looked at: the words of the provider are there, all of them, and the end. */
const expected: Readonly<Record<'whole' | 'stream', readonly Expected[]>> = {
  whole: [
    { text: `"content":"${'word '.repeat(40).trim()}"`, times: 1 },
    { text: '"finish_reason":"stop"', times: 1 },
  ],
  stream: [
    { text: '"content":"word "', times: 97 },
    { text: '"finish_reason":"stop"', times: 1 },
    { text: '[DONE]', times: 1 },
  ],
}

const upstream = await startScript(otherCore, 'upstream.ts')
const subjects: Subject[] = []
try {
  subjects.push(await startOurs())
  for (const name of flags.peers.split(',').filter((each) => each !== ''))
    subjects.push(await startKnown(name))
  for (const file of flags.peer)
    subjects.push(await start(Peer.parse(JSON.parse(readFileSync(file, 'utf8')))))
  await compare()
} finally {
  for (const subject of subjects) await subject.stop()
  await upstream.stop()
}

async function startKnown(name: string): Promise<Subject> {
  if (name === 'proxy' || name === 'floor') return startReference(name)
  const peer = known.find((each) => each.name === name)
  if (!peer)
    throw new Error(`no peer ${name}; known are proxy, floor, ${known.map((each) => each.name).join(', ')}`)
  return start(Peer.parse(peer))
}

/** What load.ts compares with as well: one that does nothing, and one that keeps two rows. */
async function startReference(name: 'proxy' | 'floor'): Promise<Subject> {
  const folder = tempDir(`weir-peer-${name}-`)
  const args = [upstream.origin, ...(name === 'floor' ? [folder.join('floor.db')] : [])]
  const { pid, origin, stop } = await startScript(gatewayCore, `${name}.ts`, args)
  return {
    name,
    pid,
    url: `${origin}/v1/chat/completions`,
    key: benchKey,
    model: 'fixed',
    headers: {},
    stop: async () => {
      await stop()
      folder.remove()
    },
  }
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
  const installed = join(flags.installed ?? folder.path, peer.name)
  const port = await freePort()
  const filled = (text: string) =>
    text
      .replaceAll('{folder}', folder.path)
      .replaceAll('{installed}', installed)
      .replaceAll('{port}', `${port}`)
      .replaceAll('{upstream}', upstream.origin)
      .replaceAll('{bun}', process.execPath)
  const filledIn = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, filled(text)]))
  for (const command of existsSync(installed) ? [] : peer.install) {
    const { exitCode, stderr } = Bun.spawnSync(command.map(filled), { stdout: 'ignore', stderr: 'pipe' })
    if (exitCode === 0) continue
    rmSync(installed, { recursive: true, force: true })
    throw new Error(`${peer.name} could not be installed:\n${stderr.toString()}`)
  }
  for (const [name, text] of Object.entries(peer.files)) await Bun.write(folder.join(name), filled(text))
  const child = Bun.spawn(['taskset', '-c', gatewayCore, ...peer.command.map(filled)], {
    cwd: folder.path,
    env: { ...process.env, ...filledIn(peer.env) },
    stdin: 'ignore',
    stdout: Bun.file(folder.join('output')),
    stderr: Bun.file(folder.join('errors')),
  })
  const subject: Subject & { url: string } = {
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
    if (peer.printsUrl) subject.url = `${await printedUrl(folder.join('output'), child)}chat/completions`
    await answering(subject, child)
  } catch (error) {
    const said = readFileSync(folder.join('output'), 'utf8') + readFileSync(folder.join('errors'), 'utf8')
    await subject.stop()
    throw new Error(`${peer.name} did not start:\n${said.slice(-2_000)}`, { cause: error })
  }
  return subject
}

async function printedUrl(output: string, child: Bun.Subprocess): Promise<string> {
  const deadline = performance.now() + startTimeoutMs
  while (child.exitCode === null && performance.now() < deadline) {
    const url = /http:\/\/127\.0\.0\.1:\d+\S*/.exec(readFileSync(output, 'utf8'))?.[0]
    if (url !== undefined) return url
    await Bun.sleep(200)
  }
  throw new Error('it printed no URL')
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
      body: JSON.stringify(bodyOf(subject, { stream: false, prompt: short })),
    }).catch(() => undefined)
    const text = await answer?.text()
    if (answer?.ok && text?.includes('"choices"')) return
    if (child.exitCode !== null) throw new Error(`${subject.name} exited with ${child.exitCode}`)
    if (performance.now() > deadline) throw new Error(`${subject.name} answers ${answer?.status}: ${text}`)
    await Bun.sleep(200)
  }
}

function bodyOf(
  { model }: Pick<Subject, 'model'>,
  { stream, prompt }: Pick<Cell, 'stream' | 'prompt'>,
): object {
  return {
    model,
    ...prompt,
    max_tokens: 128,
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  }
}

interface Sample {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Of an open loop alone. */
  readonly p999?: number
  /** Processor time of a call, microseconds. */
  readonly cpu: number
  /** Answers that were not as expected, and calls without one. */
  readonly failures: number
}

async function run(subject: Subject, cell: Cell): Promise<Sample> {
  const before = cpuMicros(subject.pid)
  const { calls, ...figures } =
    cell.perSecond === undefined
      ? await closedLoop(subject, cell)
      : await openLoop(subject, cell, cell.perSecond)
  // A peer's are part of its figure.
  if (figures.failures > 0 && subject === subjects[0])
    throw new Error(`${figures.failures} answers failed (${cell.name})`)
  return { ...figures, cpu: (cpuMicros(subject.pid) - before) / calls }
}

async function closedLoop(subject: Subject, cell: Cell) {
  const { url, key, headers } = subject
  const body = bodyOf(subject, cell)
  const { connections } = cell
  const right = expected[cell.stream ? 'stream' : 'whole']
  const figures = await drive({ url, key, headers, body, connections, pauseMs: 0, seconds, expected: right })
  return { ...figures, calls: figures.perSecond * seconds }
}

async function openLoop(subject: Subject, cell: Cell, perSecond: number) {
  const load: OpenLoad = {
    url: subject.url,
    headers: {
      ...subject.headers,
      authorization: `Bearer ${subject.key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(bodyOf(subject, cell)),
    perSecond,
    seconds: seconds * 2,
    expected: expected[cell.stream ? 'stream' : 'whole'],
  }
  const script = resolve(import.meta.dir, 'open-loop.ts')
  const child = Bun.spawn(['taskset', '-c', otherCore, process.execPath, script, JSON.stringify(load)], {
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '8192', BUN_OPTIONS: '--no-orphans' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const figures = JSON.parse(await new Response(child.stdout).text()) as OpenFigures
  return { ...figures, perSecond: figures.calls / load.seconds }
}

async function compare(): Promise<void> {
  const [ours, ...peers] = subjects
  if (!ours) return
  // Until the compilers have done most of their work, by calls: a slow one has made fewer in the same time.
  const warming = cells.filter(({ connections, perSecond }) => connections > 1 && perSecond === undefined)
  for (const subject of subjects)
    for (const cell of warming)
      for (let calls = 0, spent = 0; calls < 16_000 && spent < warmUpSeconds; spent += seconds)
        calls += (await run(subject, cell)).perSecond * seconds
  for (const cell of cells) {
    const measured = new Map(subjects.map((subject) => [subject, [] as Sample[]]))
    for (let round = 0; round < rounds; round++)
      for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
        measured.get(subject)!.push(await run(subject, cell))
    console.log(
      `\n${cell.name}${cell.perSecond ? `, ${cell.perSecond}/s` : `, ${cell.connections} connection(s)`}`,
    )
    for (const [subject, samples] of measured) {
      const of = (figure: (sample: Sample) => number) => median(samples.map(figure))
      const failed = samples.reduce((sum, { failures }) => sum + failures, 0)
      const tail = cell.perSecond ? `, p99.9 ${of(({ p999 = 0 }) => p999).toFixed(2)} ms` : ''
      console.log(
        `  ${subject.name}: ${of((each) => each.perSecond).toFixed(0)}/s, p50 ${of((each) => each.p50).toFixed(2)} ms, p99 ${of((each) => each.p99).toFixed(2)} ms${tail}, ${of((each) => each.cpu).toFixed(0)} µs a call, ${residentMb(subject.pid).toFixed(0)} MB${failed > 0 ? `, ${failed} FAILED` : ''}`,
      )
    }
    for (const peer of peers) {
      const pairs = measured.get(ours)!.map((one, at) => [one, measured.get(peer)![at]!] as const)
      const ratio = (of: (sample: Sample) => number) =>
        spread(pairs.map(([one, other]) => of(one) / of(other)))
      const added = spread(pairs.map(([one, other]) => one.p50 - other.p50))
      console.log(
        `  weir of ${peer.name}: throughput × ${ratio((each) => each.perSecond)}, processor time × ${ratio((each) => each.cpu)}, p50 ${added} ms over`,
      )
    }
  }
}
