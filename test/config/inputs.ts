// Inputs of the configuration loader for tests: an imaginary machine with a few files.

import {
  type ConfigInputs,
  loadConfig,
  type LoadedConfig,
  type ShownSetting,
  shownSettings,
} from '../../src/config/config.ts'

export interface Machine {
  /** The text of weir.yaml; absent: there is none. */
  readonly yaml?: string
  readonly files?: Readonly<Record<string, string>>
  readonly env?: ConfigInputs['env']
  readonly flags?: ConfigInputs['flags']
  readonly readFile?: ConfigInputs['readFile']
  /** Paths of directories, and of files that are only looked for. */
  readonly directories?: readonly string[]
  readonly packaged?: boolean
}

export function load({
  yaml,
  files = {},
  env = {},
  flags = {},
  readFile,
  directories = [],
  packaged = false,
}: Machine): LoadedConfig {
  const there: Readonly<Record<string, string>> =
    yaml === undefined ? files : { ...files, '/home/me/weir.yaml': yaml }
  return loadConfig({
    flags,
    env,
    cwd: '/home/me',
    readFile: readFile ?? ((path) => there[path]),
    exists: (path) => directories.includes(path),
    packaged,
  })
}

export function loaded(machine: Machine): LoadedConfig & { kind: 'loaded' } {
  const result = load(machine)
  if (result.kind === 'faulty')
    throw new Error(result.faults.map(({ path, problem }) => `${path}: ${problem}`).join('\n'))
  return result
}

/** Every fault as `path: problem`, with what was probably meant in brackets. */
export function faultsOf(machine: Machine): string[] {
  const result = load(machine)
  if (result.kind === 'loaded') return []
  return result.faults.map(
    ({ path, problem, nearest }) => `${path}: ${problem}${nearest ? ` [${nearest}]` : ''}`,
  )
}

export function settingsOf(
  result: LoadedConfig & { kind: 'loaded' },
): Record<string, ShownSetting | undefined> {
  return Object.fromEntries(shownSettings(result).map((setting) => [setting.path, setting]))
}

/** The example of the configuration contract, as it is documented. */
export const exampleYaml = `server: { host: 127.0.0.1, port: 8787 }
data_dir: ./weir-data
providers:
  openai: { api_key: \${OPENAI_API_KEY} }
  anthropic: { base_url: http://127.0.0.1:9000/v1, api_key: file:/run/secrets/anthropic }
  lab:                                  # any server that speaks a known protocol
    protocol: openai-chat
    base_url: http://10.0.0.5:8000/v1
    api_key: secret
models:
  - id: lab/qwen3
    upstream: Qwen/Qwen3-32B
    price: { input: "0.10", cache_read: "0.01", cache_write: "0.125", cache_write_1h: "0.20", output: "0.40" }
    context_length: 131072
    max_output_tokens: 8192
    premium: false
search: { backend: searxng, base_url: http://127.0.0.1:8888, price_per_call: "0.00" }
egress: { allow_hosts: ["127.0.0.1:3001"] }
`
