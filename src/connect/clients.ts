// How to configure each client program and library for a gateway: the data of the console's Connect page.

import { isDeepStrictEqual } from 'node:util'
import { isMap, isSeq, parseDocument } from 'yaml'

/** A text to run, or to write into a file. `{{key}}` and `{{model}}` are placeholders. */
export interface ClientText {
  /** Where it belongs, as its users write it; null for what is run or called from anywhere. */
  readonly path: string | null
  readonly language: 'sh' | 'python' | 'typescript' | 'json' | 'toml' | 'yaml'
  readonly text: string
  /** Settings of the root that a file must have, and that stay as they are in one that has them; YAML only. */
  readonly keeps?: readonly string[]
}

export interface ConnectedClient {
  readonly id: string
  readonly name: string
  readonly about: string
  readonly files: readonly ClientText[]
}

/** Every client, for a gateway at `origin`, an address without a slash at its end and without a version. */
export function connectedClients(origin: string): readonly ConnectedClient[] {
  const base = `${origin}/v1`
  return [...libraries(origin, base), ...programs(origin, base)]
}

const inLanguage = (language: ClientText['language']) => (text: string) => ({ path: null, language, text })
const sh = inLanguage('sh')
const python = inLanguage('python')
const typescript = inLanguage('typescript')

function libraries(origin: string, base: string): readonly ConnectedClient[] {
  return [
    {
      id: 'curl',
      name: 'curl',
      about: 'One request, streamed.',
      files: [
        sh(`curl -N ${base}/chat/completions \\
  -H "Authorization: Bearer {{key}}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "{{model}}", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'`),
      ],
    },
    {
      id: 'openai-python',
      name: 'OpenAI, Python',
      about: 'The official library. It also reads OPENAI_BASE_URL and OPENAI_API_KEY from the environment.',
      files: [
        python(`from openai import OpenAI

client = OpenAI(base_url="${base}", api_key="{{key}}")
answer = client.chat.completions.create(
    model="{{model}}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`),
      ],
    },
    {
      id: 'openai-js',
      name: 'OpenAI, JavaScript',
      about: 'The official library. It also reads OPENAI_BASE_URL and OPENAI_API_KEY from the environment.',
      files: [
        typescript(`import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${base}', apiKey: '{{key}}' })
const answer = await client.responses.create({ model: '{{model}}', input: 'Hello' })
console.log(answer.output_text)`),
      ],
    },
    {
      id: 'anthropic-python',
      name: 'Anthropic, Python',
      about: 'The Messages protocol, with every model. The base URL is without a version here.',
      files: [
        python(`from anthropic import Anthropic

client = Anthropic(base_url="${origin}", api_key="{{key}}")
message = client.messages.create(
    model="{{model}}",
    max_tokens=1024,
    messages=[{"role": "user", "content": "Hello"}],
)
print(message.content[0].text)`),
      ],
    },
    {
      id: 'google-genai',
      name: 'Google Gen AI',
      about: 'Gemini’s protocol, with every model. The base URL is without a version here.',
      files: [
        typescript(`import { GoogleGenAI } from '@google/genai'

const google = new GoogleGenAI({ apiKey: '{{key}}', httpOptions: { baseUrl: '${origin}' } })
const answer = await google.models.generateContent({ model: '{{model}}', contents: 'Hello' })
console.log(answer.text)`),
      ],
    },
    {
      id: 'ai-sdk',
      name: 'Vercel AI SDK',
      about: 'By its provider for compatible servers.',
      files: [
        typescript(`import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText } from 'ai'

const weir = createOpenAICompatible({ name: 'weir', baseURL: '${base}', apiKey: '{{key}}' })
const { text } = await generateText({ model: weir('{{model}}'), prompt: 'Hello' })
console.log(text)`),
      ],
    },
    {
      id: 'langchain',
      name: 'LangChain',
      about: 'By its integration for OpenAI.',
      files: [
        python(`from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url="${base}", api_key="{{key}}", model="{{model}}")
print(model.invoke("Hello").content)`),
      ],
    },
  ]
}

