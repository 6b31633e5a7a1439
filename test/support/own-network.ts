// Programs that listen on every address are run in a network of their own, where the system allows that.

import { spawnSync } from 'node:child_process'

const isolated =
  spawnSync('unshare', ['-rn', 'ip', 'link', 'set', 'lo', 'up'], { stdio: 'ignore' }).status === 0

/** The command, run where nobody else can reach what it starts; as it is where the system does not allow that. */
export function inOwnNetwork(command: readonly string[]): readonly string[] {
  if (!isolated) return command
  return ['unshare', '-rn', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...command]
}
