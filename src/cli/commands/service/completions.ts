// `weir completions bash|zsh|fish`: a script that completes commands and options, made from the definition of the
// command line.

import type { Command } from 'commander'
import { usageFault } from '../../context.ts'

/** A command for completion: its path, and what may follow it. */
interface Completable {
  /** The words after `weir`, such as `keys create`; empty for `weir`. */
  readonly path: string
  /** Names of subcommands, and every option in its long form. */
  readonly words: readonly string[]
}

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** The script for a shell's start-up file. Throws CommandFailure (usage) for an unknown shell. */
export function completionScript(shell: string, weir: Command): string {
  const known = shells.find((name): name is Shell => name === shell)
  if (known === undefined) throw usageFault(`completions are written for ${shells.join(', ')}, not ${shell}`)
  const commands = completable(weir)
  return known === 'fish' ? fishScript(commands) : bashScript(commands, known)
}

function completable(command: Command, path: readonly string[] = []): readonly Completable[] {
  const options = command.createHelp()
  const words = [
    ...options.visibleCommands(command).map((child) => child.name()),
    ...[...options.visibleOptions(command), ...options.visibleGlobalOptions(command)].flatMap(
      ({ long }) => long ?? [],
    ),
  ]
  return [
    { path: path.join(' '), words: [...new Set(words)] },
    ...command.commands.flatMap((child) => completable(child, [...path, child.name()])),
  ]
}

/** The longest known path among the typed words decides; zsh runs the same script with its bash emulation. */
function bashScript(commands: readonly Completable[], shell: 'bash' | 'zsh'): string {
  const cases = commands.map(({ path, words }) => `    '${path}') words='${words.join(' ')}' ;;`)
  const known = commands.flatMap(({ path }) => (path === '' ? [] : [`'${path}'`]))
  return [
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_weir() {',
    '  local path="" word words',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "${path:+$path }$word" in',
    `      ${known.join('|')}) path="\${path:+$path }$word" ;;`,
    '    esac',
    '  done',
    '  case "$path" in',
    ...cases,
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _weir weir',
    '',
  ].join('\n')
}

function fishScript(commands: readonly Completable[]): string {
  const lines = commands.flatMap(({ path, words }) => {
    const children = words.filter((word) => !word.startsWith('--'))
    const seen = path === '' ? [] : path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
    // A group's commands are offered until one of them has been typed.
    const open = children.length > 0 ? [`not __fish_seen_subcommand_from ${children.join(' ')}`] : []
    const condition = [...seen, ...open].join('; and ')
    const when = condition === '' ? '' : ` -n '${condition}'`
    return words.map((word) =>
      word.startsWith('--')
        ? `complete -c weir${when} -l ${word.slice(2)}`
        : `complete -c weir -f${when} -a ${word}`,
    )
  })
  return `${lines.join('\n')}\n`
}