function programs(origin: string, base: string): readonly ConnectedClient[] {
  return [
    {
      id: 'claude-code',
      name: 'Claude Code',
      about:
        'Variables of its environment. Models of Anthropic may be named without a provider; others are used as ' +
        'well, for small tasks the one that ANTHROPIC_DEFAULT_HAIKU_MODEL names.',
      files: [
        sh(`export ANTHROPIC_BASE_URL=${origin}
export ANTHROPIC_AUTH_TOKEN={{key}}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={{model}}
export CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1
claude --model {{model}}`),
      ],
    },
    {
      id: 'codex',
      name: 'Codex',
      about: 'A provider of its own in the configuration; the key comes from the environment.',
      files: [
        {
          path: '~/.codex/config.toml',
          language: 'toml',
          text: `model = "{{model}}"
model_provider = "weir"

[model_providers.weir]
name = "Weir"
base_url = "${base}"
env_key = "WEIR_API_KEY"
wire_api = "responses"`,
        },
        sh('export WEIR_API_KEY={{key}}\ncodex'),
      ],
    },
    {
      id: 'gemini-cli',
      name: 'Gemini CLI',
      about:
        'Two variables of its environment; a setting makes it use them, whatever it signed in with before.',
      files: [
        {
          path: '~/.gemini/settings.json',
          language: 'json',
          text: `{
  "security": { "auth": { "selectedType": "gemini-api-key" } }
}`,
        },
        sh(`export GOOGLE_GEMINI_BASE_URL=${origin}
export GEMINI_API_KEY={{key}}
gemini --model {{model}}`),
      ],
    },
    {
      id: 'opencode',
      name: 'opencode',
      about: 'A provider of its own in the configuration.',
      files: [
        {
          path: '~/.config/opencode/opencode.json',
          language: 'json',
          text: JSON.stringify(
            {
              provider: {
                weir: {
                  npm: '@ai-sdk/openai-compatible',
                  options: { baseURL: base, apiKey: '{{key}}' },
                  models: { '{{model}}': {} },
                },
              },
            },
            null,
            2,
          ),
        },
        sh('opencode --model weir/{{model}}'),
      ],
    },
    {
      id: 'qwen-code',
      name: 'Qwen Code',
      about: 'Two variables of its environment.',
      files: [
        sh(`export OPENAI_BASE_URL=${base}
export OPENAI_API_KEY={{key}}
qwen --auth-type openai --model {{model}}`),
      ],
    },
    {
      id: 'cline',
      name: 'Cline',
      about: 'Its command sets the provider up once; in an editor it is the provider “OpenAI Compatible”.',
      files: [
        sh(`cline auth -p openai-compatible -b ${base} -k {{key}} -m {{model}}
cline -P openai-compatible`),
      ],
    },
    {
      id: 'aider',
      name: 'aider',
      about: 'The id of the model has openai/ in front of it, by which aider knows the protocol.',
      files: [
        sh(`export OPENAI_API_BASE=${base}
export OPENAI_API_KEY={{key}}
aider --model openai/{{model}}`),
      ],
    },
    {
      id: 'continue',
      name: 'Continue',
      about: 'A model in the configuration.',
      files: [
        {
          path: '~/.continue/config.yaml',
          language: 'yaml',
          keeps: ['name', 'version', 'schema'],
          text: `name: Weir
version: 1.0.0
schema: v1
models:
  - name: Weir
    provider: openai
    model: {{model}}
    apiBase: ${base}
    apiKey: {{key}}`,
        },
      ],
    },
    {
      id: 'open-webui',
      name: 'Open WebUI',
      about: 'Two variables of its environment; it lists every model by itself.',
      files: [
        sh(`docker run -p 3000:8080 \\
  -e OPENAI_API_BASE_URL=${base} \\
  -e OPENAI_API_KEY={{key}} \\
  ghcr.io/open-webui/open-webui:main`),
      ],
    },
    {
      id: 'librechat',
      name: 'LibreChat',
      about: 'An endpoint in its configuration; it lists every model by itself.',
      files: [
        {
          path: null,
          language: 'yaml',
          text: `# in librechat.yaml
endpoints:
  custom:
    - name: Weir
      apiKey: {{key}}
      baseURL: ${base}
      models:
        default: ["{{model}}"]
        fetch: true`,
        },
      ],
    },
    {
      id: 'n8n',
      name: 'n8n',
      about:
        'A credential of the kind “OpenAi”, made in the page Credentials or imported from a file weir-credential.json with this text; the node ' +
        '“OpenAI Chat Model” then takes any model, by its id.',
      files: [
        {
          path: null,
          language: 'json',
          text: JSON.stringify(
            [{ id: 'weir', name: 'Weir', type: 'openAiApi', data: { apiKey: '{{key}}', url: base } }],
            null,
            2,
          ),
        },
        sh('n8n import:credentials --input=weir-credential.json'),
      ],
    },
    {
      id: 'cursor',
      name: 'Cursor',
      about:
        'Under Settings, Models: switch “Override OpenAI Base URL” on, give these two, and add the model by its name. ' +
        'Cursor asks from its own servers, so the address must be public.',
      files: [
        sh(`OPENAI_BASE_URL=${base}
OPENAI_API_KEY={{key}}
OPENAI_MODEL={{model}}`),
      ],
    },
    {
      id: 'zed',
      name: 'Zed',
      about: 'A provider in its settings; the key comes from the environment, or is asked for once.',
      files: [
        {
          path: '~/.config/zed/settings.json',
          language: 'json',
          text: JSON.stringify(
            {
              language_models: {
                openai_compatible: {
                  Weir: {
                    api_url: base,
                    available_models: [{ name: '{{model}}', max_tokens: 200_000 }],
                  },
                },
              },
            },
            null,
            2,
          ),
        },
        sh('export WEIR_API_KEY={{key}}\nzed'),
      ],
    },
    {
      id: 'vscode',
      name: 'VS Code',
      about:
        'A model of your own in the chat: “Chat: Manage Language Models”, then the provider “OpenAI Compatible”, or this ' +
        'in the settings. VS Code asks for the key when the model is first used.',
      files: [
        {
          path: '.vscode/settings.json',
          language: 'json',
          text: JSON.stringify(
            {
              'github.copilot.chat.customOAIModels': {
                '{{model}}': {
                  name: 'Weir',
                  url: `${base}/chat/completions`,
                  toolCalling: true,
                  vision: true,
                  maxInputTokens: 200_000,
                  maxOutputTokens: 16_000,
                  requiresAPIKey: true,
                },
              },
            },
            null,
            2,
          ),
        },
        sh('code . # asks for {{key}}'),
      ],
    },
    {
      id: 'goose',
      name: 'Goose',
      about: 'Variables of its environment; the address is without a version here.',
      files: [
        sh(`export GOOSE_PROVIDER=openai
export OPENAI_HOST=${origin}
export OPENAI_API_KEY={{key}}
export GOOSE_MODEL={{model}}
goose session`),
      ],
    },
  ]
}

// Adds a client's settings to its user's configuration file, keeping everything else, comments included.

type Values = Readonly<Record<string, unknown>>
type Language = 'json' | 'toml' | 'yaml'

/** The file cannot be changed without losing something of it. */
export class UnmergeableFile extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'UnmergeableFile'
  }
}

/**
 * The text of `existing` with the settings of `addition` in it, which stand above what was there, except for those
 * named in `keeps` (YAML only). Throws UnmergeableFile for a file that is not understood, or could not be changed
 * exactly.
 */
export function mergedFile(
  language: Language,
  existing: string,
  addition: string,
  keeps: readonly string[] = [],
): string {
  const before = parseFile(language, existing)
  const kept = keeps.filter((name) => Object.hasOwn(before, name))
  const added = kept.length === 0 ? addition : withoutRoots(addition, kept)
  const wanted = mergeValues(before, parseFile(language, added))
  const text = writers[language](existing, added, wanted)
  if (!isDeepStrictEqual(parseFile(language, text), wanted))
    throw new UnmergeableFile('its settings could not be changed without losing others')
  return text
}

const writers: Readonly<Record<Language, (existing: string, addition: string, wanted: Values) => string>> = {
  json: (_existing, _addition, wanted) => `${JSON.stringify(wanted, null, 2)}\n`,
  toml: (existing, addition) => withToml(existing, addition),
  yaml: (existing, addition) => withYaml(existing, addition),
}

function parseFile(language: Language, text: string): Values {
  try {
    const value: unknown =
      text.trim() === ''
        ? {}
        : language === 'json'
          ? JSON.parse(text)
          : language === 'toml'
            ? Bun.TOML.parse(text)
            : (parseDocument(text).toJS() ?? {})
    if (isValues(value)) return JSON.parse(JSON.stringify(value)) as Values
  } catch (cause) {
    throw new UnmergeableFile(`it is not understood as ${language.toUpperCase()}`, { cause })
  }
  throw new UnmergeableFile('it holds no settings')
}

/** Maps are merged; lists take the new entries, those of the same name in the place of the old. */
function mergeValues(before: Values, more: Values): Values {
  const all = Object.entries(more).map(([name, value]) => {
    const old = before[name]
    if (isValues(old) && isValues(value)) return [name, mergeValues(old, value)]
    if (Array.isArray(old) && Array.isArray(value)) return [name, mergedList(old, value)]
    return [name, value]
  })
  return { ...before, ...Object.fromEntries(all) }
}

function mergedList(before: readonly unknown[], more: readonly unknown[]): readonly unknown[] {
  const list = [...before]
  for (const entry of more) {
    const at = list.findIndex((old) => isSameName(old, entry))
    if (at === -1) list.push(entry)
    else list[at] = entry
  }
  return list
}

function isSameName(a: unknown, b: unknown): boolean {
  return isValues(a) && isValues(b) && typeof a['name'] === 'string' && a['name'] === b['name']
}

/** Settings of the root go before the first table; a table of the addition replaces the one with its name. */
function withToml(existing: string, addition: string): string {
  const [root, ...tables] = sections(addition)
  let [head = '', ...kept] = sections(existing)
  for (const line of root!.split('\n').filter((text) => text.trim() !== '')) {
    const name = line.slice(0, line.indexOf('=')).trim()
    const old = new RegExp(`^[ \\t]*${name}[ \\t]*=.*$`, 'm')
    head = old.test(head) ? head.replace(old, () => line) : `${line}\n${head}`
  }
  const headers = tables.map(headerOf)
  kept = kept.filter((table) => !headers.includes(headerOf(table)))
  const parts = [head, ...kept, ...tables].map((part) => part.trimEnd()).filter((part) => part !== '')
  return `${parts.join('\n\n')}\n`
}

/** The text before the first table, and each table with its header. */
function sections(text: string): string[] {
  return text.split(/^(?=[ \t]*\[)/m).reduce<string[]>((all, part, at) => {
    if (at === 0 && /^[ \t]*\[/.test(part)) all.push('')
    all.push(part)
    return all
  }, [])
}

function headerOf(table: string): string {
  return table.trim().split('\n', 1)[0]!.trim()
}

function withoutRoots(yaml: string, names: readonly string[]): string {
  const document = parseDocument(yaml)
  for (const name of names) document.delete(name)
  return document.toString()
}

function withYaml(existing: string, addition: string): string {
  const document = parseDocument(existing)
  // Nothing, or comments alone.
  if (document.contents === null) return `${existing.trimEnd()}\n${addition}`.trimStart()
  const more = parseFile('yaml', addition)
  for (const [name, value] of Object.entries(more)) {
    const old = document.get(name)
    if (!isSeq(old) || !Array.isArray(value)) document.set(name, document.createNode(value))
    else
      for (const entry of value as unknown[]) {
        const at = old.items.findIndex((item) => isMap(item) && isSameName(item.toJS(document), entry))
        if (at === -1) old.add(document.createNode(entry))
        else old.items[at] = document.createNode(entry)
      }
  }
  return document.toString()
}

function isValues(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
